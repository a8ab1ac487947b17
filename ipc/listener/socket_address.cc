// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/listener/socket_address.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/shm_name.h"

namespace tenon {
namespace {

// A path is ended by a zero byte, an abstract name by its size.
constexpr size_t kMaxLength = sizeof(sockaddr_un::sun_path) - 1;

absl::Status BadAddress(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(
      "address '", absl::CHexEscape(text.substr(0, 200)), "' ", why));
}

}  // namespace

absl::StatusOr<SocketAddress> SocketAddress::Parse(absl::string_view text) {
  const bool is_abstract = absl::StartsWith(text, "@");
  if (!is_abstract && !absl::StartsWith(text, "/")) {
    return BadAddress(text, "is neither an absolute path nor '@' and a name");
  }
  if (text.size() < 2) return BadAddress(text, "has no name");
  if (absl::StrContains(text, '\0')) return BadAddress(text, "has a zero byte");
  if (text.size() > kMaxLength) {
    return BadAddress(text, absl::StrCat("has ", text.size(),
                                         " bytes; want at most ", kMaxLength));
  }
  SocketAddress result;
  result.address.sun_family = AF_UNIX;
  std::memcpy(result.address.sun_path, text.data(), text.size());
  if (is_abstract) result.address.sun_path[0] = '\0';
  result.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) +
                                       text.size() + (is_abstract ? 0 : 1));
  return result;
}

absl::StatusOr<std::string> MakeAbstractName(absl::string_view prefix) {
  TENON_ASSIGN_OR_RETURN(const std::string name, MakeShmName(prefix));
  return absl::StrCat("@", name);
}

}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/packed_call.h"

#include <cstdint>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/archive.h"
#include "tenon/shm/status_macros.h"

namespace tenon::spawn {

absl::Status SignatureMismatch(absl::string_view what, absl::string_view takes,
                               absl::string_view given) {
  return absl::InvalidArgumentError(
      absl::StrCat(what, " takes ", takes, " and was given ", given));
}

absl::StatusOr<absl::string_view> CheckCall(absl::string_view bytes,
                                            const std::string& signature) {
  ArchiveReader reader(bytes);
  const absl::StatusOr<uint32_t> magic = reader.Get<uint32_t>();
  if (!magic.ok() || *magic != kCallMagic) {
    return absl::InvalidArgumentError(
        absl::StrCat("the function takes ", signature,
                     " and was started without typed arguments (start.h)"));
  }
  TENON_ASSIGN_OR_RETURN(const std::string given, reader.GetString());
  if (given != signature) {
    return SignatureMismatch("the function", signature, given);
  }
  return bytes.substr(sizeof(*magic) + sizeof(uint64_t) + given.size());
}

}  // namespace tenon::spawn

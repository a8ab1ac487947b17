// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm_manager/torch_message.h"

#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tenon/shm/segment/shm_name.h"

namespace tenon {
namespace {

constexpr size_t kFreeOffset = 4;
constexpr size_t kNameOffset = 5;
constexpr size_t kNameBytes = 60;  // With the slash and the zero byte.

static_assert(sizeof(pid_t) == kFreeOffset);
static_assert(kMaxTorchNameLength + 2 == kNameBytes);

absl::Status Malformed(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("shm_manager: torch: ", what));
}

// Removes a number from the front. Whether there was one.
bool ConsumeNumber(absl::string_view* text) {
  const size_t digits =
      std::min(text->find_first_not_of("0123456789"), text->size());
  text->remove_prefix(digits);
  return digits > 0;
}

}  // namespace

std::string EncodeTorchMessage(const TorchMessage& message) {
  std::string bytes(kTorchMessageBytes, '\0');
  std::memcpy(bytes.data(), &message.pid, sizeof(message.pid));
  bytes[kFreeOffset] = message.is_free ? 1 : 0;
  bytes[kNameOffset] = '/';
  message.name.copy(bytes.data() + kNameOffset + 1, kMaxTorchNameLength);
  return bytes;
}

absl::StatusOr<TorchMessage> ParseTorchMessage(absl::string_view bytes) {
  if (bytes.size() != kTorchMessageBytes) {
    return Malformed(absl::StrCat("a message of ", bytes.size(),
                                  " bytes; want ", kTorchMessageBytes));
  }
  TorchMessage message;
  std::memcpy(&message.pid, bytes.data(), sizeof(message.pid));
  if (message.pid <= 0) {
    return Malformed(absl::StrCat("pid ", message.pid, " in a message"));
  }
  const auto is_free = static_cast<uint8_t>(bytes[kFreeOffset]);
  if (is_free > 1) {
    return Malformed(absl::StrCat("flag ", is_free,
                                  " in a message; want 0 "
                                  "(register) or 1 (deregister)"));
  }
  message.is_free = is_free == 1;
  absl::string_view name = bytes.substr(kNameOffset, kNameBytes);
  const size_t end = name.find('\0');
  if (end == absl::string_view::npos) {
    return Malformed("a name without a terminating zero byte");
  }
  name = name.substr(0, end);
  if (!absl::ConsumePrefix(&name, "/") || !CheckShmName(name).ok()) {
    return Malformed("a malformed name in a message");
  }
  message.name = std::string(name);
  return message;
}

bool IsTorchName(absl::string_view name) {
  if (name.size() > kMaxTorchNameLength ||
      !absl::ConsumePrefix(&name, kTorchNamePrefix) || !ConsumeNumber(&name)) {
    return false;
  }
  for (int i = 0; i < 2 && absl::ConsumePrefix(&name, "_"); ++i) {
    if (!ConsumeNumber(&name)) return false;
    if (name.empty()) return true;
  }
  return false;
}

}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The messages that torch's processes send to their torch_shm_manager: the
// name of a file in /dev/shm that the sender is about to create or open, or has
// closed. 68 bytes, in the layout and byte order of the machine:
//
//   pid (32 bits) | is_free (8 bits) | "/" name, zero byte (60 bytes) | 3 bytes
//
// The answer to a registration is "OK"; anything else of two bytes is an
// exception in torch. A deregistration has no answer.

#ifndef TENON_SHM_MANAGER_TORCH_MESSAGE_H_
#define TENON_SHM_MANAGER_TORCH_MESSAGE_H_

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/cplusplus_20.h"

namespace tenon {

inline constexpr size_t kTorchMessageBytes = 68;
// Without the slash.
inline constexpr size_t kMaxTorchNameLength = 58;
inline constexpr absl::string_view kTorchAccepted = "OK";
inline constexpr absl::string_view kTorchRefused = "NO";

struct TorchMessage {
  pid_t pid = 0;         // The sender's own word.
  bool is_free = false;  // Else a registration.
  std::string name;      // Without the slash.
};

// `name` is valid and has at most kMaxTorchNameLength characters.
std::string EncodeTorchMessage(const TorchMessage& message);

// `bytes` may be anything; what follows the zero byte of the name is ignored.
// Errors: kDataLoss naming the malformed part.
absl::StatusOr<TorchMessage> ParseTorchMessage(absl::string_view bytes);

inline constexpr absl::string_view kTorchNamePrefix = "torch_";

// Whether torch may have made `name`: "torch_", the pid of the creator, and one
// or two numbers, with underscores between them.
bool IsTorchName(absl::string_view name);

}  // namespace tenon

#endif  // TENON_SHM_MANAGER_TORCH_MESSAGE_H_

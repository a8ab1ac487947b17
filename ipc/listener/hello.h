// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Hello: the first message of each end of a connection, as bytes. It is the
// payload of a frame (frame.h), which has the version, and comes with the
// sender's pidfd; a refusal comes without one.
//
//    0         4         8         24        32
//   +---------+---------+---------+---------+------------------------+
//   | "Helo"  | status  | random  | length  | text of the refusal    |
//   |         | code    | id      | of text |                        |
//   +---------+---------+---------+---------+------------------------+

#ifndef TENON_IPC_LISTENER_HELLO_H_
#define TENON_IPC_LISTENER_HELLO_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/random_id.h"

namespace tenon {

inline constexpr uint32_t kHelloMagic = 0x6f6c6548;
inline constexpr size_t kMaxRefusalText = 512;

struct Hello {
  RandomId id;
  // Why the sender rejects the connection; OK if it accepts. The message is cut
  // to kMaxRefusalText.
  absl::Status refusal;
};

std::string EncodeHello(const Hello& hello);

// `bytes` may be anything. The message of a refusal is made printable. Errors:
// kDataLoss naming the malformed part.
absl::StatusOr<Hello> ParseHello(absl::string_view bytes);

}  // namespace tenon

#endif  // TENON_IPC_LISTENER_HELLO_H_

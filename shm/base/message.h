// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Message: bytes and descriptors that one process sends to another, by a
// channel, a board of descriptors, or within a larger message.

#ifndef TENON_SHM_BASE_MESSAGE_H_
#define TENON_SHM_BASE_MESSAGE_H_

#include <string>
#include <vector>

#include "tenon/shm/base/unique_fd.h"

namespace tenon {

// Ownership: owns its descriptors, which are close-on-exec.
// Trust: a received one is untrusted.
struct Message {
  std::string bytes;
  std::vector<UniqueFd> fds;
};

}  // namespace tenon

#endif  // TENON_SHM_BASE_MESSAGE_H_

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Holds tensors until their receivers have claimed them, or never will: as long
// as any process has a duplicate of a descriptor that is sent with them. Not
// for users.
//
//   TENON_ASSIGN_OR_RETURN(UniqueFd receipt, HoldUntilClosed({frame}));
//   // Send it to any number of processes, and close it. Each of them closes
//   // its own once it has claimed the tensors; the kernel does it for one that
//   // dies, and for a message that is never received.
//
// This process releases the tensors at its next check: while one of its arenas
// has no free block, is trimmed, or a waiting call reaps (tensor_reaper.h).

#ifndef TENON_SPAWN_ARGUMENTS_HOLD_UNTIL_CLOSED_H_
#define TENON_SPAWN_ARGUMENTS_HOLD_UNTIL_CLOSED_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon::spawn {

// Thread-safe. A forked child does not hold its parent's tensors; a process
// forked without exec while this process still has the receipt has a duplicate
// of it.
// Errors: kResourceExhausted at a limit of descriptors; the call needs two, one
// of which stays open as long as the tensors are held.
absl::StatusOr<UniqueFd> HoldUntilClosed(std::vector<Tensor> tensors);

// For a thread about to wait for `fd`: releases tensors whose receipts close,
// until `fd` is readable or hung up, or no tensor is held any more. Errors:
// poll()'s.
absl::Status ReleaseWhileWaiting(int fd);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_ARGUMENTS_HOLD_UNTIL_CLOSED_H_

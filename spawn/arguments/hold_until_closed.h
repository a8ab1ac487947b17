// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Tensors that are held until others have claimed them, or never will: as long
// as anybody has a duplicate of a descriptor that travels with them. Not for
// users.
//
//   TENON_ASSIGN_OR_RETURN(UniqueFd receipt, HoldUntilClosed({frame}));
//   // Send it to any number of processes, and close it. Each of them closes
//   // its own once it has claimed the tensors; the kernel does it for one that
//   // dies, and for a message that nobody will receive.
//
// This process lets go when it next looks: while an arena of it has no free
// block at hand, is trimmed, or something waits that reaps (tensor_reaper.h).

#ifndef TENON_SPAWN_ARGUMENTS_HOLD_UNTIL_CLOSED_H_
#define TENON_SPAWN_ARGUMENTS_HOLD_UNTIL_CLOSED_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon::spawn {

// Thread-safe. A forked child holds nothing of its parent's; one that is forked
// without exec while this process still has the receipt has it as well.
// Errors: kResourceExhausted at a limit of descriptors; it takes two, of which
// one stays as long as the tensors are held.
absl::StatusOr<UniqueFd> HoldUntilClosed(std::vector<Tensor> tensors);

// For who is about to wait for `fd`: lets go of what is taken until it is
// readable or hung up, or nothing is held any more. Errors: poll()'s.
absl::Status LetGoWhileWaiting(int fd);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_ARGUMENTS_HOLD_UNTIL_CLOSED_H_

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// CopyRingFds: the descriptors of one end of a ring, to be sent to the other
// end.

#ifndef TENON_IPC_RING_INTERNAL_RING_FDS_H_
#define TENON_IPC_RING_INTERNAL_RING_FDS_H_

#include "absl/status/statusor.h"
#include "tenon/ipc/ring/ring_offer.h"

namespace tenon {

// Duplicates of `memory` and `bell`, and a pidfd of this process; all
// close-on-exec. Errors: kResourceExhausted at a limit of descriptors.
absl::StatusOr<RingFds> CopyRingFds(int memory, int bell);

}  // namespace tenon

#endif  // TENON_IPC_RING_INTERNAL_RING_FDS_H_

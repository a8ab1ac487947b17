// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// kQuarantine: how long memory that a process held is kept unused after the
// process has ended. Internal to cuda_ipc.

#ifndef TENON_CUDA_IPC_INTERNAL_QUARANTINE_H_
#define TENON_CUDA_IPC_INTERNAL_QUARANTINE_H_

#include "absl/time/time.h"

namespace tenon::cuda_ipc {

// How long a kernel of a process that has ended may still write: its end is
// seen before the driver has torn down its work. A bound by judgement until it
// is measured on a GPU. It holds for receivers that map read-only, too: their
// driver may refuse such a mapping.
inline constexpr absl::Duration kQuarantine = absl::Milliseconds(100);

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_INTERNAL_QUARANTINE_H_

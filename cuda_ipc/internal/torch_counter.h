// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Counters of torch: by which the receiver of a CUDA tensor tells the torch
// process that sent it that it has released the memory. Internal to cuda_ipc.
//
//   0            64          72
//   | references | counter 0 | counter 1 | ...   a file in /dev/shm
//
// torch sets a counter of its own to 1 for each message, and the receiver of
// that message lowers it once. Here the file is read and written by system
// calls and never mapped, because any process of the user may truncate it.
// `references` counts torch's mappings of the file, and stays as it is.
//
// The functions take the file's name as torch sends it, with a slash, and the
// number of a counter. Any thread may call them. Trust: the arguments and the
// file may be anything. At most 8 bytes of a file of torch's name, mode and
// owner are written, and only to lower a positive number.

#ifndef TENON_CUDA_IPC_INTERNAL_TORCH_COUNTER_H_
#define TENON_CUDA_IPC_INTERNAL_TORCH_COUNTER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tenon::cuda_ipc {

// OK if the counter can be released.
// Errors: kInvalidArgument for another name than torch's, and if the file ends
// before the counter; kNotFound if there is no such file, as after the end of
// its torch; kPermissionDenied if it is not a regular, private file of this
// user; kFailedPrecondition if the counter is 0.
absl::Status CheckTorchCounter(absl::string_view file, int64_t counter);

// Lowers the counter by one. Errors: as above.
absl::Status ReleaseTorchCounter(absl::string_view file, int64_t counter);

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_INTERNAL_TORCH_COUNTER_H_

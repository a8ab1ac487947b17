// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// OrderDLPackConsumer: what `__dlpack__(stream=...)` promises a consumer.
//
//   // The consumer has given the number of its stream. Work up to the fence
//   // `written` fills `tensor`.
//   TENON_RETURN_IF_ERROR(OrderDLPackConsumer(tensor, written, number));
//   TENON_ASSIGN_OR_RETURN(DLPackTensor out, ToDLPack(tensor));
//
// In the other direction, `theirs.__dlpack__(stream=number)` of another library
// orders the stream of that number: pass one of this process, or 1 and
// synchronize the legacy stream, and then FromDLPack().
//
// The way back has no stream: a consumer's work on the tensor has ended before
// it calls the deleter (tensor/exchange/dlpack.h).

#ifndef TENON_CUDA_IPC_DLPACK_STREAM_H_
#define TENON_CUDA_IPC_DLPACK_STREAM_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "tenon/cuda_ipc/fence.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon::cuda_ipc {

// Work that the consumer enqueues to its stream from now on begins once
// `filled` is reached. `stream` is as the array API has it, on the tensor's
// device: nothing or 1 for the legacy default stream, 2 for the per-thread
// default stream of the calling thread, -1 for no order, else a CUstream of the
// primary context. For a tensor of the CPU: nothing or -1, and the fence must
// be reached. Thread-safe; blocks as Fence::WaitOn(). Errors: kInvalidArgument
// for 0, which CUDA uses for both default streams, for other negative numbers,
// and for a stream of the CPU; Fence::Check()'s for a tensor of the CPU;
// Fence::WaitOn()'s; those of DeviceContexts.
absl::Status OrderDLPackConsumer(const Tensor& tensor, const Fence& filled,
                                 std::optional<int64_t> stream);

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_DLPACK_STREAM_H_

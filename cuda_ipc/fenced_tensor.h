// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// FencedTensor: a tensor that a stream may still be filling, in messages.
//
//   // The sender, without waiting for `stream`:
//   TENON_ASSIGN_OR_RETURN(Fence filled, timeline->Record());
//   TensorMessage message;
//   AddFenced(message, {tensor, filled});
//   TENON_RETURN_IF_ERROR(queue.Put(message, deadline));
//
//   // The receiver:
//   TENON_ASSIGN_OR_RETURN(FencedTensor got, GetFenced(taken, 0));
//   TENON_RETURN_IF_ERROR(got.fence.WaitOn(*gpu, theirs));
//
// Thread-compatible, as TensorMessage. The receiver may forward both.

#ifndef TENON_CUDA_IPC_FENCED_TENSOR_H_
#define TENON_CUDA_IPC_FENCED_TENSOR_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "tenon/cuda_ipc/fence.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon::cuda_ipc {

struct FencedTensor {
  Tensor tensor;
  Fence fence;  // The tensor has its contents from here on.
};

// The fields that AddFenced() appends: the tensor, the value of the fence, and
// its timeline. A fence that is reached by now is sent as a 0 alone.
inline constexpr size_t kFencedFields = 3;

void AddFenced(TensorMessage& message, const FencedTensor& fenced);

// The fields at `index` and after it. Errors: those of TensorMessage's
// accessors and of Fence::FromParts().
absl::StatusOr<FencedTensor> GetFenced(const TensorMessage& message,
                                       size_t index);

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_FENCED_TENSOR_H_

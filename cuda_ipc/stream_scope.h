// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// StreamScope: the current stream of a device, for a thread and a time.
//
//   const StreamScope scope(*gpu, stream);
//   // Kernels on `stream` use `tensor`; then, before it is dropped,
//   TENON_RETURN_IF_ERROR(RecordUse(tensor));
//
// Stream futures (stream_future.h) record and await values on current streams.
// There is no default: a thread without a scope has no current stream, and what
// needs one fails, so that no synchronization is left out unnoticed.

#ifndef TENON_CUDA_IPC_STREAM_SCOPE_H_
#define TENON_CUDA_IPC_STREAM_SCOPE_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/device_context.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon::cuda_ipc {

// Ownership: refers to the stream, which outlives it. Neither the driver's
//   current context nor other libraries' current streams change.
// Threads: of the thread that made it; scopes of a thread end in the reverse
//   order of their beginning.
// Processes: as the stream.
class [[nodiscard]] StreamScope {
 public:
  // `stream` is of the primary context of `device`.
  StreamScope(const DeviceContext& device, CUstream stream);
  // The stream before is the current one again.
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;
};

// That of the innermost scope of this thread for the device.
// Errors: kFailedPrecondition naming the device if there is none.
absl::StatusOr<CUstream> CurrentStream(const DeviceContext& device);

// Keeps the memory of `tensor` from being reused until the work that has been
// enqueued to the current stream of its device until now has ended, though all
// tensors are dropped meanwhile. No effect for a tensor of the CPU. Never
// blocks. Errors: kFailedPrecondition if the stream is under capture by a
// graph; those of CudaError, DeviceContexts and CurrentStream();
// kResourceExhausted.
absl::Status RecordUse(const Tensor& tensor);

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_STREAM_SCOPE_H_

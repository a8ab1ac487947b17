// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// DLPack: tensors to and from other libraries in this process (torch, numpy,
// jax, ...), without a copy.
//
//   // Out: the consumer of the pointer calls its deleter once.
//   TENON_ASSIGN_OR_RETURN(DLPackTensor out, ToDLPack(tensor));
//   DLManagedTensorVersioned* managed = out.release();
//
//   // In: the deleter is called when the last tensor over it is gone.
//   TENON_ASSIGN_OR_RETURN(Tensor in, FromDLPack(DLPackTensor(theirs)));
//
// There are two structs: the versioned one of DLPack 1.x, and the legacy one of
// 0.x. Prefer the first if the other library supports it; it alone can mark a
// tensor as read-only.
//
// Devices: those of the CPU (kDLCPU, and pinned memory, kDLCUDAHost) and those
// whose driver's target is linked (tensor/device_memory.h). No stream is
// involved, in neither direction: whoever passes a tensor on has waited for the
// kernels that write it, and work of a consumer has ended before its deleter is
// called. Python's `__dlpack__(stream=...)` promises more: its implementation
// over these functions calls OrderDLPackConsumer() (//cuda_ipc:dlpack_stream).

#ifndef TENON_SHM_TENSOR_EXCHANGE_DLPACK_H_
#define TENON_SHM_TENSOR_EXCHANGE_DLPACK_H_

#include <memory>

#include "absl/status/statusor.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/third_party/dlpack/dlpack_versioned.h"

namespace tenon {

struct DLPackDeleter {
  template <typename Managed>
  void operator()(Managed* managed) const {
    if (managed->deleter != nullptr) managed->deleter(managed);
  }
};

// Owns a producer's struct; may be destroyed in any thread.
using DLPackTensor = std::unique_ptr<DLManagedTensorVersioned, DLPackDeleter>;
using LegacyDLPackTensor = std::unique_ptr<DLManagedTensor, DLPackDeleter>;

// Lends the tensor's memory to another library. The result keeps the storage
// alive and its address the same (Share() fails meanwhile) until its deleter is
// called. data points to the first element on the tensor's device, and
// byte_offset is 0. The device's number is this process's.
//
// Thread-safe, as Tensor is. The library cannot tell shared memory from private
// memory, and knows nothing of the agreements between the processes.
// Errors: kFailedPrecondition for a shared or device tensor inherited by
// fork(), and for a read-only one in the legacy form, which cannot express
// that.
absl::StatusOr<DLPackTensor> ToDLPack(const Tensor& tensor);
absl::StatusOr<LegacyDLPackTensor> ToLegacyDLPack(const Tensor& tensor);

// A tensor over another library's memory: read-only if the flags say so, else
// writable. Takes `managed` over in any case: on an error its deleter has been
// called. In a forked child the deleter is not called.
//
// The producer is code of this process and trusted as such: the struct is
// checked, but whether it points to valid memory can be checked only as far as
// a device's driver tells.
// Errors: kInvalidArgument if it is null, of another major version, on a device
// of no known type or of a negative number, of a dtype, rank or shape that
// TensorSpec rejects, has elements but no data, or data that the device's
// driver rejects; kNotFound if the driver knows no such device, and others of
// its errors; kFailedPrecondition naming the target to link for CUDA.
absl::StatusOr<Tensor> FromDLPack(DLPackTensor managed);
absl::StatusOr<Tensor> FromDLPack(LegacyDLPackTensor managed);

}  // namespace tenon

#endif  // TENON_SHM_TENSOR_EXCHANGE_DLPACK_H_

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// FromTorch: a CUDA tensor that a process of torch shares becomes a Tensor,
// without a copy.
//
//   // `shared` has the values of torch's reduce_tensor(), see TorchTensor.
//   TENON_ASSIGN_OR_RETURN(Tensor received, FromTorch(shared, deadline));
//   // When the last tensor over it is gone, torch reuses the memory.
//
// docs/cuda_ipc.md shows the sender's side.

#ifndef TENON_CUDA_IPC_TORCH_TENSOR_H_
#define TENON_CUDA_IPC_TORCH_TENSOR_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon::cuda_ipc {

// The arguments that torch.multiprocessing pickles for a CUDA tensor, those of
// rebuild_cuda_tensor(), by torch's names and in its order; without tensor_cls
// and storage_cls, which are classes of Python. A value, which keeps nothing
// alive: torch keeps the memory until the counter is 0.
//
// A message has one receiver, which takes it once: torch counts messages.
struct TorchTensor {
  std::vector<int64_t> tensor_size;
  std::vector<int64_t> tensor_stride;  // In elements.
  int64_t tensor_offset = 0;           // In the storage, in elements.
  DLDataType dtype = {kDLFloat, 32, 1};
  int storage_device = 0;            // Ordinal, as the sender sees it.
  std::string storage_handle;        // 64 bytes, or torch's prefix and 64.
  int64_t storage_size_bytes = 0;    // Of the storage.
  int64_t storage_offset_bytes = 0;  // In the allocation.
  bool requires_grad = false;        // Has no effect.
  std::string ref_counter_handle;    // A file in /dev/shm, with a slash.
  int64_t ref_counter_offset = 0;    // The number of a counter in it.
  std::string event_handle;          // 64 bytes, if the next is true.
  bool event_sync_required = false;

  // Not of torch: which device it is, in any process. Without it,
  // `storage_device` is an ordinal of this process, as torch takes it: then
  // both must see the same devices in the same order.
  std::optional<std::array<uint8_t, 16>> device_uuid;
};

// A tensor over memory that a process of torch has shared. Blocks until the
// sender's event has fired, so that the contents are there, and opens the
// allocation if it is not open yet (some 200 us).
//
// Ownership: torch keeps the memory until the last tensor over it is gone here
//   and in processes that got it from this one: it can be sent on as any other
//   tensor, which torch itself refuses. Dropping it makes no driver call; a
//   thread of this process closes the allocation, and then lowers torch's
//   counter, within some 100 ms. torch frees the memory at its next
//   allocation, or by torch.cuda.ipc_collect(). Before this process ends, call
//   TrimDeviceTensors() (device_tensor.h): otherwise torch keeps the memory of
//   the tensors that were dropped last.
// Order: by the host. Synchronize the streams that use the tensor before it is
//   dropped, or call StreamTimeline::RecordUse().
// Threads: any.
// Death: if this process is killed, torch keeps the memory until it ends
//   itself: it does not know its receivers. If torch ends, CUDA does not
//   document what the memory is; the tensor can still be dropped.
// Trust: the message may be anything. Its sender chooses which memory of the
//   driver it names, and can change the contents at any time.
// Failure: a failed call leaves the message as it is: call again, or
//   ReleaseTorch().
// Errors: kInvalidArgument naming the field, also if the range exceeds the
// allocation, or the memory was freed, or its torch has ended; kUnimplemented
// if the memory is of an expandable segment of torch, or the handle of a newer
// torch; kNotFound if this process does not see the device, or the counter's
// file is gone; kFailedPrecondition if the counter is 0 already, or the memory
// is of this process; kDeadlineExceeded if the event has not fired, as that of
// a killed process never does; kPermissionDenied if the counter's file is not a
// private file of this user; those of CudaError.
absl::StatusOr<Tensor> FromTorch(const TorchTensor& message, Deadline deadline);

// Releases a message that is not received. Once, and not after FromTorch().
// Errors: kInvalidArgument, kNotFound, kPermissionDenied and
// kFailedPrecondition of the counter, as above.
absl::Status ReleaseTorch(const TorchTensor& message);

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_TORCH_TENSOR_H_

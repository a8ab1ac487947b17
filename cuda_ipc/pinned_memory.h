// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Pinned memory: segments of arenas of the CPU that are registered with the
// CUDA driver, so that devices copy from them and to them at full speed while
// the CPU does other work. Processes that write the memory need no CUDA.
//
//   TENON_ASSIGN_OR_RETURN(Tensor batch, queue.GetTensor(deadline));
//   TENON_RETURN_IF_ERROR(PinMemory(batch));  // Its segment, once.
//   TENON_ASSIGN_OR_RETURN(Tensor on_gpu, batch.To({kDLCUDA, 0}));
//
// A segment is registered in this process alone, whether it belongs to an arena
// of this process or of another. Its pages are allocated first, so a segment
// that is half empty costs its whole size. It is unregistered by a thread of
// the process, and then unmapped, when the arena needs it no more: after the
// owner has returned it to the system (Arena::Trim()), or with its last tensor
// here. An arena never truncates a segment or punches holes in it, as then
// devices and CPU would see different pages; seals keep any process from it,
// but for segments that are shared by name, which have none.
//
// Trust: the owner of an arena decides how large its segments are. A received
// segment whose pages its owner has not allocated costs its whole size here, so
// ArenaTensorImporterOptions::max_bytes also bounds what is pinned.
//
// To link this target is to let LoaderOptions::pin_memory work.

#ifndef TENON_CUDA_IPC_PINNED_MEMORY_H_
#define TENON_CUDA_IPC_PINNED_MEMORY_H_

#include "absl/status/status.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon::cuda_ipc {

// Pins the segment of `tensor`, which is in an arena of the CPU. The first call
// for a segment blocks for as long as the driver takes, some 50 to 250 ms for
// each GiB; further ones make no driver call. Needs no current context: the
// registration is of the device whose context is current in this thread, else
// of device 0, and is valid for all devices. Thread-safe.
// Errors: kInvalidArgument if the tensor is not in an arena of the CPU; those
// of DeviceContexts; kUnimplemented if the device cannot register memory, or
// none that is mapped read-only here, as memory of other processes is;
// kResourceExhausted naming the limit. A refusal of a segment is final.
absl::Status PinMemory(const Tensor& tensor);

// Whether the segment of `tensor` is pinned in this process. Thread-safe.
bool IsPinned(const Tensor& tensor);

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_PINNED_MEMORY_H_

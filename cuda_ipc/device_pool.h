// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// DevicePool: tensors in the memory of a GPU, which other processes receive
// without a copy and without a driver call for each.
//
//   TENON_ASSIGN_OR_RETURN(auto pool, DevicePool::Create(0));
//   TENON_ASSIGN_OR_RETURN(Tensor frame, pool->CreateTensor(
//                                            kDtypeOf<float>, {3, 480, 640},
//                                            deadline));
//   TENON_RETURN_IF_ERROR(frame.CopyFrom(image));  // Or by a kernel.
//   TENON_RETURN_IF_ERROR(queue.Put(frame, deadline));
//
// A pool is an Arena (tenon/shm/arena/arena.h) whose blocks are in device
// memory: what is sent, received, forwarded, sent back, reclaimed after a death
// and reported is the same code as for memory of the CPU. A receiver needs to
// link this target, or //cuda_ipc:device_tensor.
//
// Order: a tensor that a stream still writes is sent with a fence, and its uses
// by streams are recorded before it is dropped (fence.h). Else synchronize the
// streams that write a tensor before it is sent, and those that use it before
// it is dropped.

#ifndef TENON_CUDA_IPC_DEVICE_POOL_H_
#define TENON_CUDA_IPC_DEVICE_POOL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "tenon/cuda_ipc/device_context.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_options.h"
#include "tenon/shm/arena/holder_use.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon::cuda_ipc {

struct DevicePoolOptions {
  // For messages and reports; at most 39 printable characters.
  std::string name = "device";
  // For all segments together. Whole segments count, including their free
  // blocks.
  size_t quota_bytes = std::numeric_limits<size_t>::max();
  // See Arena::CheckHolder().
  size_t quota_bytes_per_holder = std::numeric_limits<size_t>::max();
  // The maximum number of tensors at a time: ArenaOptions::max_blocks.
  uint64_t max_blocks = uint64_t{1} << 18;

  // Tensors of similar size share a segment, the unit that is allocated,
  // offered and imported. The first one of a size is about this large, and each
  // further one twice as large. A larger tensor has a segment of its own. All
  // are rounded up to the device's granularity, 2 MiB.
  size_t first_segment_bytes = size_t{2} << 20;
  size_t largest_segment_bytes = size_t{256} << 20;

  // Receivers map the memory read-only, where the driver allows an importer
  // that. A kernel that writes there ends its process's work on all devices, so
  // give a received tensor only to code that does not write: DLPack has no
  // read-only tensors before version 1.
  bool read_only_for_receivers = false;

  // Zeroes a tensor's memory before it is handed out; each waits for the
  // device. Else it has remains of former tensors of the pool.
  bool wipe = false;
};

// Ownership: held by shared_ptr. Tensors keep the memory, not the pool.
// Threads: thread-safe. Creating a tensor in a free block makes no driver call
//   and does not block; calls that grow or trim the pool block other calls that
//   do, for as long as the driver takes.
// Processes: of the process that created it. In a forked child calls fail with
//   kFailedPrecondition.
// Trust: as Arena. Receivers can write the memory, unless
//   `read_only_for_receivers`, and then too where access() of their import says
//   so; the owner's reads are of untrusted bytes.
// Death: tensors of a receiver that died are free again 100 ms after its death
//   is noticed: a kernel of it may run on for a moment. Receivers keep their
//   tensors when the owner exits or dies, can forward them, and keep whole
//   segments of it.
// Failure: a failed call has no visible effect.
class DevicePool {
 public:
  // On the device with this ordinal in this process, or with this UUID. Retains
  // its primary context, which takes some 100 ms the first time; allocates no
  // memory on it yet.
  // Errors: those of DeviceContexts and of Arena::Create(); kUnimplemented if
  // the device cannot share memory by descriptors.
  static absl::StatusOr<std::shared_ptr<DevicePool>> Create(
      int ordinal, const DevicePoolOptions& options = {});
  static absl::StatusOr<std::shared_ptr<DevicePool>> Create(
      const std::array<uint8_t, 16>& uuid,
      const DevicePoolOptions& options = {});
  // Of a context of other DeviceContexts.
  static absl::StatusOr<std::shared_ptr<DevicePool>> Create(
      const DeviceContext& device, const DevicePoolOptions& options = {});

  ~DevicePool();
  DevicePool(const DevicePool&) = delete;
  DevicePool& operator=(const DevicePool&) = delete;

  const DeviceContext& device() const { return device_; }

  // A dense tensor, aligned to 256 bytes. Its elements are undefined unless
  // DevicePoolOptions::wipe. Waits for memory until `deadline`.
  // Errors: those of the function of arena_tensor.h; kFailedPrecondition if the
  // pool is closed; kResourceExhausted with the driver's text if the device is
  // full; at once those of a driver that fails otherwise.
  absl::StatusOr<Tensor> CreateTensor(DLDataType dtype,
                                      absl::Span<const int64_t> shape,
                                      Deadline deadline);

  // For functions that take an arena, such as CreateTensors() or the
  // participants of a TensorQueue; it keeps the memory, also of a closed pool.
  // Null if the pool is closed. CreateTensor() of it saves a lock, some 15 ns.
  std::shared_ptr<Arena> arena() const;

  // Returns segments without tensors to the device, in this process; a receiver
  // keeps a segment until it next receives, or calls Trim() or Sweep() of what
  // it receives with, and a queue in which this process has offered it until
  // Trim() of that queue here. Returns the bytes. Waits for the driver.
  // Errors: kFailedPrecondition if the pool is closed.
  absl::StatusOr<size_t> Trim();

  // As Arena's. Empty if the pool is closed.
  absl::StatusOr<std::vector<HolderUse>> Holders();
  ArenaUse Use() const;

  // Creates no tensor from now on, and waits until `deadline` for all tensors
  // to be dropped, here and in all receivers, and for the 100 ms after the
  // death of one. Then, in any case, drops the pool's own reference: tensors
  // that are left stay valid, in this process and in others. Their memory is
  // freed with the last one, and as Trim() says. No effect if it is closed.
  //
  // Errors: kDeadlineExceeded naming the holders that are left, and how many
  // blocks are quarantined.
  absl::Status Close(Deadline deadline);

 private:
  DevicePool(const DeviceContext& device, std::shared_ptr<Arena> arena)
      : device_(device), arena_(std::move(arena)) {}

  absl::StatusOr<std::shared_ptr<Arena>> Open() const;

  const DeviceContext& device_;
  mutable ThreadMutex mutex_;
  std::shared_ptr<Arena> arena_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_DEVICE_POOL_H_

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// LegacyImports: memory that Tenon did not allocate, shared by the driver's
// legacy handles (cuIpcGetMemHandle).
//
//   // The process that has allocated it, by cuMemAlloc or cudaMalloc:
//   TENON_ASSIGN_OR_RETURN(LegacyExport kept,
//                          legacy.Export(*gpu, address, bytes));
//   // Send kept.handle(), and keep `kept` as long as the memory. Another one:
//   TENON_ASSIGN_OR_RETURN(LegacyMemory opened, legacy.Open(handle));
//
// A legacy handle keeps nothing alive: the exporter must not free the memory,
// nor end, before the last importer has closed it; afterwards an access is
// undefined. Memory of a DevicePool or DeviceAllocation has no such limit, and
// has no legacy handle. Nor has memory of cudaMallocAsync or of PyTorch's
// expandable segments.

#ifndef TENON_CUDA_IPC_LEGACY_MEMORY_H_
#define TENON_CUDA_IPC_LEGACY_MEMORY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/device_context.h"
#include "tenon/shm/base/thread_mutex.h"

namespace tenon::cuda_ipc {

// The message. A value.
struct LegacyHandle {
  CUipcMemHandle allocation;  // All of it; PyTorch takes these 64 bytes.
  uint64_t offset;            // Of the memory in the allocation.
  uint64_t bytes;
  std::array<uint8_t, 16> device;  // UUID.
};

class LegacyMemory;

// Memory that this process has exported. While one exists, LegacyMemory of its
// handle opens here without the driver, which refuses that.
// Ownership: shared by copies; does not own the memory. Threads: any.
class LegacyExport {
 public:
  const LegacyHandle& handle() const { return handle_; }

 private:
  friend class LegacyImports;
  struct Entry;
  LegacyExport(const LegacyHandle& handle, std::shared_ptr<const Entry> entry)
      : handle_(handle), entry_(std::move(entry)) {}

  LegacyHandle handle_;
  std::shared_ptr<const Entry> entry_;
};

// An opened range of memory.
// Ownership: shared by copies. The last one makes no driver call and waits for
//   nothing; LegacyImports closes the handle later.
// Threads: any.
class LegacyMemory {
 public:
  CUdeviceptr address() const { return address_; }
  size_t size() const { return bytes_; }
  // Equal for memory of one opened allocation; otherwise meaningless.
  const void* allocation() const { return kept_.get(); }

 private:
  friend class LegacyImports;
  LegacyMemory(std::shared_ptr<const void> kept, CUdeviceptr address,
               size_t bytes)
      : kept_(std::move(kept)), address_(address), bytes_(bytes) {}

  std::shared_ptr<const void> kept_;
  CUdeviceptr address_;
  size_t bytes_;
};

// The exports and imports of a process.
// Ownership: owns the imports. The destructor closes those without
//   LegacyMemory; others stay open until the process ends.
// Threads: thread-safe. Open() and Sweep() hold a lock while the driver works.
// Processes: of the process that made it.
// Trust: a range is checked against the allocation that the driver opened. A
//   hostile sender can name any memory that its own handle opens.
// Failure: a failed call leaves nothing open.
class LegacyImports {
 public:
  struct Options {
    // Open allocations without LegacyMemory: kept, since opening one takes some
    // 200 microseconds and closing one waits for the device. An exporter's
    // memory may be pinned as long. The least recently opened are closed first,
    // by the next Open().
    size_t max_idle = 16;
  };

  // `devices` outlives it.
  explicit LegacyImports(DeviceContexts& devices);
  LegacyImports(DeviceContexts& devices, const Options& options);
  ~LegacyImports();
  LegacyImports(const LegacyImports&) = delete;
  LegacyImports& operator=(const LegacyImports&) = delete;

  // A handle of `bytes` at `address`, which may be within an allocation of
  // cuMemAlloc. All of the allocation is accessible to a receiver.
  // Errors: kInvalidArgument if it is other memory, or exceeds the allocation;
  // those of CudaError.
  absl::StatusOr<LegacyExport> Export(const DeviceContext& device,
                                      CUdeviceptr address, size_t bytes);

  // The memory of a handle. Each allocation is opened once. Makes no driver
  // call if it is open, or is this process's own.
  // Errors: kNotFound if this process does not see the device; kInvalidArgument
  // if the range exceeds the allocation, or the handle is of memory that was
  // freed; kFailedPrecondition if it is of this process, and no LegacyExport of
  // it exists; else those of CudaError.
  absl::StatusOr<LegacyMemory> Open(const LegacyHandle& handle);

  // Closes all imports without LegacyMemory; waits for the device. Returns how
  // many. Errors: those of CudaError, for the first that failed; it stays open.
  absl::StatusOr<size_t> Sweep();

 private:
  using Key = std::pair<int, std::string>;  // Ordinal, bytes of the handle.
  struct Import;

  absl::StatusOr<size_t> CloseIdle(size_t keep)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::shared_ptr<const Import>> OpenImport(
      const DeviceContext& device, const LegacyHandle& handle)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  DeviceContexts& devices_;
  const Options options_;
  ThreadMutex mutex_;
  std::map<Key, std::weak_ptr<const LegacyExport::Entry>> exports_
      ABSL_GUARDED_BY(mutex_);
  // The least recently opened first.
  std::deque<std::shared_ptr<const Import>> imports_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_LEGACY_MEMORY_H_

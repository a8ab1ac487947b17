// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Storage: the memory behind tensors.
//
//   TENON_ASSIGN_OR_RETURN(auto storage, Storage::CreatePrivate(1 << 20));
//   TENON_ASSIGN_OR_RETURN(std::byte* bytes, storage->Write());
//   TENON_RETURN_IF_ERROR(storage->MoveToSegment());  // `bytes` are gone now.
//
// It is private (heap or anonymous pages), a mapped segment, a block of an
// arena, or memory that another library lends. A storage knows nothing of its
// contents, which a TensorSpec describes. Users of tensors seldom need it.
//
// Blocks and lent memory may be on a device, where the CPU cannot access them.

#ifndef TENON_SHM_TENSOR_STORAGE_H_
#define TENON_SHM_TENSOR_STORAGE_H_

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/tensor/device.h"

namespace tenon {

template <typename T>
class PooledStorage;

enum class MemoryInit {
  kZeros,
  // Previous contents, which may be secrets of this process: overwrite them
  // before sharing.
  kUninitialized,
};

// Ownership: held by shared_ptr; owns its memory, the mapping, and, under
//   kFileDescriptor, the segment's descriptor. Under kFileSystem it keeps the
//   name instead and no descriptor; the creator of the segment owns the name.
// Threads: const calls may run concurrently. MoveToSegment() needs exclusive
//   access to the storage, all tensors over it and their elements.
// Processes: in a forked child shared and device memory is inert: its calls
//   fail with kFailedPrecondition. Other private and lent memory is the child's
//   own copy there; a lender is not notified when the copy is destroyed.
// Trust: the contents of a shared storage are untrusted and may change at any
//   time.
// Failure: a failed call leaves the storage as it was.
class Storage {
 public:
  using Id = Segment::Id;

  // Memory of this process only, aligned to 64 bytes or more. Large storages
  // occupy memory only where they are touched.
  // Errors: kResourceExhausted naming the limit.
  static absl::StatusOr<std::shared_ptr<Storage>> CreatePrivate(
      size_t size_bytes, MemoryInit init = MemoryInit::kZeros);

  // A new segment, which this process may write whatever its kind. One of size
  // 0 has no segment, but counts as shared.
  // Errors: those of Segment::Create...(); kInvalidArgument for size 0 with
  // SegmentOptions::name.
  static absl::StatusOr<std::shared_ptr<Storage>> CreateShared(
      size_t size_bytes, SegmentKind kind, const SegmentOptions& options = {});
  // The same with a copy of `contents`, which is written before it is mapped:
  // no page is zeroed first, and none faults meanwhile.
  // Errors: also kInvalidArgument if `contents` cannot be read (with pages of
  // the hugetlb pool that ends the process instead).
  static absl::StatusOr<std::shared_ptr<Storage>> CreateSharedFrom(
      std::span<const std::byte> contents, SegmentKind kind,
      const SegmentOptions& options = {});

  // Maps a segment: writable if it is of kind kSharedWritable, else read-only.
  // The storage takes over a name that the segment owns.
  // Errors: Segment::Map...()'s.
  static absl::StatusOr<std::shared_ptr<Storage>> FromSegment(Segment segment);

  // Memory that another library lends until the last `lender` is gone.
  struct Lent {
    std::byte* data = nullptr;  // An address on `device`.
    size_t size_bytes = 0;
    bool writable = false;
    std::shared_ptr<void> lender;
    DLDevice device = kCpuDevice;
  };
  static std::shared_ptr<Storage> FromLent(Lent lent);

  // Keeps a block of pooled memory from being reused: the base class of the
  // hold that an arena's tensors have (arena/arena_tensor.h).
  class Lease {
   public:
    virtual ~Lease() = default;
  };
  // Memory of an arena: shared. The storage owns the lease, in one allocation.
  struct Pooled {
    std::byte* data = nullptr;  // An address on `device`.
    size_t size_bytes = 0;
    bool writable = false;  // In this process.
    SegmentKind kind = SegmentKind::kOwnerWritten;
    DLDevice device = kCpuDevice;
  };
  template <std::derived_from<Lease> T>
  static std::shared_ptr<Storage> FromPool(const Pooled& pooled, T lease) {
    return std::make_shared<PooledStorage<T>>(pooled, std::move(lease));
  }

  // The identity of the open file `fd`. Errors: fstat()'s.
  static absl::StatusOr<Id> Identify(int fd, absl::string_view what);

  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  size_t size_bytes() const { return size_bytes_; }
  // Whether other processes can access this memory, too.
  bool is_shared() const {
    return place_ == Place::kShared || place_ == Place::kPooled;
  }
  bool writable() const { return writable_; }
  const DLDevice& device() const { return device_; }
  // Whether the CPU can access the bytes (device.h).
  bool is_on_cpu() const { return on_cpu_; }

  // The bytes, null only if there are none; valid until MoveToSegment().
  // Errors: kFailedPrecondition if the CPU cannot access the device, naming it;
  // in a forked child if shared; for Write() also if the memory is read-only
  // here.
  absl::StatusOr<const std::byte*> Read() const;
  absl::StatusOr<std::byte*> Write() const;
  // The address on device(): for its driver and its kernels, and for code that
  // handles any device.
  // Errors: those of CheckUsable().
  absl::StatusOr<std::byte*> Address() const;

  // OK if this process may use the memory, wherever it is.
  // Errors: kFailedPrecondition in a forked child if it is shared or on a
  // device.
  absl::Status CheckUsable() const;
  bool IsUsable() const;
  // The same, and that it may be written. Errors: also kFailedPrecondition if
  // the memory is read-only here.
  absl::Status CheckWritable() const;

  // Null unless it is memory of an arena.
  const Lease* lease() const { return lease_; }

  // Of a shared storage: the data with which another process can map it. No id
  // if there are no bytes, a name only under kFileSystem, and -1 if there is no
  // descriptor to send.
  const std::optional<Id>& id() const { return id_; }
  SegmentKind kind() const { return kind_; }
  SharingStrategy strategy() const { return strategy_; }
  const std::string& name() const { return name_; }
  int fd() const { return segment_ ? segment_->fd() : -1; }

  // Under kFileSystem: the name stays until its last holder has ended
  // (Segment::LeaveNameToLastHolder()). Else no effect. Thread-safe.
  void LeaveNameToLastHolder() {
    if (segment_) segment_->LeaveNameToLastHolder();
  }

  // Moves private memory into a new shared-writable segment: every tensor over
  // this storage is then over the shared one, and addresses taken before are
  // dangling. No effect if it is shared already, whatever the options.
  // Errors: kFailedPrecondition if the memory is lent or on a device, or its
  // address is pinned (a Pin); those of Segment::CreateSharedWritable().
  absl::Status MoveToSegment(const SegmentOptions& options = {});

  // Keeps a storage alive, and its address the same. Thread-safe.
  class Pin {
   public:
    explicit Pin(std::shared_ptr<Storage> storage);
    ~Pin();
    Pin(const Pin&) = delete;
    Pin& operator=(const Pin&) = delete;

   private:
    std::shared_ptr<Storage> storage_;
  };

 private:
  template <typename T>
  friend class PooledStorage;
  enum class Place : uint8_t { kPrivate, kShared, kPooled, kLent };

  Storage();
  // Of a segment that has just been created.
  static absl::StatusOr<std::shared_ptr<Storage>> OfOwner(
      absl::StatusOr<Segment::OwnerWritten> owned);
  static absl::StatusOr<std::shared_ptr<Storage>> MapNew(
      absl::StatusOr<Segment> segment, const SegmentOptions& options);
  void PlaceInPool(const Pooled& pooled, const Lease* lease);
  void SetDevice(const DLDevice& device) {
    device_ = device;
    on_cpu_ = IsOnCpu(device);
  }
  bool may_be_forked() const { return !is_shared() && on_cpu_; }
  [[gnu::cold]] absl::Status NotOnCpu(absl::string_view remedy) const;
  template <typename Mapping>
  absl::Status Attach(Segment segment, Mapping mapping);

  // First those that a hand-over reads, side by side.
  std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
  // Owns the memory at data_ if set by FromPool(), else null.
  const Lease* lease_ = nullptr;
  uint64_t fork_count_;
  Place place_ = Place::kPrivate;
  bool writable_ = true;
  bool on_cpu_ = true;  // IsOnCpu(device_).
  std::atomic<int> pins_ = 0;
  DLDevice device_ = kCpuDevice;

  // Before the mapping, so that it is the last holder of its name.
  std::optional<Segment> segment_;
  std::shared_ptr<void> memory_;  // Owns the memory at data_.

  std::optional<Id> id_;
  SegmentKind kind_ = SegmentKind::kSharedWritable;
  SharingStrategy strategy_ = SharingStrategy::kFileDescriptor;
  std::string name_;
};

// A storage and its lease in one object, for pools that keep the object of a
// block for the next use of it; others call FromPool().
// T: a Storage::Lease.
template <typename T>
class PooledStorage final : public Storage {
 public:
  template <typename... Args>
  explicit PooledStorage(const Pooled& pooled, Args&&... args)
      : lease_(std::forward<Args>(args)...) {
    PlaceInPool(pooled, &lease_);
  }

  T& lease() { return lease_; }

 private:
  T lease_;
};

}  // namespace tenon

#endif  // TENON_SHM_TENSOR_STORAGE_H_

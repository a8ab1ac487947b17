// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/tensor/storage.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/memory_limit.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/size_text.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/segment_options.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/tensor/device.h"

namespace tenon {
namespace {

constexpr std::align_val_t kAlignment{64};

// Storages of this size and more get anonymous pages, which the kernel zeroes
// at the first touch.
constexpr size_t kPagesFrom = size_t{1} << 20;

absl::StatusOr<std::shared_ptr<void>> AllocateFromHeap(size_t size_bytes,
                                                       MemoryInit init) {
  void* data = operator new(size_bytes, kAlignment, std::nothrow);
  if (data == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "no memory for a tensor's storage of ", SizeText(size_bytes)));
  }
  if (init == MemoryInit::kZeros) std::memset(data, 0, size_bytes);
  return std::shared_ptr<void>(data,
                               [](void* p) { operator delete(p, kAlignment); });
}

absl::StatusOr<std::shared_ptr<void>> AllocatePages(size_t size_bytes) {
  void* data = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    const int error = errno;
    constexpr char kWhat[] = "a tensor's private storage";
    if (error == ENOMEM) {
      // The limit that counts, if it is this one.
      TENON_RETURN_IF_ERROR(CheckMemoryLimit(size_bytes, "mmap", kWhat));
    }
    return PosixError(error, "mmap",
                      absl::StrCat(kWhat, " of ", SizeText(size_bytes)));
  }
  return std::shared_ptr<void>(
      data, [size_bytes](void* p) { munmap(p, size_bytes); });
}

}  // namespace

Storage::Storage() : fork_count_(ForkCount()) {}

absl::StatusOr<std::shared_ptr<Storage>> Storage::CreatePrivate(
    size_t size_bytes, MemoryInit init) {
  std::shared_ptr<Storage> storage(new Storage);
  storage->size_bytes_ = size_bytes;
  if (size_bytes == 0) return storage;
  TENON_ASSIGN_OR_RETURN(storage->memory_,
                         size_bytes < kPagesFrom
                             ? AllocateFromHeap(size_bytes, init)
                             : AllocatePages(size_bytes));
  storage->data_ = static_cast<std::byte*>(storage->memory_.get());
  return storage;
}

absl::StatusOr<std::shared_ptr<Storage>> Storage::CreateShared(
    size_t size_bytes, SegmentKind kind, const SegmentOptions& options) {
  if (size_bytes == 0) {
    TENON_ASSIGN_OR_RETURN(const SharingStrategy strategy, StrategyOf(options));
    if (!options.name.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "SegmentOptions: name '", options.name,
          "' for a storage of 0 bytes, which has no segment; leave `name` "
          "empty, or share at least 1 byte"));
    }
    std::shared_ptr<Storage> storage(new Storage);
    storage->place_ = Place::kShared;
    storage->kind_ = kind;
    storage->strategy_ = strategy;
    return storage;
  }
  if (kind == SegmentKind::kOwnerWritten) {
    return OfOwner(Segment::CreateOwnerWritten(size_bytes, options));
  }
  return MapNew(Segment::CreateSharedWritable(size_bytes, options), options);
}

absl::StatusOr<std::shared_ptr<Storage>> Storage::CreateSharedFrom(
    std::span<const std::byte> contents, SegmentKind kind,
    const SegmentOptions& options) {
  if (contents.empty()) return CreateShared(0, kind, options);
  if (kind == SegmentKind::kOwnerWritten) {
    return OfOwner(Segment::CreateOwnerWritten(contents, options));
  }
  return MapNew(Segment::CreateFilled(contents, kind, options), options);
}

absl::StatusOr<std::shared_ptr<Storage>> Storage::OfOwner(
    absl::StatusOr<Segment::OwnerWritten> owned) {
  if (!owned.ok()) return std::move(owned).status();
  std::shared_ptr<Storage> storage(new Storage);
  TENON_RETURN_IF_ERROR(
      storage->Attach(std::move(owned->segment), std::move(owned->mapping)));
  return storage;
}

absl::StatusOr<std::shared_ptr<Storage>> Storage::MapNew(
    absl::StatusOr<Segment> segment, const SegmentOptions& options) {
  if (!segment.ok()) return std::move(segment).status();
  TENON_ASSIGN_OR_RETURN(WritableMapping mapping,
                         segment->MapWritable({.prefault = options.prefault}));
  std::shared_ptr<Storage> storage(new Storage);
  TENON_RETURN_IF_ERROR(
      storage->Attach(*std::move(segment), std::move(mapping)));
  return storage;
}

absl::StatusOr<std::shared_ptr<Storage>> Storage::FromSegment(Segment segment) {
  std::shared_ptr<Storage> storage(new Storage);
  if (segment.kind() == SegmentKind::kOwnerWritten) {
    TENON_ASSIGN_OR_RETURN(ReadOnlyMapping mapping, segment.MapReadOnly());
    TENON_RETURN_IF_ERROR(
        storage->Attach(std::move(segment), std::move(mapping)));
  } else {
    TENON_ASSIGN_OR_RETURN(WritableMapping mapping, segment.MapWritable());
    TENON_RETURN_IF_ERROR(
        storage->Attach(std::move(segment), std::move(mapping)));
  }
  return storage;
}

std::shared_ptr<Storage> Storage::FromLent(Lent lent) {
  std::shared_ptr<Storage> storage(new Storage);
  storage->place_ = Place::kLent;
  storage->data_ = lent.data;
  storage->size_bytes_ = lent.size_bytes;
  storage->writable_ = lent.writable;
  storage->memory_ = std::move(lent.lender);
  storage->SetDevice(lent.device);
  return storage;
}

void Storage::PlaceInPool(const Pooled& pooled, const Lease* lease) {
  place_ = Place::kPooled;
  data_ = pooled.data;
  size_bytes_ = pooled.size_bytes;
  writable_ = pooled.writable;
  kind_ = pooled.kind;
  lease_ = lease;
  SetDevice(pooled.device);
}

absl::StatusOr<Storage::Id> Storage::Identify(int fd, absl::string_view what) {
  struct stat file;
  if (fstat(fd, &file) != 0) return PosixError(errno, "fstat", what);
  return Id{.device = file.st_dev, .inode = file.st_ino};
}

template <typename Mapping>
absl::Status Storage::Attach(Segment segment, Mapping mapping) {
  TENON_ASSIGN_OR_RETURN(id_, segment.Identify());
  // The name suffices to share it.
  if (segment.strategy() == SharingStrategy::kFileSystem) {
    TENON_RETURN_IF_ERROR(segment.CloseFd());
  }
  auto kept = std::make_shared<Mapping>(std::move(mapping));
  place_ = Place::kShared;
  size_bytes_ = segment.size_bytes();
  writable_ = std::is_same_v<Mapping, WritableMapping>;
  // Only Write() returns it, after a check of writable_.
  data_ = const_cast<std::byte*>(kept->data());
  memory_ = std::move(kept);
  kind_ = segment.kind();
  strategy_ = segment.strategy();
  name_ = segment.name();
  segment_ = std::move(segment);
  fork_count_ = ForkCount();
  return absl::OkStatus();
}

absl::Status Storage::CheckUsable() const {
  if (may_be_forked()) return absl::OkStatus();
  return CheckNotForked(fork_count_, is_shared() ? "a tensor's shared storage"
                                                 : "a tensor's device memory");
}

bool Storage::IsUsable() const {
  return may_be_forked() || fork_count_ == ForkCount();
}

absl::Status Storage::CheckWritable() const {
  TENON_RETURN_IF_ERROR(CheckUsable());
  if (writable_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      is_shared() ? "the tensor is read-only here: its segment is written by "
                    "its owner alone"
                  : "the tensor is read-only: another library lent its memory "
                    "read-only");
}

absl::Status Storage::NotOnCpu(absl::string_view remedy) const {
  TENON_RETURN_IF_ERROR(CheckUsable());
  return absl::FailedPreconditionError(
      absl::StrCat("the tensor is on ", DeviceName(device_),
                   ", which the CPU cannot access; ", remedy));
}

absl::StatusOr<const std::byte*> Storage::Read() const {
  if (!on_cpu_) [[unlikely]]
    return NotOnCpu("copy it to the CPU by Tensor::ToCpu()");
  TENON_RETURN_IF_ERROR(CheckUsable());
  return data_;
}

absl::StatusOr<std::byte*> Storage::Write() const {
  if (!on_cpu_) [[unlikely]]
    return NotOnCpu("write a tensor on the CPU and Tensor::CopyFrom() it");
  TENON_RETURN_IF_ERROR(CheckWritable());
  return data_;
}

absl::StatusOr<std::byte*> Storage::Address() const {
  TENON_RETURN_IF_ERROR(CheckUsable());
  return data_;
}

absl::Status Storage::MoveToSegment(const SegmentOptions& options) {
  if (is_shared()) return CheckUsable();
  if (!on_cpu_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the tensor is on ", DeviceName(device_),
        ", whose memory cannot be moved into a segment; create it in a pool of "
        "the device, or share a copy of it (Tensor::ToCpu())"));
  }
  if (place_ == Place::kLent) {
    return absl::FailedPreconditionError(
        "memory that another library lent cannot be moved: copy the tensor");
  }
  if (pins_.load() != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the tensor's memory cannot be moved: it is lent to another library ",
        pins_.load(), " times"));
  }
  TENON_ASSIGN_OR_RETURN(
      std::shared_ptr<Storage> moved,
      CreateSharedFrom({data_, size_bytes_}, SegmentKind::kSharedWritable,
                       options));
  place_ = moved->place_;
  data_ = moved->data_;
  memory_ = std::move(moved->memory_);
  id_ = moved->id_;
  kind_ = moved->kind_;
  strategy_ = moved->strategy_;
  name_ = std::move(moved->name_);
  segment_ = std::move(moved->segment_);
  fork_count_ = moved->fork_count_;
  return absl::OkStatus();
}

Storage::Pin::Pin(std::shared_ptr<Storage> storage)
    : storage_(std::move(storage)) {
  storage_->pins_.fetch_add(1);
}

Storage::Pin::~Pin() { storage_->pins_.fetch_sub(1); }

}  // namespace tenon

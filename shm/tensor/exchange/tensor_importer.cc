// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/tensor/exchange/tensor_importer.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/size_text.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/tensor/exchange/tensor_handle.h"
#include "tenon/shm/tensor/exchange/tensor_importer_options.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon {
namespace {

constexpr size_t kForgetAtLeast = 128;

absl::Status Refuse(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("tensor handle: ", why));
}

absl::Status CheckDescriptor(const TensorHandle& handle, const UniqueFd& fd) {
  const bool wanted =
      handle.has_segment() &&
      handle.segment_strategy() == SharingStrategy::kFileDescriptor;
  if (fd.valid() == wanted) return absl::OkStatus();
  return Refuse(wanted ? "it came without a descriptor"
                       : "it came with an unexpected descriptor");
}

absl::StatusOr<Segment> OpenSegment(const TensorHandle& handle, UniqueFd fd,
                                    CloseOnExec close_on_exec) {
  if (handle.segment_strategy() == SharingStrategy::kFileSystem) {
    return Segment::Open(handle.segment_name(), handle.segment_kind());
  }
  return Segment::Adopt(std::move(fd), handle.segment_kind(), close_on_exec);
}

}  // namespace

TensorImporter::TensorImporter(const TensorImporterOptions& options)
    : options_(options), fork_count_(ForkCount()) {}

absl::StatusOr<Tensor> TensorImporter::Import(TensorHandle handle,
                                              UniqueFd fd) {
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, "a tensor importer"));
  TENON_RETURN_IF_ERROR(handle.Check());
  TENON_RETURN_IF_ERROR(CheckDescriptor(handle, fd));
  if (static_cast<uint64_t>(handle.spec.bytes()) > options_.max_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "tensor ", handle.spec.ToString(), " has ",
        SizeText(static_cast<uint64_t>(handle.spec.bytes())),
        "; this importer takes at most ", SizeText(options_.max_bytes)));
  }
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<Storage> storage,
                         Find(handle, std::move(fd)));
  return Tensor::FromSpec(handle.spec, std::move(storage));
}

absl::StatusOr<std::shared_ptr<Storage>> TensorImporter::Find(
    const TensorHandle& handle, UniqueFd fd) {
  if (!handle.has_segment()) {
    return Storage::CreateShared(0, handle.segment_kind(),
                                 {.strategy = handle.segment_strategy()});
  }
  TENON_ASSIGN_OR_RETURN(Segment segment, OpenSegment(handle, std::move(fd),
                                                      options_.close_on_exec));
  TENON_ASSIGN_OR_RETURN(const Storage::Id id, segment.Identify());
  if (id != handle.id) {
    return Refuse(absl::StrCat(
        "it is of segment ", handle.id.device, ":", handle.id.inode,
        ", but the received segment is ", id.device, ":", id.inode));
  }
  if (segment.size_bytes() != handle.storage_bytes) {
    return Refuse(absl::StrCat("its storage_bytes is ", handle.storage_bytes,
                               "; the segment has ", segment.size_bytes()));
  }
  return FindOrMap(std::move(segment), id);
}

absl::StatusOr<std::shared_ptr<Storage>> TensorImporter::FindOrMap(
    Segment segment, const Storage::Id& id) {
  const uint64_t size_bytes = segment.size_bytes();
  const SegmentKind kind = segment.kind();
  const ThreadLock lock(&mutex_);
  if (std::shared_ptr<Storage> known = FindKnown(id)) {
    if (known->kind() != kind || known->size_bytes() != size_bytes) {
      return Refuse("it differs from an earlier handle of the same segment");
    }
    return known;
  }
  TENON_RETURN_IF_ERROR(CheckLimits(size_bytes));
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<Storage> storage,
                         Storage::FromSegment(std::move(segment)));
  counted_bytes_ += size_bytes;
  counted_storages_ += 1;
  Remember(id,
           {.storage = storage, .counted_bytes = size_bytes, .counted = true});
  return storage;
}

void TensorImporter::Remember(const Storage::Id& id, const Known& known) {
  known_[id] = known;
  // Rarely, so that the average cost is negligible.
  if (known_.size() < forget_at_) return;
  ForgetDead();
  forget_at_ = std::max(kForgetAtLeast, 2 * known_.size());
}

std::shared_ptr<Storage> TensorImporter::FindKnown(const Storage::Id& id) {
  const auto known = known_.find(id);
  if (known == known_.end()) return nullptr;
  std::shared_ptr<Storage> storage = known->second.storage.lock();
  if (storage == nullptr) Forget(known);
  return storage;
}

void TensorImporter::Forget(std::map<Storage::Id, Known>::iterator known) {
  if (known->second.counted) {
    counted_bytes_ -= known->second.counted_bytes;
    counted_storages_ -= 1;
  }
  known_.erase(known);
}

void TensorImporter::ForgetDead() {
  for (auto known = known_.begin(); known != known_.end();) {
    const auto next = std::next(known);
    if (known->second.storage.expired()) Forget(known);
    known = next;
  }
}

bool TensorImporter::HasRoomFor(uint64_t size_bytes) const {
  return counted_storages_ < options_.max_storages &&
         size_bytes <= options_.max_bytes &&
         counted_bytes_ <= options_.max_bytes - size_bytes;
}

absl::Status TensorImporter::CheckLimits(uint64_t size_bytes) {
  if (HasRoomFor(size_bytes)) return absl::OkStatus();
  ForgetDead();
  if (HasRoomFor(size_bytes)) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "a tensor's storage of ", SizeText(size_bytes),
      " more: this importer has ", counted_storages_, " of at most ",
      options_.max_storages, " storages mapped, with ",
      SizeText(counted_bytes_), " of at most ", SizeText(options_.max_bytes)));
}

void TensorImporter::Recognize(const Tensor& exported) {
  if (ForkCount() != fork_count_ || !exported.is_shared()) return;
  if (!exported.storage()->id()) return;
  const ThreadLock lock(&mutex_);
  if (FindKnown(*exported.storage()->id()) != nullptr) return;
  Remember(*exported.storage()->id(), {.storage = exported.storage()});
}

size_t TensorImporter::CountStorages() {
  if (ForkCount() != fork_count_) return 0;
  const ThreadLock lock(&mutex_);
  ForgetDead();
  return known_.size();
}

}  // namespace tenon

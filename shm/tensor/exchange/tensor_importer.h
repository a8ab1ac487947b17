// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TensorImporter: makes tensors of handles that other processes have exported
// (tensor_handle.h).
//
//   TensorImporter importer;  // One for all messages of a peer.
//   TENON_ASSIGN_OR_RETURN(TensorHandle handle, TensorHandle::Parse(bytes));
//   TENON_ASSIGN_OR_RETURN(Tensor tensor,
//                          importer.Import(handle, std::move(received)));

#ifndef TENON_SHM_TENSOR_EXCHANGE_TENSOR_IMPORTER_H_
#define TENON_SHM_TENSOR_EXCHANGE_TENSOR_IMPORTER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/tensor/exchange/tensor_handle.h"
#include "tenon/shm/tensor/exchange/tensor_importer_options.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon {

// Makes tensors from handles. Tracks the storages of tensors that still live,
// so that two tensors of one storage that were sent separately share one
// storage here as well, with one mapping and one descriptor.
//
// Ownership: owns no tensor and no storage.
// Threads: thread-safe.
// Processes: in a forked child Import() fails with kFailedPrecondition.
// Trust: peers may send anything. A resulting tensor is inside its storage; the
//   storage is memory of fixed size (kFileSystem: only among processes that
//   trust each other), whose identity, size and seals come from the kernel. Use
//   one importer for each peer if the peers do not trust each other, because
//   limits are counted by importer.
// Failure: a failed Import() leaves nothing behind and has closed the
//   descriptor.
class TensorImporter {
 public:
  explicit TensorImporter(const TensorImporterOptions& options = {});
  TensorImporter(const TensorImporter&) = delete;
  TensorImporter& operator=(const TensorImporter&) = delete;

  // `fd` is the descriptor that came with the handle, if any. The tensor is
  // read-only if its segment is owner-written.
  // Errors: kInvalidArgument if the handle is malformed, inconsistent in itself
  // or with the segment, or came with a descriptor too many or too few;
  // kFailedPrecondition naming the missing seals; kNotFound and
  // kPermissionDenied as Segment::Open(); kResourceExhausted naming the limit,
  // of this importer or of the system.
  absl::StatusOr<Tensor> Import(TensorHandle handle, UniqueFd fd = UniqueFd());

  // Registers the storage of `exported`: a handle of it that comes back becomes
  // a tensor of that same storage. Not counted against the limits. No effect on
  // a private tensor, or in a forked child.
  void Recognize(const Tensor& exported);

  // The number of tracked storages that still live. Linear time. 0 in a forked
  // child.
  size_t CountStorages();

 private:
  struct Known {
    std::weak_ptr<Storage> storage;
    uint64_t counted_bytes = 0;
    bool counted = false;
  };

  absl::StatusOr<std::shared_ptr<Storage>> Find(const TensorHandle& handle,
                                                UniqueFd fd);
  absl::StatusOr<std::shared_ptr<Storage>> FindOrMap(Segment segment,
                                                     const Storage::Id& id);
  std::shared_ptr<Storage> FindKnown(const Storage::Id& id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Remember(const Storage::Id& id, const Known& known)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(std::map<Storage::Id, Known>::iterator known)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetDead() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasRoomFor(uint64_t size_bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckLimits(uint64_t size_bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const TensorImporterOptions options_;
  const uint64_t fork_count_;

  ThreadMutex mutex_;
  std::map<Storage::Id, Known> known_ ABSL_GUARDED_BY(mutex_);
  // Of all entries of known_, expired or not.
  uint64_t counted_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t counted_storages_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t forget_at_ ABSL_GUARDED_BY(mutex_) = 128;
};

}  // namespace tenon

#endif  // TENON_SHM_TENSOR_EXCHANGE_TENSOR_IMPORTER_H_

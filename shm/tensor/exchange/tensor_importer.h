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
#include <mutex>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/tensor/exchange/tensor_handle.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon {

struct TensorImporterOptions {
  // The total size of the storages mapped at a time. Bounds the memory that a
  // peer can make this process map and, where it is not written yet, allocate
  // by reading. Also the most bytes of one tensor, counted by elements: with
  // strides of 0 one byte of storage can represent any number of elements.
  uint64_t max_bytes = uint64_t{1} << 40;
  size_t max_storages = size_t{1} << 14;
};

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
  explicit TensorImporter(const TensorImporterOptions& options = {})
      : options_(options) {}
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
  // With mutex_ held.
  std::shared_ptr<Storage> FindKnown(const Storage::Id& id);
  void Remember(const Storage::Id& id, const Known& known);
  void Forget(std::map<Storage::Id, Known>::iterator known);
  void ForgetDead();
  absl::Status CheckLimits(uint64_t size_bytes);

  const TensorImporterOptions options_;
  const uint64_t fork_count_ = ForkCount();

  std::mutex mutex_;  // Guards all members below.
  std::map<Storage::Id, Known> known_;
  uint64_t counted_bytes_ = 0;  // Of all entries of known_, expired or not.
  size_t counted_storages_ = 0;
  size_t forget_at_ = 128;
};

}  // namespace tenon

#endif  // TENON_SHM_TENSOR_EXCHANGE_TENSOR_IMPORTER_H_

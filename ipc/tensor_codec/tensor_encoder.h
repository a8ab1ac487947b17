// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TensorEncoder: encodes a message into a record, and publishes the descriptors
// that belong to it. EncodeRecord(): the same without a queue. Internal to
// tensor queues and //spawn.

#ifndef TENON_IPC_TENSOR_CODEC_TENSOR_ENCODER_H_
#define TENON_IPC_TENSOR_CODEC_TENSOR_ENCODER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/tensor_codec/tensor_fds.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/ipc/tensor_codec/tensor_wire.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/arena/block_descriptor.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon {

// The memory that must stay alive until a message has been taken.
struct TensorHolds {
  absl::InlinedVector<std::shared_ptr<Storage>, 1> storages;
  Block block;
  // Of the storages, those whose names are kept for this message
  // (name_keeper.h). If they are dropped, the receiver releases the names.
  std::vector<std::shared_ptr<Storage>> kept;

  size_t bytes() const;
  // For a message that will not be sent.
  void ReleaseNames();
  // For a message that is in flight when its sender leaves: the names do not
  // end with their storages here.
  void LeaveNames();
};

// Threads: thread-compatible.
// Failure: a call that fails has no visible effect.
class TensorEncoder {
 public:
  // If `arena` is null it creates one of that name, cut to the length that an
  // arena's may have, when it first needs memory; if it is on a device, one for
  // messages, which are on the CPU.
  TensorEncoder(PublishedTensorFds fds, std::shared_ptr<Arena> arena,
                std::string name)
      : fds_(std::move(fds)),
        arena_(std::move(arena)),
        name_(std::move(name)) {}

  // Encodes message `number` into `record`, which has the size of the queue's
  // records. Of the messages before, `taken` were taken. Waits for memory until
  // `deadline`. Errors: kFailedPrecondition if a tensor was inherited by
  // fork(), or is on a device in memory that has no loan (tensor_loan.h);
  // kInvalidArgument if the message can never be sent; kResourceExhausted or
  // kDeadlineExceeded if it cannot be sent now. Call Cancel() after each of
  // these.
  absl::StatusOr<TensorHolds> Encode(const TensorMessage& message,
                                     uint64_t number, uint64_t taken,
                                     Deadline deadline,
                                     std::span<std::byte> record);

  // The same for a message of one tensor in a block, as a record of form 3 or
  // 4: returns its size, which may be less than that of `record`; 0 if the
  // tensor has no such record, or on any error; call Encode() then.
  size_t EncodeAlone(const Tensor& tensor, uint64_t number, uint64_t taken,
                     std::span<std::byte> record);

  // The same as a record of form 4, if the offer of the block's segment is
  // published. False, without effect, for others and on any error.
  [[gnu::always_inline]] bool EncodeShort(const Tensor& tensor, uint64_t number,
                                          WireWords& record) {
    BlockDescriptor block;
    return DescribeBlockTo(tensor, block) &&
           words_.Write(block, tensor.spec(), record) &&
           fds_.NeedPublishedOffer(block, number);
  }

  PublishedTensorFds& fds() { return fds_; }
  // Errors: Arena::Create()'s.
  absl::StatusOr<Arena*> arena();

 private:
  // For messages, which the CPU reads and writes.
  absl::StatusOr<Arena*> ArenaOfCpu();
  std::string ArenaName() const;
  absl::StatusOr<Block> Allocate(size_t bytes, Deadline deadline);

  PublishedTensorFds fds_;
  WireWordsWriter words_;
  std::shared_ptr<Arena> arena_;
  std::shared_ptr<Arena> of_cpu_;  // If arena_ is on a device.
  const std::string name_;
};

// The record, of any size, of a message that is sent together with the
// descriptors in `fds`. Tensors in private memory cannot be encoded: see
// CopyIntoArena() (tensor_copies.h). The caller holds the tensors until they
// are claimed. If this process has a NameKeeper, names are kept until their
// creators remove them, as the message may have several receivers. Errors:
// kFailedPrecondition if a tensor was inherited by fork(), is private, or on a
// device in memory that has no loan;
// kInvalidArgument if the descriptors exceed TensorFdList::kMaxFds, or the
// record 4 GiB.
absl::StatusOr<std::string> EncodeRecord(const TensorMessage& message,
                                         TensorFdList& fds);

}  // namespace tenon

#endif  // TENON_IPC_TENSOR_CODEC_TENSOR_ENCODER_H_

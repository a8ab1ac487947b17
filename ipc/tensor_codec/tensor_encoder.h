// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TensorEncoder: makes a record of a message, and lays out what goes with it.
// Internal to tensor queues.

#ifndef TENON_IPC_TENSOR_CODEC_TENSOR_ENCODER_H_
#define TENON_IPC_TENSOR_CODEC_TENSOR_ENCODER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/ipc/tensor_codec/tensor_shelf.h"
#include "tenon/ipc/tensor_codec/tensor_wire.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon {

// What has to live until a message has been taken.
struct TensorHolds {
  absl::InlinedVector<std::shared_ptr<Storage>, 1> storages;
  Block block;

  size_t bytes() const;
};

// Threads: thread-compatible.
// Failure: a call that fails has changed nothing that can be seen.
class TensorEncoder {
 public:
  // Without an arena it makes one of that name when it needs it.
  TensorEncoder(TensorShelf shelf, std::shared_ptr<Arena> arena,
                std::string name)
      : shelf_(std::move(shelf)),
        arena_(std::move(arena)),
        name_(std::move(name)) {}

  // The message, which gets that number, as `record`, whose size is that of the
  // queue's records. Of the former ones `taken` were taken. If memory is wanted
  // it waits for it until `deadline`. Errors: kFailedPrecondition if a tensor
  // was inherited by fork(); kInvalidArgument if it cannot be sent, and
  // kResourceExhausted or kDeadlineExceeded if it cannot be now, after each of
  // which Cancel() is to be called.
  absl::StatusOr<TensorHolds> Encode(const TensorMessage& message,
                                     uint64_t number, uint64_t taken,
                                     Deadline deadline,
                                     std::span<std::byte> record);

  // The same for a message of one tensor, by the short way: false if there is
  // none for it, or something else is in the way: Encode() it.
  bool EncodeAlone(const Tensor& tensor, uint64_t number, uint64_t taken,
                   std::span<std::byte> record);

  TensorShelf& shelf() { return shelf_; }
  // Errors: Arena::Create()'s.
  absl::StatusOr<Arena*> arena();

 private:
  absl::StatusOr<Block> Allocate(size_t bytes, Deadline deadline);

  TensorShelf shelf_;
  std::shared_ptr<Arena> arena_;
  const std::string name_;
};

}  // namespace tenon

#endif  // TENON_IPC_TENSOR_CODEC_TENSOR_ENCODER_H_

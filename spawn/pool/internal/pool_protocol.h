// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The protocol between a pool and its workers, over a channel.
//
//   pool                                       worker
//   batch: id, function, calls        ------>  claims the tensors in them
//                                     <------  batch's answers, in their order
//   closes the channel                ------>  ends
//
// A batch is one call or a chunk of a Map(). One batch at a time is in flight.
// The pool's initializer is the first. Tensors are sent behind their calls or
// answers, in one parcel (tensor_parcel.h). The pool holds the tensors of a
// batch until it has been answered; the worker holds the blocks among those of
// its answers until the pool has claimed them, which ReadAnswers() does.
// Answers that exceed the capacity of one message are split into several.

#ifndef TENON_SPAWN_POOL_INTERNAL_POOL_PROTOCOL_H_
#define TENON_SPAWN_POOL_INTERNAL_POOL_PROTOCOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/spawn/arguments/argument.h"
#include "tenon/spawn/arguments/tensor_parcel.h"

namespace tenon::spawn {

class PoolMessage;  // Internal.

struct PoolBatch {
  uint64_t id = 0;
  std::string function;
  std::vector<PackedArguments> calls;
};

// An error, or a value.
struct PoolAnswer {
  absl::Status status;
  // Where the exception was thrown, as ProcessRaised::stack.
  std::string stack;
  PackedArguments value;
};

struct PoolAnswers {
  uint64_t id = 0;
  // The worker's resident memory, in the last message of a batch; 0 if not
  // requested.
  int64_t rss_bytes = 0;
  std::vector<PoolAnswer> answers;
};

// Counts how many calls of a chunk fit into one message.
class MessageRoom {
 public:
  // False if `packed` needs the next message, which has its own limits. The
  // first call always fits.
  bool Take(const PackedArguments& packed);

 private:
  // Segment of an arena; offered once per message.
  using Segment = std::pair<RandomId, uint32_t>;

  void TakeTensor(const Tensor& tensor);

  bool is_empty_ = true;
  size_t fds_ = 0;
  uint64_t bytes_ = 0;
  std::vector<Segment> segments_;
};

// A batch that is ready to be sent: packed, and copied if it is large.
//
// Ownership: refers to the descriptors of its calls, which must be open when it
//   is sent; the caller holds their tensors until they are answered.
// Threads: thread-compatible.
class PackedBatch {
 public:
  // The slow half of sending: takes as long as copying `calls`. Errors:
  // kInvalidArgument for more descriptors than a message carries; those of
  // WriteParcel(); those of Channel::Prepare().
  static absl::StatusOr<PackedBatch> Of(
      uint64_t id, const std::string& function,
      absl::Span<const PackedArguments> calls);

  ~PackedBatch();
  PackedBatch(PackedBatch&&) noexcept;
  PackedBatch& operator=(PackedBatch&&) noexcept;

  // Blocks until `deadline`. Errors: those of Channel::Send().
  absl::Status Send(Channel& channel, Deadline deadline) const;

 private:
  explicit PackedBatch(std::unique_ptr<PoolMessage> message);

  std::unique_ptr<PoolMessage> message_;
};

// Packs and sends; errors of both.
absl::Status SendBatch(Channel& channel, const PoolBatch& batch,
                       Deadline deadline);
// Errors: also kResourceExhausted at a limit of descriptors.
absl::Status SendAnswers(Channel& channel, const PoolAnswers& answers,
                         Deadline deadline);

// Decodes a message and claims its tensors; a failed claim is an error of that
// tensor alone. The bytes may be anything. Errors: kDataLoss.
absl::StatusOr<PoolBatch> ReadBatch(Message message, TensorClaimer& claimer);
absl::StatusOr<PoolAnswers> ReadAnswers(Message message,
                                        TensorClaimer& claimer);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_POOL_INTERNAL_POOL_PROTOCOL_H_

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// What a pool and its workers say to each other over a channel.
//
//   pool                                       worker
//   batch: id, function, calls        ------>  claims the tensors in them
//                                     <------  batch's answers, in their order
//   closes the channel                ------>  ends
//
// A batch is one call or a chunk of a Map(). One is under way at a time. The
// pool's initializer is the first. Tensors in blocks of arenas go behind the
// calls or answers that they belong to, in one parcel (tensor_parcel.h). The
// pool holds those of a batch until it has been answered; the worker holds its
// answers' until the pool has claimed them, which ReadAnswers() does.

#ifndef TENON_SPAWN_POOL_PROTOCOL_H_
#define TENON_SPAWN_POOL_PROTOCOL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/channel.h"
#include "tenon/shm/deadline.h"
#include "tenon/shm/unique_fd.h"
#include "tenon/spawn/argument.h"
#include "tenon/spawn/tensor_parcel.h"

namespace tenon::spawn {

struct PoolBatch {
  uint64_t id = 0;
  std::string function;
  std::vector<PackedArguments> calls;
};

// An error, or a value.
struct PoolAnswer {
  absl::Status status;
  // Of the throw, as ProcessRaised::stack.
  std::string stack;
  PackedArguments value;
};

struct PoolAnswers {
  uint64_t id = 0;
  // What the worker has resident; 0 if not asked for.
  int64_t rss_bytes = 0;
  std::vector<PoolAnswer> answers;
};

// Errors: those of Channel::Send(); kInvalidArgument for more descriptors than
// a message carries; Offer()'s of arena_tensor.h.
absl::Status SendBatch(Channel& channel, const PoolBatch& batch,
                       Deadline deadline);
// Errors: also kResourceExhausted at a limit of descriptors.
absl::Status SendAnswers(Channel& channel, const PoolAnswers& answers,
                         Deadline deadline);

// What has come, with its tensors claimed; one that could not be is an error of
// its own. The bytes may be anything. Errors: kDataLoss.
absl::StatusOr<PoolBatch> ReadBatch(Message message, TensorClaimer& claimer);
absl::StatusOr<PoolAnswers> ReadAnswers(Message message,
                                        TensorClaimer& claimer);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_POOL_PROTOCOL_H_

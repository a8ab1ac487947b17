// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// What a pool and its workers say to each other over a channel.
//
//   pool                                       worker
//   batch: id, function, calls        ------>
//                                     <------  batch's answers, in their order
//   closes the channel                ------>  ends
//
// A batch is one call or a chunk of a Map(). One is under way at a time. The
// pool's initializer is the first. Answers for which one message has no room
// come in several.

#ifndef TENON_SPAWN_POOL_PROTOCOL_H_
#define TENON_SPAWN_POOL_PROTOCOL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/channel.h"
#include "tenon/shm/deadline.h"
#include "tenon/shm/unique_fd.h"
#include "tenon/spawn/argument.h"

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
  // What the worker has resident, in the last message of a batch; 0 if not
  // asked for.
  int64_t rss_bytes = 0;
  std::vector<PoolAnswer> answers;
};

// How much of a chunk has room in one message.
class MessageRoom {
 public:
  // False if `packed` has to go with the next message, which has a room of its
  // own. The first always goes.
  bool Take(const PackedArguments& packed);

 private:
  bool is_empty_ = true;
  size_t fds_ = 0;
  uint64_t bytes_ = 0;
};

// Errors: those of Channel::Send(); kInvalidArgument for more descriptors than
// a message carries.
absl::Status SendBatch(Channel& channel, const PoolBatch& batch,
                       Deadline deadline);
absl::Status SendAnswers(Channel& channel, const PoolAnswers& answers,
                         Deadline deadline);

// What has come. The bytes may be anything. Errors: kDataLoss.
absl::StatusOr<PoolBatch> ReadBatch(Message message);
absl::StatusOr<PoolAnswers> ReadAnswers(Message message);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_POOL_PROTOCOL_H_

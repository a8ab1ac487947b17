// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Tasks of a pool, and how their receivers are told. Not for users.

#ifndef TENON_SPAWN_POOL_INTERNAL_POOL_TASK_H_
#define TENON_SPAWN_POOL_INTERNAL_POOL_TASK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/spawn/arguments/argument.h"

namespace tenon::spawn {

// Gets the answer of a call. Called once, or destroyed uncalled.
class PoolReceiver {
 public:
  virtual ~PoolReceiver() = default;
  virtual void Receive(absl::StatusOr<PackedArguments> answer) = 0;
};

// One call, or a chunk of them for one worker.
struct PoolTask {
  std::string function;
  // Threads that pack the task read them without the pool's lock: not changed
  // while there are `packers`. The last one that ends takes what has been sent.
  std::vector<PackedArguments> calls;
  // One for each call; none once the task has failed, null once it was told.
  std::vector<std::unique_ptr<PoolReceiver>> receivers;
  Deadline deadline = Deadline::Never();
  uint64_t id = 0;  // Chunks of one Map() share one; 0: cannot be cancelled.
  bool kill_on_cancel = false;
  // Of calls that have been sent: held until they are answered, when the worker
  // has long claimed them, or never will.
  std::vector<Tensor> held = {};
  // Threads that pack this: several if a worker died whose thread packs still.
  int packers = 0;
  bool is_sent = false;

  bool has_failed() const { return receivers.empty(); }
};

// Of a task that no worker has had: its deadline has passed, it was cancelled.
absl::Status TaskExpiredError();
absl::Status TaskCancelledError();

// What receivers are to be told once no lock is held.
//
// Ownership: owns receivers, answers, and what tasks that have ended leave.
// Threads: thread-compatible.
// Failure: destroyed without Run(): no receiver is told.
class PoolCompletions {
 public:
  // One receiver gets its answer.
  void Add(std::unique_ptr<PoolReceiver> receiver,
           absl::StatusOr<PackedArguments> answer);
  // All receivers of `task` that have not been told get `why`; null: nothing.
  void Fail(std::shared_ptr<PoolTask> task, const absl::Status& why);
  // Drops `task`, with what it holds, in Run().
  void Drop(std::shared_ptr<PoolTask> task);

  void Append(PoolCompletions&& others);
  bool empty() const { return answers_.empty(); }

  // Drops what tasks have left, then tells the receivers; blocks as they do.
  void Run() &&;

 private:
  std::vector<std::shared_ptr<PoolTask>> ended_;
  std::vector<
      std::pair<std::unique_ptr<PoolReceiver>, absl::StatusOr<PackedArguments>>>
      answers_;
};

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_POOL_INTERNAL_POOL_TASK_H_

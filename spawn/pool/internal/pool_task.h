// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Tasks of a pool, and the completion of their receivers. Not for users.

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
#include "tenon/spawn/pool/pool_receiver.h"

namespace tenon::spawn {

// One call, or a chunk of them for one worker.
struct PoolTask {
  std::string function;
  // Threads that pack the task read them without the pool's lock: not changed
  // while `packers` > 0. The last packer takes the sent arguments.
  std::vector<PackedArguments> calls;
  // One for each call; empty once the task has failed, null once called.
  std::vector<std::unique_ptr<PoolReceiver>> receivers;
  Deadline deadline = Deadline::Never();
  uint64_t id = 0;  // Shared by the chunks of a Map(); 0: not cancellable.
  bool kill_on_cancel = false;
  // Tensors of calls that have been sent: held until the calls are answered,
  // when the worker has long claimed the tensors, or never will.
  std::vector<Tensor> held = {};
  // Theirs, too, and held as long: a queue among the arguments is not alone
  // while they exist.
  std::vector<StartHook> held_hooks = {};
  // Number of threads that pack this: several if a worker died while its thread
  // still packs.
  int packers = 0;
  bool is_sent = false;

  bool has_failed() const { return receivers.empty(); }
};

// For a task that was never sent: its deadline has passed; it was cancelled.
absl::Status TaskExpiredError();
absl::Status TaskCancelledError();

// Receivers to be called once no lock is held.
//
// Ownership: owns receivers, answers, and the remains of tasks that have ended.
// Threads: thread-compatible.
// Failure: if destroyed without Run(), no receiver is called.
class PoolCompletions {
 public:
  // Completes one receiver with the answer to its call of `function`. An
  // error's message begins with the function and the number of the input.
  void Add(const std::string& function, std::unique_ptr<PoolReceiver> receiver,
           absl::StatusOr<PackedArguments> answer);
  // Completes all remaining receivers of `task` with `why`; null: does nothing.
  void Fail(std::shared_ptr<PoolTask> task, const absl::Status& why);
  // Drops `task`, with the tensors it holds, in Run().
  void Drop(std::shared_ptr<PoolTask> task);

  void Append(PoolCompletions&& others);
  bool empty() const { return answers_.empty(); }

  // Drops the remains of tasks, then calls the receivers; blocks as they do.
  void Run() &&;

 private:
  std::vector<std::shared_ptr<PoolTask>> ended_;
  std::vector<
      std::pair<std::unique_ptr<PoolReceiver>, absl::StatusOr<PackedArguments>>>
      answers_;
};

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_POOL_INTERNAL_POOL_TASK_H_

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// PoolWorkers: the worker processes of a pool, and what each of them does. Not
// for users.
//
//   Start, Add            Reserve           Send
//   ---------> idle <-----------> sending ---------> busy
//               |   <----------------------------------+  Accept: all answered
//               v Close
//             ending ---------> Remove, once the process has ended
//
// Kill leads to "ending" from everywhere. A worker with an initializer is
// "initializing" before it is idle. Sending: a thread packs the worker's task,
// without the owner's lock; others may fail the task or end the worker
// meanwhile, but only Send() makes it idle again.

#ifndef TENON_SPAWN_POOL_INTERNAL_POOL_WORKERS_H_
#define TENON_SPAWN_POOL_INTERNAL_POOL_WORKERS_H_

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/spawn/arguments/argument.h"
#include "tenon/spawn/pool/internal/pool_poller.h"
#include "tenon/spawn/pool/internal/pool_protocol.h"
#include "tenon/spawn/pool/internal/pool_task.h"
#include "tenon/spawn/pool/pool_options.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/settings/index_templates.h"

namespace tenon::spawn {

// Ownership: owns the workers; destroying it kills them.
// Threads: thread-compatible, guarded by its owner's mutex; Start() alone is
//   called without it, by one thread at a time, which is the only one that adds
//   and removes workers.
// Trust: Accept() checks what a worker says.
class PoolWorkers {
 public:
  enum class Phase { kInitializing, kIdle, kSending, kBusy, kEnding };
  // The thread that receives from a worker's channel; one at a time.
  enum class Leader { kNone, kDispatcher, kWaiter };

  struct Worker {
    Process process;
    Channel channel;
    Phase phase = Phase::kIdle;
    bool has_channel = true;  // The poller has it.
    uint64_t batch_id = 0;
    std::shared_ptr<PoolTask> task = nullptr;  // While sending or busy.
    size_t answered = 0;                       // Of its calls.
    uint64_t tasks_done = 0;
    Deadline until = Deadline::Never();  // Idle or ending.
    Leader leader = Leader::kNone;
    bool end_is_paused = false;  // In the poller, until no waiter leads.

    // Of the thread that adds and removes.
    bool is_readable = false;
    bool has_ended = false;

    // In the poller.
    uint64_t channel_key() const { return reinterpret_cast<uint64_t>(this); }
    uint64_t end_key() const { return channel_key() | 1; }
  };

  // A task, and the batch by which a worker is to get it.
  struct Assignment {
    uint64_t batch_id = 0;
    std::shared_ptr<PoolTask> task;
    // After Send(), for the last thread that packs a task that has been sent:
    // what is to be freed without a lock.
    std::vector<PackedArguments> sent = {};
  };

  // `options` have been checked; `poller` outlives this.
  PoolWorkers(PoolOptions options, const PoolPoller& poller);

  // Starts a worker, which the poller then knows. Blocks for milliseconds.
  // Errors: those of Process::Start() and of PoolPoller::Add().
  absl::StatusOr<std::unique_ptr<Worker>> Start();
  // How `Start()` ended: the worker joins, or the next start has to wait.
  absl::Status Add(absl::StatusOr<std::unique_ptr<Worker>> started);
  // Takes out a worker whose process has ended as `how` says. Its task fails,
  // or is returned if the worker had not got it.
  // Errors: why the pool breaks, if too many die while they are initialized.
  absl::StatusOr<std::shared_ptr<PoolTask>> Remove(Worker& worker,
                                                   const absl::Status& how,
                                                   PoolCompletions& done);

  // ---- Tasks ----

  bool has_idle() const { return !idle_.empty(); }
  // The worker that became idle last is to get `task`; there is one.
  Assignment Reserve(std::shared_ptr<PoolTask> task);
  // Hands over what has been packed, or says why it has not been. Returns the
  // task if it has to be sent to another worker, as this one has died. One that
  // died earlier has been removed, and its task may have another by now.
  std::shared_ptr<PoolTask> Send(Assignment& assignment,
                                 const absl::StatusOr<PackedBatch>& packed,
                                 PoolCompletions& done);
  // Answers that a worker has sent. It is killed if they are not answers to its
  // task. Errors: that of the initializer, which breaks the pool.
  absl::Status Accept(Worker& worker, PoolAnswers answers,
                      PoolCompletions& done);
  // Fails the tasks of this id that have not been sent, and those that have if
  // they are to be killed; their workers are killed.
  void Cancel(uint64_t task_id, PoolCompletions& done);
  // What time makes necessary: tasks whose deadline has passed fail, and their
  // workers are killed; workers that are idle for long, above the least
  // number, end; those that do not end are killed.
  void RunTimers(PoolCompletions& done);

  // ---- Ends ----

  // Fails the worker's task with `why` and kills it.
  void Kill(Worker& worker, const absl::Status& why, PoolCompletions& done);
  // Lets the worker end by itself; it has no task.
  void Close(Worker& worker);
  // Its channel is not looked at any more.
  void StopListening(Worker& worker);

  // ---- Leaders ----

  // The busy worker with the task of this id, if nobody leads it: its caller
  // then does, and the poller is silent about its channel. Null otherwise.
  Worker* Lead(uint64_t task_id);
  void StopLeading(Worker& worker);

  // ---- What there is ----

  std::vector<std::unique_ptr<Worker>>& all() { return workers_; }
  bool empty() const { return workers_.empty(); }
  size_t CountLive() const;  // Not those that are ending.
  size_t CountBusy() const;  // Those that have tasks.
  size_t CountIdle() const { return idle_.size(); }
  uint64_t started() const { return started_; }
  std::vector<pid_t> Pids() const;  // Of those that live.
  size_t least() const { return static_cast<size_t>(options_.min_workers); }
  size_t most() const { return static_cast<size_t>(options_.workers); }
  // When RunTimers() is due.
  Deadline next_deadline() const;
  // Before that, a start is likely to fail as the one before.
  Deadline start_again_at() const { return start_again_at_; }

 private:
  absl::Status Initialize(Worker& worker);
  absl::Status Watch(const Worker& worker);
  void MakeIdle(Worker& worker);
  void End(Worker& worker, Deadline until);
  bool IsWorn(const Worker& worker, const PoolAnswers& answers) const;
  void TakeAnswers(Worker& worker, PoolAnswers answers, PoolCompletions& done);

  PoolOptions options_;
  const IndexTemplates templates_;
  const PoolPoller& poller_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Worker*> idle_;
  // Start() is called without a lock.
  std::atomic<uint64_t> next_batch_ = 1;
  std::atomic<uint64_t> started_ = 0;
  int failed_starts_ = 0;
  Deadline start_again_at_ = Deadline::Passed();
};

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_POOL_INTERNAL_POOL_WORKERS_H_

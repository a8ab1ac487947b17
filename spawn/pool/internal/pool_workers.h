// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// PoolWorkers: the worker processes of a pool, and the state of each. Not for
// users.
//
//      Add                Reserve           Send
//   ---------> idle <-----------> sending ---------> busy
//               |   <----------------------------------+  Accept: all answered
//               v Close
//             ending ---------> Remove, once the process has ended
//
// PoolStarter (pool_starter.h) starts them. Kill() leads to "ending" from every
// state. A worker with an initializer is "initializing" before it is idle.
// Sending: a thread packs the worker's task, without the owner's lock; other
// threads may fail the task or end the worker meanwhile, but only Send() makes
// it idle again.

#ifndef TENON_SPAWN_POOL_INTERNAL_POOL_WORKERS_H_
#define TENON_SPAWN_POOL_INTERNAL_POOL_WORKERS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/spawn/arguments/argument.h"
#include "tenon/spawn/pool/internal/pool_poller.h"
#include "tenon/spawn/pool/internal/pool_protocol.h"
#include "tenon/spawn/pool/internal/pool_task.h"
#include "tenon/spawn/pool/pool_options.h"
#include "tenon/spawn/process/process.h"

namespace tenon::spawn {

// Ownership: owns the workers; the destructor kills them.
// Threads: thread-compatible, guarded by its owner's mutex. One thread adds and
//   removes workers.
// Trust: Accept() validates a worker's answers.
class PoolWorkers {
 public:
  enum class Phase { kInitializing, kIdle, kSending, kBusy, kEnding };
  // The thread that receives from a worker's channel; one at a time.
  enum class Leader { kNone, kDispatcher, kWaiter };
  // The batch of the pool's initializer; tasks have others.
  static constexpr uint64_t kInitializerBatch = 0;

  struct Worker {
    Process process;
    Channel channel;
    Phase phase = Phase::kIdle;
    bool has_channel = true;  // Whether the poller has it.
    uint64_t batch_id = kInitializerBatch;
    std::shared_ptr<PoolTask> task = nullptr;  // While sending or busy.
    size_t answered = 0;                       // Number of answered calls.
    uint64_t tasks_done = 0;
    Deadline until = Deadline::Never();  // Idle or ending.
    Leader leader = Leader::kNone;
    bool end_is_paused = false;  // In the poller, while a waiter leads.

    // Used by the thread that adds and removes workers.
    bool is_readable = false;
    bool has_ended = false;

    // Its key in the poller.
    uint64_t channel_key() const { return reinterpret_cast<uint64_t>(this); }
    uint64_t end_key() const { return channel_key() | 1; }
  };

  // A task, and the batch in which a worker receives it.
  struct Assignment {
    uint64_t batch_id = 0;
    std::shared_ptr<PoolTask> task;
    // Set by Send(), for the last thread that packs a task that has been sent:
    // arguments to be freed without a lock.
    std::vector<PackedArguments> sent = {};
  };

  // `options` have been validated; `poller` outlives this.
  PoolWorkers(const PoolOptions& options, const PoolPoller& poller);

  using Workers = std::vector<std::unique_ptr<Worker>>;

  // With the result of PoolStarter::Start(): adds the workers, or delays the
  // next start.
  absl::Status Add(absl::StatusOr<Workers> started);
  // Removes a worker whose process has ended with the outcome `how`. Its task
  // fails, or is returned if the worker had not received it.
  // Errors: the reason to break the pool, if too many workers die while they
  // are initialized.
  absl::StatusOr<std::shared_ptr<PoolTask>> Remove(Worker& worker,
                                                   const absl::Status& how,
                                                   PoolCompletions& done);

  // ---- Tasks ----

  bool has_idle() const { return !idle_.empty(); }
  // Assigns `task` to the worker that became idle last; there is one.
  Assignment Reserve(std::shared_ptr<PoolTask> task);
  // Sends the packed batch, or fails the task if it could not be packed.
  // Returns the task if it must be sent to another worker because this one has
  // died. A worker that died earlier has been removed, and its task may have
  // another worker by now.
  std::shared_ptr<PoolTask> Send(Assignment& assignment,
                                 const absl::StatusOr<PackedBatch>& packed,
                                 PoolCompletions& done);
  // Handles answers from a worker, which is killed if they do not answer its
  // task. Errors: the initializer's, which breaks the pool.
  absl::Status Accept(Worker& worker, PoolAnswers answers,
                      PoolCompletions& done);
  // Fails the tasks of this id that have not been sent, and, of those that
  // have, the ones with kill_on_cancel; their workers are killed.
  void Cancel(uint64_t task_id, PoolCompletions& done);
  // Handles expired timers: fails tasks whose deadline has passed and kills
  // their workers; ends workers above the minimum number that have been idle
  // for too long; kills workers that do not end.
  void RunTimers(PoolCompletions& done);

  // ---- Ends ----

  // Fails the worker's task with `why` and kills it.
  void Kill(Worker& worker, const absl::Status& why, PoolCompletions& done);
  // Ends the worker by closing its channel; it has no task.
  void Close(Worker& worker);
  // Removes the worker's channel from the poller.
  void StopListening(Worker& worker);

  // ---- Leaders ----

  // Returns the busy worker with the task of this id, unless another thread
  // leads it: the caller leads it from now on, and the poller does not report
  // its channel. Null otherwise.
  Worker* Lead(uint64_t task_id);
  void StopLeading(Worker& worker);

  // ---- Counts ----

  Workers& all() { return workers_; }
  bool empty() const { return workers_.empty(); }
  size_t CountLive() const;  // Without those that are ending.
  size_t CountBusy() const;  // Workers with tasks.
  size_t CountIdle() const { return idle_.size(); }
  std::vector<pid_t> Pids() const;  // Of live workers.
  size_t least() const { return least_; }
  size_t most() const { return most_; }
  // The time at which RunTimers() is due.
  Deadline next_deadline() const;
  // Until then, another start is likely to fail like the previous one.
  Deadline start_again_at() const { return start_again_at_; }

 private:
  void MakeIdle(Worker& worker);
  void End(Worker& worker, Deadline until);
  bool IsWorn(const Worker& worker, const PoolAnswers& answers) const;
  void TakeAnswers(Worker& worker, PoolAnswers answers, PoolCompletions& done);

  // Of the options.
  const size_t least_;
  const size_t most_;
  const absl::Duration idle_timeout_;
  const uint64_t max_tasks_per_worker_;
  const int64_t max_worker_rss_bytes_;

  const PoolPoller& poller_;
  Workers workers_;
  std::vector<Worker*> idle_;
  uint64_t next_batch_ = kInitializerBatch + 1;
  int failed_starts_ = 0;
  Deadline start_again_at_ = Deadline::Passed();
};

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_POOL_INTERNAL_POOL_WORKERS_H_

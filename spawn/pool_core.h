// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// PoolCore: a ProcessPool without its types. Not for users.
//
// One thread, the dispatcher, polls the workers' channels and pidfds, and
// completes what comes back. Neither way takes a detour over it if that can be
// helped: whoever submits a task hands it to an idle worker by himself, and
// whoever waits for a task that a worker runs takes the channel off the
// dispatcher, and receives the answer himself.

#ifndef TENON_SPAWN_POOL_CORE_H_
#define TENON_SPAWN_POOL_CORE_H_

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tenon/ipc/channel.h"
#include "tenon/shm/deadline.h"
#include "tenon/shm/fork_count.h"
#include "tenon/shm/tensor.h"
#include "tenon/spawn/argument.h"
#include "tenon/spawn/index_templates.h"
#include "tenon/spawn/pool_options.h"
#include "tenon/spawn/pool_poller.h"
#include "tenon/spawn/pool_protocol.h"
#include "tenon/spawn/process.h"
#include "tenon/spawn/tensor_parcel.h"

namespace tenon::spawn {

// Who wants the answer of a call. Called once, or destroyed uncalled.
class PoolReceiver {
 public:
  virtual ~PoolReceiver() = default;
  virtual void Receive(absl::StatusOr<PackedArguments> answer) = 0;
};

// One call, or a chunk of them for one worker.
struct PoolTask {
  std::string function;
  std::vector<PackedArguments> calls;
  std::vector<std::unique_ptr<PoolReceiver>> receivers;  // One for each call.
  Deadline deadline = Deadline::Never();
  uint64_t id = 0;  // From NewTaskId(); chunks of one Map() share one.
  bool kill_on_cancel = false;
  // Of calls that have been sent: held until they are answered, when the worker
  // has long claimed them, or never will.
  std::vector<Tensor> held = {};
};

// Ownership: owns its workers and its thread; destroying it aborts.
// Threads: thread-safe, but for destruction.
// Processes: in a forked child, calls fail with kFailedPrecondition, and it
//   must not be destroyed.
class PoolCore : public std::enable_shared_from_this<PoolCore> {
 public:
  struct Counts {
    size_t workers = 0;  // Not those that are about to end.
    size_t idle = 0;
    size_t pending = 0;
    uint64_t started = 0;  // Workers, ever.
  };

  // Starts the least number of workers. Errors: as ProcessPool::Create().
  static absl::StatusOr<std::unique_ptr<PoolCore>> Create(PoolOptions options);

  ~PoolCore();
  PoolCore(const PoolCore&) = delete;
  PoolCore& operator=(const PoolCore&) = delete;

  // A task that is more than one message has room for becomes several.
  // Receivers of a task that is not accepted get the reason, as all errors.
  void Submit(PoolTask task);

  uint64_t NewTaskId() { return next_task_id_.fetch_add(1); }

  // For one who waits for the task of this id, which nobody else has: receives
  // its answer and tells its receiver, if a worker runs it and nobody else
  // helps. Blocks until then, or the task has ended otherwise, or `until`.
  void Help(uint64_t task_id, std::chrono::steady_clock::time_point until);

  // Tasks of this id that wait for a worker fail with kCancelled, as do those
  // under way with kill_on_cancel, whose workers are killed. Receivers are told
  // on this thread.
  void Cancel(uint64_t task_id);

  absl::Status Shutdown(Deadline deadline);
  void Abort();

  Counts CountAll() const;
  std::vector<pid_t> WorkerPids() const;
  size_t max_workers() const { return max_workers_; }

 private:
  enum class Phase { kInitializing, kIdle, kBusy, kEnding };
  // Who receives from a worker's channel. The dispatcher keeps one that has
  // ended.
  enum class Receiver { kNobody, kDispatcher, kHelper };

  struct Worker {
    Process process;
    Channel channel;
    Phase phase = Phase::kIdle;
    bool has_channel = true;
    uint64_t batch_id = 0;
    // While busy; its calls have been sent, and receivers that have been told
    // are gone.
    PoolTask task = {};
    size_t answered = 0;  // How many of its calls.
    uint64_t tasks_done = 0;
    Deadline until = Deadline::Never();  // Idle or ending.
    Receiver receiver = Receiver::kNobody;
    bool end_is_paused = false;  // Until the helper has let go.

    // The dispatcher's own.
    bool is_readable = false;
    bool has_ended = false;

    // In the poller.
    uint64_t channel_key() const { return reinterpret_cast<uint64_t>(this); }
    uint64_t end_key() const { return channel_key() | 1; }
  };

  // What is to be told to a receiver, once no lock is held.
  using Tellings = std::vector<std::pair<std::unique_ptr<PoolReceiver>,
                                         absl::StatusOr<PackedArguments>>>;

  // Between two tries to start a worker where that fails.
  static constexpr absl::Duration kStartPause = absl::Milliseconds(100);

  PoolCore(PoolOptions options, PoolPoller poller);

  absl::StatusOr<std::unique_ptr<Worker>> StartWorker();
  absl::Status Initialize(Worker& worker, uint64_t batch_id);
  absl::Status Watch(const Worker& worker);
  void Run();
  bool RunOnce();
  void StartMissing();

  // With mutex_ held.
  void Enqueue(PoolTask task);
  void Assign(Worker& worker, PoolTask task, Tellings& tellings);
  void AssignPending(Tellings& tellings);
  void MakeIdle(Worker& worker);
  void EndWorker(Worker& worker);
  void Close(Worker& worker);
  static void Fail(PoolTask task, const absl::Status& why, Tellings& tellings);
  void FailPending(const absl::Status& why, Tellings& tellings);
  void CancelPending(uint64_t task_id, Tellings& tellings);
  void CancelRunning(uint64_t task_id, Tellings& tellings);
  void Break(const absl::Status& why, Tellings& tellings);
  void Settle(Tellings& tellings);
  static void FailExpired(PoolTask task, Tellings& tellings);
  void ExpirePending(Tellings& tellings);
  void ExpireDeadlines(Tellings& tellings);
  void OnAnswers(Worker& worker, PoolAnswers answers, Tellings& tellings);
  void OnEnd(std::unique_ptr<Worker> worker, const absl::Status& how,
             Tellings& tellings);
  bool Digest(Worker& worker, absl::StatusOr<PoolAnswers> answers,
              Tellings& tellings);
  void StopListening(Worker& worker);
  Worker* StartHelping(uint64_t task_id);
  void StopHelping(Worker& worker);
  Deadline NextDeadline() const;
  bool MustWakeDispatcher() const;
  size_t CountLive() const;
  size_t CountWanted() const;
  bool IsDrained() const;

  // Without it.
  bool StartReceiving(Worker& worker);
  absl::StatusOr<PoolAnswers> ReceiveAnswers(Worker& worker);
  bool Receive(Worker& worker, Tellings& tellings);
  void HearWorkers(Tellings& tellings);
  static void Tell(Tellings tellings);
  void TellAsHelper(Tellings tellings);
  // This thread is within TellAsHelper().
  bool IsToldByThisThread() const;

  PoolOptions options_;
  const IndexTemplates templates_;
  size_t max_workers_ = 0;
  size_t min_workers_ = 0;
  const uint64_t fork_count_ = ForkCount();
  const PoolPoller poller_;
  TensorClaimer claimer_;  // Of what workers answer.
  std::atomic<uint64_t> next_task_id_ = 1;
  std::thread dispatcher_;
  std::thread::id dispatcher_id_;  // Also once somebody has joined it.
  // Who joins it.
  std::mutex join_mutex_;

  mutable std::mutex mutex_;  // For all below.
  std::condition_variable drained_;
  // The dispatcher alone adds and removes.
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Worker*> idle_;  // The last to become so is the first to work.
  std::deque<PoolTask> pending_;
  // No task of these has an earlier one.
  Deadline pending_deadline_ = Deadline::Never();
  // As of when the dispatcher last looked what to wait for.
  Deadline sleeps_until_ = Deadline::Passed();
  Tellings owed_;  // Which the dispatcher is to pass on.
  size_t telling_helpers_ = 0;
  uint64_t next_batch_ = 1;
  uint64_t started_ = 0;
  int failed_starts_ = 0;
  Deadline start_again_at_ = Deadline::Passed();
  std::optional<absl::Status> closed_;  // Why nothing is accepted any more.
  bool aborting_ = false;
  bool ending_ = false;
};

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_POOL_CORE_H_

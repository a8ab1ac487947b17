// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// WorkerLink: the rings and the channel to one worker, in the loader.

#ifndef TENON_LOADER_WORKER_WORKER_LINK_H_
#define TENON_LOADER_WORKER_WORKER_LINK_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/ring/ring.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/loader/data/shard_order.h"
#include "tenon/loader/stats/stats_memory.h"
#include "tenon/loader/worker/messages.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/base/deadline.h"

namespace tenon::loader {

// Ownership: owns its ends of the rings and the channel. Batches keep what they
//   need of the worker's arena.
// Threads: thread-compatible.
// Trust: each record and message of the worker is checked against the task it
//   was given.
// Failure: after any error the link is unusable. kUnavailable: the worker is
//   gone. kDataLoss: it sent what no worker of this program sends.
class WorkerLink {
 public:
  struct Job {
    uint64_t ticket = 0;
    int64_t number = 0;  // Of the batch, in its epoch.
    int64_t epoch = 0;
    int64_t first_position = 0;  // TaskRecord
    // Of an iterable dataset: the lane, and of how many samples at most.
    int64_t lane = TaskRecord::kNoLane;
    ShardLanes lanes = {};  // All of the dataset.
    int64_t samples = 0;
    bool full = false;  // Of a lane: not of fewer samples.
    uint64_t run = 0;   // TaskRecord
  };
  // A job, and what it is made of.
  struct Task {
    Job job;
    std::vector<int64_t> indices;
    // Samples that are not made: they have ended a worker, as their status
    // says. In the order of their positions. `replaced_by` is the last item
    // that has ended a worker in the sample's place; -1: none.
    std::vector<SkippedSample> left_out = {};
    bool one_by_one = false;  // BatchTask
    bool after_end = false;   // Of a lane that has ended before.

    bool is_of_lane() const { return job.lane != TaskRecord::kNoLane; }
    // Samples, at most.
    int64_t count() const {
      return is_of_lane() ? job.samples : std::ssize(indices);
    }
    // That sample, if it is left out; else null.
    const SkippedSample* LeftOut(int64_t position) const;
  };
  struct Finished {
    Job job;
    int worker = 0;
    bool ended = false;           // The lane has, and there is no batch.
    absl::StatusOr<Batch> batch;  // Or its error; the worker goes on.
  };

  // To worker number `index`, which has up to `capacity` jobs at a time.
  // Errors: kInvalidArgument if so many samples exceed the size of a ring;
  // kResourceExhausted at a limit of descriptors or memory.
  static absl::StatusOr<WorkerLink> Create(
      int index, int capacity, std::shared_ptr<const BatchLayout> layout);

  // The worker's end of the channel, to be passed to it.
  Channel TakeWorkerEnd() { return std::move(worker_end_); }

  // Exchanges the ends of the rings with the worker, which has been started.
  // After kDeadlineExceeded another call goes on where this one stopped.
  // Errors: kDeadlineExceeded; kUnavailable.
  absl::Status Handshake(Deadline deadline);
  // Whether Handshake() has succeeded. Before, the worker takes no task and has
  // finished none.
  bool has_joined() const { return step_ == Step::kJoined; }
  // Readable when Handshake() can go on.
  int handshake_fd() const { return channel_.fd(); }

  // After Handshake(): the worker's counters.
  StatsView TakeStats() { return std::move(stats_); }
  // Batches that were claimed.
  uint64_t claimed() const { return claimed_; }

  size_t outstanding() const { return outstanding_.size(); }
  bool CanTake() const { return has_joined() && outstanding() < capacity_; }
  // The job that the worker does now, or has finished last, if any.
  const Job* current() const;
  // The task with this ticket; null if there is none.
  const Task* Find(uint64_t ticket) const;

  // Assigns the batch of the dataset items `indices`, or the next one of a
  // lane, without indices. Does not block. CanTake() must hold.
  absl::Status Assign(const Job& job, std::vector<int64_t> indices) {
    Task task = {job, std::move(indices)};
    return Assign(task);
  }
  // The same. Moves from `task`, unless there is an error.
  absl::Status Assign(Task& task);
  // The tasks that are not finished, which the worker has no more.
  std::deque<Task> TakeTasks() { return std::exchange(outstanding_, {}); }

  // From now on the worker may report jobs with a lower ticket as abandoned.
  void AbandonBefore(uint64_t ticket) { first_ticket_ = ticket; }

  // The next finished job, in the order of Assign(), if there is one. After an
  // error it is not finished. Does not block.
  absl::StatusOr<std::optional<Finished>> Take();
  // Whether Take() would return a job or an error. For spinning.
  bool HasFinished();
  // After a wake-up. Errors: kUnavailable if the worker is gone.
  absl::Status CheckAlive();

  // For event loops (doorbell.h): waits for a finished job.
  absl::StatusOr<int> PollFd() { return batches_->PollFd(); }
  absl::StatusOr<bool> Arm() { return batches_->Arm(); }
  void Disarm() { batches_->Disarm(); }

  // Closes the tasks and the channel, on which the worker exits.
  void HangUp();
  // After HangUp(): releases the rest, so that only the destructor may follow.
  void Release();

 private:
  // The next message of the handshake.
  enum class Step { kOffer, kReply, kBatches, kStats, kJoined };

  WorkerLink(int index, int capacity, std::shared_ptr<const BatchLayout> layout,
             std::unique_ptr<RingProducer> tasks,
             std::pair<Channel, Channel> channels);

  // One step of the handshake, whose message has come.
  absl::Status DoStep();
  absl::Status ReceiveStats();
  absl::StatusOr<Finished> OnRecord(const BatchRecord& record);
  // Errors: kDataLoss for what no worker reports of this job.
  absl::Status CheckRecord(const BatchRecord& record, const Task& job,
                           const std::optional<BatchNote>& note) const;
  // The lane of `job` has no more batches.
  void NoteEnd(const Job& job);
  // Receives the messages that belong to a record; returns its note, if any.
  absl::StatusOr<std::optional<BatchNote>> ReceiveMessages(
      const BatchRecord& record);
  static absl::Status CheckSkipped(absl::Span<const SkippedSample> skipped,
                                   const Task& job);
  absl::StatusOr<Batch> MakeBatch(const BatchRecord& record, const Task& job,
                                  BatchNote note);

  int index_;
  size_t capacity_;
  Step step_ = Step::kOffer;
  uint64_t tasks_offer_ = 0;  // The number of the offer of tasks_.
  std::shared_ptr<const BatchLayout> layout_;
  Channel channel_;
  Channel worker_end_;
  std::unique_ptr<RingProducer> tasks_;
  std::unique_ptr<RingReader> batches_;
  std::unique_ptr<ArenaTensorImporter> importer_;
  std::deque<Task> outstanding_;  // In the order of their assignment.
  uint64_t first_ticket_ = 0;
  StatsView stats_;
  uint64_t claimed_ = 0;
  std::vector<int64_t> words_;  // Kept for its memory.
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_WORKER_WORKER_LINK_H_

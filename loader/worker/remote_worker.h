// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// RemoteWorker: one worker process as the consumer sees it.

#ifndef TENON_LOADER_WORKER_REMOTE_WORKER_H_
#define TENON_LOADER_WORKER_REMOTE_WORKER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/loader/worker/messages.h"
#include "tenon/loader/worker/slot_pool.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/spawn/process/process.h"

namespace tenon::loader {

// Ownership: owns the process, its channel and its index lists. Its memory
//   slots stay mapped while batches use them.
// Threads: thread-compatible.
// Trust: each message of the worker is checked against the task it was given.
// Failure: after any error the worker is unusable.
class RemoteWorker {
 public:
  struct Job {
    uint64_t ticket = 0;
    int64_t number = 0;  // Which batch of the epoch.
    int64_t epoch = 0;
    int64_t first_position = 0;
  };
  struct Finished {
    uint64_t ticket = 0;
    int64_t number = 0;
    absl::StatusOr<Batch> batch;  // Or its error; the worker goes on.
  };

  // Starts workers 0 to count - 1, each with at most `capacity` jobs at a time.
  // Up to eight share a supervisor process. If one cannot be started, the
  // others are killed.
  static absl::StatusOr<std::vector<RemoteWorker>> Start(
      int count, int capacity, const WorkerSetup& setup,
      const std::shared_ptr<const BatchLayout>& layout);

  size_t outstanding() const { return outstanding_.size(); }
  bool CanTake() const { return outstanding() < capacity_; }

  // Assigns the batch of the dataset items `indices` to the worker. Does not
  // block. CanTake() must hold.
  absl::Status Assign(const Job& job, absl::Span<const int64_t> indices);

  // The next finished batch, if there is one; does not block. Errors: how the
  // worker ended, or which message of it was malformed.
  absl::StatusOr<std::optional<Finished>> Receive();

  // Closes the channel, on which the worker exits.
  void HangUp() { channel_.Release().Reset(); }
  // Waits for the exit of the worker. Errors: kDeadlineExceeded; its failure.
  absl::Status Join(Deadline deadline) { return process_.Join(deadline); }
  void Signal(int signal) { process_.Signal(signal).IgnoreError(); }

  // For poll(): readable when there is a message; when the worker has ended.
  int channel_fd() const { return channel_.fd(); }
  int end_fd() const { return process_.end_fd(); }

  int index() const { return process_.index(); }
  pid_t pid() const { return process_.pid(); }
  std::string Describe() const { return process_.Describe(); }
  // The number of the batch that the worker is making, if any.
  std::optional<int64_t> current() const;

 private:
  struct Ends;  // Both channel ends of a worker before its start.
  struct Outstanding {
    Job job;
    uint32_t slot = 0;
    int64_t count = 0;
    std::vector<SkippedSample> skipped;
  };

  RemoteWorker(spawn::Process process, Channel channel, WritableMapping lists,
               size_t capacity, std::shared_ptr<const BatchLayout> layout,
               const WorkerSetup& setup);

  absl::Status OnSampleFailed(SampleFailed failed);
  absl::StatusOr<Finished> OnBatchDone(const BatchDone& done,
                                       std::vector<UniqueFd> fds);
  // Maps the segment that came with the first batch in a slot.
  absl::Status MapSlot(uint32_t slot, const BatchDone& done,
                       std::vector<UniqueFd> fds);
  absl::StatusOr<Segment> OpenSegment(const BatchDone& done,
                                      std::vector<UniqueFd> fds) const;
  // Puts the worker's name before a message.
  absl::Status Named(const absl::Status& status) const;
  // Why the channel has closed although neither end closed it.
  absl::Status Failure();

  spawn::Process process_;
  Channel channel_;
  WritableMapping lists_;
  size_t capacity_;
  std::shared_ptr<const BatchLayout> layout_;
  SharingStrategy strategy_;
  std::string name_prefix_;
  std::shared_ptr<SlotPool> slots_ = std::make_shared<SlotPool>();
  std::deque<Outstanding> outstanding_;  // In the order of their assignment.
  uint64_t assigned_ = 0;
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_WORKER_REMOTE_WORKER_H_

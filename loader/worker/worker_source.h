// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// WorkerSource: makes batches in worker processes and hands them out in order.

#ifndef TENON_LOADER_WORKER_WORKER_SOURCE_H_
#define TENON_LOADER_WORKER_WORKER_SOURCE_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/loader/data/batch_source.h"
#include "tenon/loader/data/cancellation.h"
#include "tenon/loader/worker/messages.h"
#include "tenon/loader/worker/remote_worker.h"
#include "tenon/shm/base/deadline.h"

namespace tenon::loader {

// The batches in flight form a window: from the next one to be handed out, as
// many as all workers may hold jobs. Within it, the lowest unassigned batch
// goes to the worker with the fewest jobs, so a slow batch holds up its worker
// and not the others. It has no thread: everything happens inside Next(), and
// the workers' jobs in hand keep them busy while the consumer is elsewhere.
//
// Ownership: owns the workers; destroying it ends them. They are given a second
//   to end by themselves, then SIGTERM and half a second, then SIGKILL; after
//   that no process and no name in /dev/shm of theirs is left.
class WorkerSource : public BatchSource {
 public:
  // Starts `workers` (> 0) processes, each with up to `prefetch` jobs.
  // `cancellation` must outlive it.
  static absl::StatusOr<std::unique_ptr<WorkerSource>> Create(
      int workers, int prefetch, WorkerSetup setup,
      std::shared_ptr<const BatchLayout> layout,
      const Cancellation* cancellation);

  ~WorkerSource() override;

  void StartEpoch(const EpochPlan& plan) override;
  absl::StatusOr<Batch> Next(Deadline deadline) override;
  std::vector<pid_t> WorkerPids() const override;

 private:
  WorkerSource(std::string name_prefix, int64_t window,
               const Cancellation* cancellation)
      : name_prefix_(std::move(name_prefix)),
        window_(window),
        cancellation_(cancellation) {}

  // Gives jobs to workers as far as the window reaches.
  absl::Status Dispatch();
  // The worker with the fewest jobs; null if all have as many as they take.
  RemoteWorker* LeastBusy();
  // Waits for a message or an end, and takes in what has come.
  absl::Status Wait(Deadline deadline);
  absl::Status TakeIn(RemoteWorker& worker);
  // The batches and workers that are awaited, for the error of a deadline.
  std::string Waiting() const;

  void JoinAll(Deadline deadline);

  std::string name_prefix_;
  int64_t window_;
  const Cancellation* cancellation_;
  std::vector<RemoteWorker> workers_;

  EpochPlan plan_;
  int64_t next_to_assign_ = 0;
  int64_t next_to_return_ = 0;
  // Batches that are done before their turn, and errors: these are returned in
  // order, too.
  std::map<int64_t, absl::StatusOr<Batch>> ready_;
  uint64_t next_ticket_ = 0;
  uint64_t first_ticket_ = 0;  // Of this epoch; older ones were abandoned.
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_WORKER_WORKER_SOURCE_H_

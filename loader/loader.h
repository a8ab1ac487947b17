// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Loader: batches of a dataset, made by worker processes, in a fixed order.
//
//   int main(int argc, char** argv) {
//     tenon::spawn::Init(argc, argv);  // Workers are this program, too.
//     auto loader = Loader::Create(
//         {.dataset = "squares", .batch_size = 64, .workers = 2});
//     if (!loader.ok()) return Fail(loader.status());
//     (*loader)->StartEpoch(0);
//     for (;;) {
//       absl::StatusOr<std::optional<Batch>> batch = (*loader)->Next();
//       if (!batch.ok()) return Fail(batch.status());  // Names the worker.
//       if (!batch->has_value()) break;                // End of the epoch.
//       std::span<const float> squares = (**batch).field<float>("square");
//     }
//   }
//
// The batches of an epoch, their order and every bit in them depend on the
// dataset, the sampler, batch_size, seed and epoch, and not on the workers.

#ifndef TENON_LOADER_LOADER_H_
#define TENON_LOADER_LOADER_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/on_sample_error.h"
#include "tenon/loader/sampling/sampler.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/segment/sharing_strategy.h"

namespace tenon::loader {

class BatchSource;
class Cancellation;

struct LoaderOptions {
  // The name of a TENON_LOADER_DATASET, and what its factory is given.
  std::string dataset;
  std::string dataset_config;

  int64_t batch_size = 1;
  // Leaves out the last batch of an epoch if it is not full.
  bool drop_last = false;

  // Processes that make batches; 0: the consumer makes them itself.
  int workers = 0;
  // How many batches each worker is ahead, at the price of their memory.
  int prefetch = 2;

  // Of every random number that samples draw; see sample_random.h.
  uint64_t seed = 0;
  OnSampleError on_sample_error = OnSampleError::kFail;
  // How batches are named to the consumer. Unset: GetSharingStrategy().
  std::optional<SharingStrategy> strategy;
};

// Ownership: owns the worker processes; destroying it ends them, which takes
//   no time if they are idle, as long as a sample takes if not, and 1.5 s if
//   they do not answer. Batches outlive it.
// Threads: thread-compatible, but Cancel() may be called at any time.
// Processes: belongs to the process that made it.
// Trust: workers are this user's processes and run the same program; what they
//   say is checked all the same, and a bad one costs an error.
// Failure: after any error but kDeadlineExceeded the workers have been ended,
//   and every later call gives the same error.
class Loader {
 public:
  // Makes the dataset and starts the workers. With no `sampler`, the dataset in
  // its own order.
  // Errors: kInvalidArgument for options out of range; kNotFound for an unknown
  // dataset; the dataset's own; kFailedPrecondition if workers are asked for
  // and spawn::Init() was not called; kResourceExhausted at a limit.
  static absl::StatusOr<std::unique_ptr<Loader>> Create(
      LoaderOptions options, std::unique_ptr<Sampler> sampler = nullptr);

  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Begins epoch `epoch` (>= 0). One that is under way is abandoned; workers
  // finish the samples they have in hand.
  void StartEpoch(int64_t epoch);

  // The next batch, or nothing at the end of the epoch (and before the first
  // StartEpoch()). Blocks until the batch is there or `deadline` passes;
  // without workers, it computes the batch and the deadline does not interrupt
  // that. Errors:
  //   kDeadlineExceeded  names what each worker is doing; try again
  //   kCancelled         after Cancel()
  //   a sample's error   with worker, position and item, if options say kFail
  //   kAborted           a worker was killed or ended by itself: worker, pid,
  //                      signal or exit code
  //   kDataLoss          a worker sent something that cannot be
  absl::StatusOr<std::optional<Batch>> Next(
      Deadline deadline = Deadline::Never());

  // Makes a running and every later Next() return kCancelled. Safe from any
  // thread and from a signal handler, as long as the loader lives.
  void Cancel();

  // How many samples and batches an epoch has.
  int64_t samples() const;
  int64_t batches() const;

  const Dataset& dataset() const { return *dataset_; }
  // By number; empty if there are none, or not any more.
  std::vector<pid_t> worker_pids() const;

 private:
  Loader(LoaderOptions options, std::unique_ptr<Sampler> sampler,
         std::unique_ptr<Dataset> dataset,
         std::unique_ptr<Cancellation> cancellation);

  absl::Status Start();

  LoaderOptions options_;
  std::unique_ptr<Sampler> sampler_;
  std::unique_ptr<Dataset> dataset_;
  std::unique_ptr<Cancellation> cancellation_;
  std::unique_ptr<BatchSource> source_;
  int64_t left_ = 0;  // Batches of this epoch not yet handed out.
  absl::Status failure_;
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_LOADER_H_

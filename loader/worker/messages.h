// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The messages between a loader and one worker, which is a process or a thread.
//
//   tasks     ring to the worker: a TaskRecord, then records of 8 indices
//   batches   ring from the worker: one BatchRecord for each task, in order
//   channel   both ways, for the rest: the offers of the rings at the start;
//             from the worker, with BatchRecord::messages, an offer of its
//             arena for each new segment, and a BatchNote for each batch that
//             failed or skipped samples
//   control   memory that the loader writes and all workers map read-only
//   note      memory that the worker writes and the loader reads, when it waits
//             or the worker has died

#ifndef TENON_LOADER_WORKER_MESSAGES_H_
#define TENON_LOADER_WORKER_MESSAGES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/on_sample_error.h"
#include "tenon/shm/arena/block_descriptor.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/segment/sharing_strategy.h"

namespace tenon::loader {

// The argument of a worker process, and of one that describes a dataset.
struct WorkerSetup {
  std::string plugin;   // WorkerProgram::plugin; empty: none.
  std::string dataset;  // DatasetRecipe's name and bytes.
  std::string arguments;
  std::string spec;    // SampleSpec::ToString() in the consumer.
  int64_t shards = 0;  // Of an iterable dataset, in the consumer.
  int64_t lanes = 0;   // That these shards are in (shard_order.h).
  int64_t batch_size = 0;
  bool unbatched =
      false;             // batch_size is 1, and a batch has no dimension of it.
  int32_t prefetch = 1;  // Tasks at a time, at most.
  uint64_t seed = 0;
  OnSampleError on_error = OnSampleError::kFail;
  bool drop_last = false;  // Of an iterable dataset: that of each shard.
  SharingStrategy strategy = SharingStrategy::kFileDescriptor;
  std::string name_prefix;  // Of the segments of all workers.
  std::string worker_init;  // Its registered name; empty: none.
  int32_t workers = 1;
  int32_t threads = 1;  // Of each.
  int32_t rank = 0;
  int32_t world_size = 1;
  // Of its counters (loader/stats).
  RandomId loader;
  int32_t trace_events = 0;
};

// Of the segments of one worker.
std::string NamePrefixOf(const WorkerSetup& setup, int worker);

std::string Encode(const WorkerSetup& setup);
// Errors: kDataLoss for anything that Encode() does not make;
// kFailedPrecondition for what it makes in another version (kPluginVersion).
absl::StatusOr<WorkerSetup> DecodeWorkerSetup(absl::string_view bytes);

// How many items a worker tries in the place of one that failed.
inline constexpr int64_t kReplacements = 8;

// The loader's words; zero at first.
struct WorkerControl {
  // Tasks with a lower ticket were abandoned.
  SharedWord<uint64_t> first_ticket;
  // Not 0: stop before the next sample, and end.
  SharedWord<uint64_t> stop;
};

// A worker's words, in memory that outlives it; zero at first.
struct WorkerNote {
  // `sample`; other values are the number of a sample in its batch, plus 1.
  static constexpr uint64_t kNone = 0;
  static constexpr uint64_t kAll = ~uint64_t{0};  // In Dataset::GetBatch().

  // The task that it has begun last.
  SharedWord<uint64_t> ticket;
  // What it loads of this task's batch. One store for each sample.
  SharedWord<uint64_t> sample;
};

// One batch to make: of `count` items, whose indices follow, or the next batch
// of a lane of an iterable dataset, of up to `count` samples.
struct TaskRecord {
  static constexpr int64_t kNoLane = -1;
  // Flags: the batch is not made by Dataset::GetBatch(); it is made without the
  // samples whose index is ~index, of which the items up to this one have
  // failed.
  static constexpr uint64_t kOneByOne = 1;
  static constexpr uint64_t kLeavesOut = 2;

  uint64_t ticket = 0;  // Unique; in BatchRecord, too.
  int64_t epoch = 0;
  // Of the first sample; of a lane: how many of its batches come before.
  int64_t first_position = 0;
  uint64_t count = 0;
  int64_t lane = kNoLane;
  uint64_t run = 0;  // Of the epoch: another one begins all lanes again.
  uint64_t flags = 0;
  int64_t number = -1;  // Of the batch in its epoch, for reports.
};
struct IndexRecord {
  static constexpr uint64_t kIndices = 8;
  int64_t indices[kIndices] = {};
};
static_assert(sizeof(TaskRecord) == 64 && sizeof(IndexRecord) == 64);
static_assert(std::has_unique_object_representations_v<TaskRecord>);

// How many records a task of `count` indices has.
constexpr uint64_t TaskRecords(uint64_t count) {
  return 1 + (count + IndexRecord::kIndices - 1) / IndexRecord::kIndices;
}

// The result of a task.
struct BatchRecord {
  enum Outcome : uint64_t {
    kMade = 0,
    kFailed = 1,     // The note has the error; there is no block.
    kAbandoned = 2,  // As WorkerControl demanded; there is no block.
    kEnded = 3,      // The lane has no more; there is no block.
  };
  uint64_t ticket = 0;
  uint64_t outcome = kMade;
  int64_t samples = 0;
  // Messages of the channel to be received before this record is used.
  uint64_t messages = 0;
  BlockDescriptor block;
  uint64_t unused[2] = {};
};
static_assert(sizeof(BatchRecord) == 96);
static_assert(std::has_unique_object_representations_v<BatchRecord>);

// The first message of the channel after those of the rings, with the
// descriptor of the worker's counters.
inline constexpr absl::string_view kStatsMessage = "counters";

// A message of the channel: the offer of a segment, with its descriptors, or a
// note.
struct BatchNote {
  absl::Status status;
  std::vector<SkippedSample> skipped;
};
std::string EncodeOffer(absl::string_view offer);
std::string EncodeNote(const BatchNote& note);

struct WorkerMessage {
  bool is_offer = false;
  std::string offer;
  BatchNote note;
};
// Errors: kDataLoss for anything that the two above do not make.
absl::StatusOr<WorkerMessage> DecodeWorkerMessage(absl::string_view bytes);

}  // namespace tenon::loader

#endif  // TENON_LOADER_WORKER_MESSAGES_H_

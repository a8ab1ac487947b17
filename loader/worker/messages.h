// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// What a loader and its workers say to each other. A worker gets its setup as
// the argument of its process, then tasks over a channel; it answers each task
// with any number of SampleFailed messages and one BatchDone.

#ifndef TENON_LOADER_WORKER_MESSAGES_H_
#define TENON_LOADER_WORKER_MESSAGES_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/loader/data/field.h"
#include "tenon/loader/worker/fill_batch.h"
#include "tenon/shm/segment/sharing_strategy.h"

namespace tenon::loader {

// What a worker must know for its whole life.
struct WorkerSetup {
  std::string dataset;
  std::string dataset_config;
  std::vector<FieldSpec> fields;  // What the consumer expects.
  int64_t batch_size = 0;
  uint64_t seed = 0;
  OnSampleError on_error = OnSampleError::kFail;
  SharingStrategy strategy = SharingStrategy::kFileDescriptor;
  std::string name_prefix;  // Of its segments.
};

// One batch to make. Its indices are in the index segment, in list `list`.
struct Task {
  uint64_t ticket = 0;  // Unique; the answer has it too.
  int64_t epoch = 0;
  int64_t first_position = 0;
  uint32_t count = 0;
  uint32_t list = 0;
  uint32_t slot = 0;  // Which of the worker's memory slots to use.
};

// A sample that was skipped.
struct SampleFailed {
  uint64_t ticket = 0;
  int64_t position = 0;
  int64_t index = 0;
  absl::Status status;
};

// A task that is done, or has failed as a whole. The first batch in a slot
// brings the slot's segment: as the message's one descriptor, or by name.
struct BatchDone {
  uint64_t ticket = 0;
  int64_t filled = 0;
  absl::Status status;
  bool has_segment = false;
  std::string segment_name;  // Empty under the file_descriptor strategy.
};

using WorkerMessage = std::variant<SampleFailed, BatchDone>;

std::string Encode(const WorkerSetup& setup);
std::string Encode(const Task& task);
std::string Encode(const SampleFailed& failed);
std::string Encode(const BatchDone& done);

// Errors of all: kDataLoss for anything that Encode() does not make. Numbers
// are in the range of their type, and no more: what they refer to is the
// caller's to check.
absl::StatusOr<WorkerSetup> DecodeWorkerSetup(absl::string_view bytes);
absl::StatusOr<Task> DecodeTask(absl::string_view bytes);
absl::StatusOr<WorkerMessage> DecodeWorkerMessage(absl::string_view bytes);

}  // namespace tenon::loader

#endif  // TENON_LOADER_WORKER_MESSAGES_H_

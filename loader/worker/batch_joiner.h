// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// BatchJoiner: joins a batch of which each worker makes some samples.

#ifndef TENON_LOADER_WORKER_BATCH_JOINER_H_
#define TENON_LOADER_WORKER_BATCH_JOINER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon::loader {

// Ownership: batches keep their block of an arena of this process, which is
//   created with the first one.
// Threads: thread-compatible.
class BatchJoiner {
 public:
  explicit BatchJoiner(std::shared_ptr<const BatchLayout> layout)
      : layout_(std::move(layout)) {}

  // Begins batch `number` of `parts` parts. False if a field's shape differs
  // from sample to sample, and without memory for the batch.
  bool Begin(int64_t number, size_t parts);
  bool is_joining() const { return joined_.has_value(); }
  void Abandon() { joined_.reset(); }

  // Copies the next part behind those before it; is_joining() must hold. With
  // the last part the batch, or the first error of a part.
  std::optional<absl::StatusOr<Batch>> Add(absl::StatusOr<Batch> part);

 private:
  struct Joined {
    Tensor block;
    size_t parts_left = 0;
    Batch::Contents contents;  // Of the parts so far.
    absl::Status status;       // The first error of a part.
  };

  absl::Status Append(const Batch& part);

  const std::shared_ptr<const BatchLayout> layout_;
  std::shared_ptr<Arena> arena_;  // Null before the first Begin().
  std::optional<Joined> joined_;
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_WORKER_BATCH_JOINER_H_

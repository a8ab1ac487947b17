// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Batch: the samples that a loader hands out together.
//
//   absl::Status TrainEpoch(Loader& loader) {
//     while (true) {
//       TENON_ASSIGN_OR_RETURN(std::optional<Batch> batch, loader.Next());
//       if (!batch) return absl::OkStatus();
//       std::span<const float> images = batch->field<float>("image");
//       Train(images, batch->size());
//     }
//   }

#ifndef TENON_LOADER_DATA_BATCH_H_
#define TENON_LOADER_DATA_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tenon/loader/data/batch_layout.h"

namespace tenon::loader {

// A sample that was left out of its batch because Dataset::Get() failed on it.
struct SkippedSample {
  int64_t position;  // In the epoch.
  int64_t index;     // In the dataset.
  absl::Status status;
};

// Ownership: keeps its memory, which goes back to the worker for another batch
//   when the Batch is destroyed. Any number of batches may be kept, each at the
//   price of its memory; they may outlive the loader.
// Threads: thread-compatible; may be destroyed in any thread.
// Processes: with workers, the memory is shared with the one worker that wrote
//   it, and read-only here. That worker does not write while the Batch lives.
class Batch {
 public:
  // The memory of a batch, and the function that releases it.
  using Memory = std::shared_ptr<const std::byte>;

  struct Contents {
    int64_t number = 0;
    int64_t size = 0;
    int worker = -1;
    std::vector<SkippedSample> skipped;
  };
  // For loaders. `layout` says the offsets of the fields in `memory`.
  Batch(Contents contents, std::shared_ptr<const BatchLayout> layout,
        Memory memory)
      : contents_(std::move(contents)),
        layout_(std::move(layout)),
        memory_(std::move(memory)) {}

  // Which batch of the epoch this is, from 0.
  int64_t number() const { return contents_.number; }

  // How many samples it has: LoaderOptions::batch_size, less in the last batch
  // of an epoch and when samples were skipped, down to 0.
  int64_t size() const { return contents_.size; }

  // Which worker made it; -1 without workers.
  int worker() const { return contents_.worker; }

  const std::vector<SkippedSample>& skipped() const {
    return contents_.skipped;
  }

  // Fields in the order of Dataset::fields().
  const std::vector<FieldSpec>& fields() const { return layout_->fields(); }

  // The bytes of field `f`: size() samples, dense.
  std::span<const std::byte> bytes(size_t f) const;

  // The elements of a field, [size(), shape...] in row-major order. T must have
  // the size of the elements, and the field must exist; anything else is a
  // programming error and ends the process.
  template <typename T>
  std::span<const T> field(size_t f) const {
    CheckElementSize(f, sizeof(T));
    const std::span<const std::byte> raw = bytes(f);
    return {reinterpret_cast<const T*>(raw.data()), raw.size() / sizeof(T)};
  }
  template <typename T>
  std::span<const T> field(absl::string_view name) const {
    return field<T>(IndexOf(name));
  }

  // Bytes of all fields together.
  int64_t total_bytes() const;

 private:
  void CheckElementSize(size_t f, size_t size) const;
  size_t IndexOf(absl::string_view name) const;

  Contents contents_;
  std::shared_ptr<const BatchLayout> layout_;
  Memory memory_;
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATA_BATCH_H_

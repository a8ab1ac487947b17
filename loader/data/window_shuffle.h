// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// WindowShuffle: shuffles the samples of a stream that is larger than memory.
//
//   absl::StatusOr<std::unique_ptr<SampleStream>> OpenShuffled(
//       const std::string& path) {
//     TENON_ASSIGN_OR_RETURN(auto lines, OpenLines(path));
//     return WindowShuffle::Create(std::move(lines), LineSpec(), 10'000);
//   }

#ifndef TENON_LOADER_DATA_WINDOW_SHUFFLE_H_
#define TENON_LOADER_DATA_WINDOW_SHUFFLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/loader/data/iterable_dataset.h"
#include "tenon/loader/data/sample.h"
#include "tenon/loader/data/sample_scratch.h"
#include "tenon/loader/data/sample_spec.h"
#include "tenon/loader/sampling/sample_random.h"

namespace tenon::loader {

// Keeps `window` samples in memory of the process. Next() returns one of them,
// drawn uniformly, and the stream's next sample replaces it. So a sample comes
// at most `window` - 1 places early, and any number of places late. The order
// is drawn from the samples' random numbers: it differs from epoch to epoch,
// and does not depend on workers.
//
// The first Next() reads `window` samples, and cannot be stopped: while it
// runs, Loader::Cancel(), another epoch and the loader's destructor wait for it
// (or kill its worker process). The window is not part of memory_quota.
//
// Resuming: the window depends on all samples before, so a loader that resumes
// in mid-shard reads the shard from its beginning, and then returns the same
// samples in the same order.
//
// Ownership: owns the stream and the window.
// Threads: an instance is used by one thread at a time.
// Failure: after an error of the stream's Next() no sample is lost with
//   OnSampleError::kSkip; with kFail the shard ends there, and the samples of
//   the window are not returned. A sample that does not fit the batch, or for which
//   there is no memory, is dropped with its error.
class WindowShuffle : public SampleStream {
 public:
  // `spec` must be that of the dataset, else Next() returns an error for each
  // sample. Errors: kInvalidArgument for a null stream and a window below 1;
  // BatchLayout::Create()'s for a sample of `spec`.
  static absl::StatusOr<std::unique_ptr<SampleStream>> Create(
      std::unique_ptr<SampleStream> stream, const SampleSpec& spec,
      int64_t window);

  absl::StatusOr<bool> Next(SampleRandom& random, Sample& sample) override;

 private:
  struct Slot {
    std::unique_ptr<std::byte[]> memory;
    std::unique_ptr<SampleScratch> scratch;
  };

  WindowShuffle(std::unique_ptr<SampleStream> stream, BatchLayout layout,
                int64_t window);

  Sample SampleOf(const Slot& slot) const {
    return Sample(layout_, slot.memory.get(), 0, 1, slot.scratch.get());
  }

  std::unique_ptr<SampleStream> stream_;
  const size_t window_;
  const BatchLayout layout_;  // Of one sample.
  std::vector<Slot> slots_;   // At most window_.
  size_t kept_ = 0;           // Samples in slots [0, kept_).
  bool ended_ = false;        // The stream has.
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATA_WINDOW_SHUFFLE_H_

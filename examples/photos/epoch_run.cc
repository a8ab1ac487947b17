// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/examples/photos/epoch_run.h"

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tenon/examples/photos/progress.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/loader.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon {
namespace {

using loader::Batch;
using loader::Loader;
using loader::SkippedSample;

absl::Duration Since(std::chrono::steady_clock::time_point began) {
  return absl::FromChrono(std::chrono::steady_clock::now() - began);
}

// The file in a sample's error: the text before the first colon.
std::string FileOf(const SkippedSample& sample) {
  const absl::string_view message = sample.status.message();
  return std::string(message.substr(0, message.find(": ")));
}

void Warn(const SkippedSample& sample) {
  // On a terminal, over the progress bar, which is redrawn.
  if (isatty(STDERR_FILENO)) std::fputs("\r\033[K", stderr);
  std::fprintf(stderr, "photo_epoch: skipped: %s\n",
               std::string(sample.status.message()).c_str());
}

void Count(const Batch& batch, bool show, EpochResults& results) {
  results.images += batch.size();
  results.batches += 1;
  results.bytes += batch.total_bytes();
  results.images_of_worker[batch.worker()] += batch.size();
  for (const SkippedSample& sample : batch.skipped()) {
    results.skipped += 1;
    const bool is_new = results.bad_files.insert(FileOf(sample)).second;
    if (is_new && show) Warn(sample);
  }
  results.digest.Add(batch);
}

absl::Status RunEpoch(Loader& loader, int64_t epoch,
                      const EpochRunOptions& options, EpochResults& results) {
  std::optional<ProgressBar> bar;
  if (options.show) {
    std::fflush(stdout);  // The bar writes to the descriptor.
    bar.emplace(ProgressOptions{.label = absl::StrCat("epoch ", epoch + 1),
                                .total_images = loader.samples()});
  }
  for (const absl::StatusOr<Batch>& batch : loader.Epoch(epoch)) {
    TENON_RETURN_IF_ERROR(batch.status());
    if (results.batches == 0) {
      results.time_to_first_batch = Since(options.began);
    }
    Count(*batch, options.show, results);
    if (bar) bar->Add(batch->size(), batch->total_bytes());
  }
  if (bar) bar->Finish();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<EpochResults> RunEpochs(Loader& loader,
                                       const EpochRunOptions& options) {
  EpochResults results;
  for (int64_t epoch = 0; epoch < options.epochs; ++epoch) {
    TENON_RETURN_IF_ERROR(RunEpoch(loader, epoch, options, results));
  }
  results.wall_time = Since(options.began);
  results.tuning = loader.tuning();
  return results;
}

std::string Summary(const EpochResults& results) {
  const double seconds = absl::ToDoubleSeconds(results.wall_time);
  std::string text = absl::StrFormat(
      "images:              %d\n"
      "batches:             %d\n"
      "bytes:               %d\n"
      "wall time:           %.2f s\n"
      "images/s:            %.1f\n"
      "time to first batch: %.3f s\n",
      results.images, results.batches, results.bytes, seconds,
      static_cast<double>(results.images) / seconds,
      absl::ToDoubleSeconds(results.time_to_first_batch));
  if (results.skipped > 0) {
    absl::StrAppendFormat(&text, "skipped:             %d samples of %d %s\n",
                          results.skipped, results.bad_files.size(),
                          results.bad_files.size() == 1 ? "file" : "files");
  }
  if (!results.tuning.empty()) {
    absl::StrAppend(&text, "workers:             ", results.tuning, "\n");
  }
  for (const auto& [worker, images] : results.images_of_worker) {
    const double share = results.images == 0
                             ? 0
                             : 100.0 * static_cast<double>(images) /
                                   static_cast<double>(results.images);
    const std::string name =
        worker < 0 ? "this process:" : absl::StrCat("worker ", worker, ":");
    absl::StrAppendFormat(&text, "%-20s %d images (%.1f %%)\n", name, images,
                          share);
  }
  return text;
}

}  // namespace tenon

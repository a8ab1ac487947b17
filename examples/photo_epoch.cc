// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// photo_epoch: an epoch of photographs through worker processes.
//
//   ./bazelw run -c opt //examples:photo_epoch -- --workers 2 --verify
//   mpirun -n 2 bazel-bin/examples/photo_epoch --images FOLDER
//
// Workers decode JPEG files, crop, resize, flip and normalise them directly
// into shared memory; this process takes the batches in order. Started by a
// launcher, it takes those of its rank. Exit codes: 0 success; 1 failure; 2 bad
// input or flag; 128 + N ended by signal N.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/examples/photos/epoch_run.h"
#include "tenon/examples/photos/interrupt.h"
#include "tenon/examples/photos/photo_dataset.h"
#include "tenon/examples/photos/photo_folder.h"
#include "tenon/loader/job/job.h"
#include "tenon/loader/loader.h"
#include "tenon/loader/sampling/distributed_sampler.h"
#include "tenon/loader/sampling/random_sampler.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/spawn/child/init.h"

ABSL_FLAG(std::string, images, "/usr/share/backgrounds/mate",
          "a folder with a folder of JPEG files for each class");
ABSL_FLAG(std::optional<int>, workers, 2,
          "worker processes; 0: decode in this one; empty: as many as help");
ABSL_FLAG(int64_t, batch_size, 16, "images in a batch");
ABSL_FLAG(int64_t, samples, 400, "random crops in an epoch");
ABSL_FLAG(int64_t, epochs, 1, "how often to go through the samples");
ABSL_FLAG(int, image_size, 224, "width and height of a crop, in pixels");
ABSL_FLAG(uint64_t, seed, 0, "of order, crops and flips");
ABSL_FLAG(std::string, strategy, "file_descriptor",
          "how batches are shared: file_descriptor or file_system");
ABSL_FLAG(std::string, on_bad_image, "skip",
          "action for files that are not valid JPEG: skip or fail");
ABSL_FLAG(bool, report, false, "print where the time went, and what to change");
ABSL_FLAG(std::string, trace, "",
          "a file for the last stages of each process; open it in "
          "ui.perfetto.dev");
ABSL_FLAG(bool, verify, false,
          "repeat without workers; fail unless every bit is the same");

namespace tenon {
namespace {

using loader::DistributedSampler;
using loader::Loader;
using loader::LoaderOptions;
using loader::OnSampleError;
using loader::RandomSampler;

// Prints the error; returns its exit code.
int Fail(int code, const absl::Status& status) {
  std::fflush(stdout);
  std::fprintf(stderr, "photo_epoch: %s\n",
               std::string(status.message()).c_str());
  return code;
}

absl::Status CheckRange(const char* flag, int64_t value, int64_t least,
                        int64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "--", flag, " must be ", least, " to ", most, ", not ", value));
}

absl::Status CheckNumbers() {
  constexpr int64_t kMany = int64_t{1} << 40;
  TENON_RETURN_IF_ERROR(
      CheckRange("workers", absl::GetFlag(FLAGS_workers).value_or(0), 0, 512));
  TENON_RETURN_IF_ERROR(
      CheckRange("batch_size", absl::GetFlag(FLAGS_batch_size), 1, 65536));
  TENON_RETURN_IF_ERROR(
      CheckRange("samples", absl::GetFlag(FLAGS_samples), 1, kMany));
  TENON_RETURN_IF_ERROR(
      CheckRange("epochs", absl::GetFlag(FLAGS_epochs), 1, kMany));
  return CheckRange("image_size", absl::GetFlag(FLAGS_image_size), 1, 4096);
}

absl::StatusOr<OnSampleError> OnBadImage() {
  const std::string value = absl::GetFlag(FLAGS_on_bad_image);
  if (value == "skip") return OnSampleError::kSkip;
  if (value == "fail") return OnSampleError::kFail;
  return absl::InvalidArgumentError(
      absl::StrCat("--on_bad_image must be skip or fail, not '", value, "'"));
}

// The parsed flags.
struct Job {
  LoaderOptions options;
  std::vector<Photo> photos;
};

absl::StatusOr<Job> JobOfFlags() {
  TENON_RETURN_IF_ERROR(CheckNumbers());
  TENON_ASSIGN_OR_RETURN(const OnSampleError on_bad_image, OnBadImage());
  TENON_ASSIGN_OR_RETURN(const SharingStrategy strategy,
                         ParseSharingStrategy(absl::GetFlag(FLAGS_strategy)));
  TENON_ASSIGN_OR_RETURN(const auto rank, loader::FindRank());
  TENON_ASSIGN_OR_RETURN(PhotoFolder folder,
                         ListPhotos(absl::GetFlag(FLAGS_images)));
  std::printf("%zu photographs in %zu classes\n", folder.photos.size(),
              folder.classes.size());
  TENON_ASSIGN_OR_RETURN(
      auto order,
      RandomSampler::Create({.dataset_size = std::ssize(folder.photos),
                             .samples = absl::GetFlag(FLAGS_samples),
                             .seed = absl::GetFlag(FLAGS_seed)}));
  LoaderOptions options = {
      .batch_size = absl::GetFlag(FLAGS_batch_size),
      .workers = absl::GetFlag(FLAGS_workers).value_or(loader::kAuto),
      .seed = absl::GetFlag(FLAGS_seed),
      .on_sample_error = on_bad_image,
      .rank = rank,
      .strategy = strategy};
  TENON_ASSIGN_OR_RETURN(
      options.sampler,
      DistributedSampler::Create(std::move(order), rank,
                                 {.batch_size = *options.batch_size}));
  return Job{std::move(options), std::move(folder.photos)};
}

absl::StatusOr<EpochResults> Run(const Job& job, bool show) {
  const auto began = std::chrono::steady_clock::now();
  TENON_ASSIGN_OR_RETURN(
      const auto loader,
      Loader::Create<PhotoDataset>(job.options, job.photos,
                                   absl::GetFlag(FLAGS_image_size)));
  const InterruptCancels cancels(loader.get());
  absl::StatusOr<EpochResults> results = RunEpochs(
      *loader,
      {.epochs = absl::GetFlag(FLAGS_epochs), .began = began, .show = show});
  if (!show) return results;
  if (absl::GetFlag(FLAGS_report)) {
    std::fputs(loader->Report().ToText().c_str(), stdout);
  }
  if (const std::string path = absl::GetFlag(FLAGS_trace); !path.empty()) {
    std::ofstream file(path);
    if (!(file << loader->Trace()).flush()) {
      return absl::UnavailableError(absl::StrCat("cannot write ", path));
    }
  }
  return results;
}

// Runs the same epochs without workers and compares.
absl::Status Verify(Job job, const EpochResults& results) {
  std::printf("verifying: the same again without workers\n");
  job.options.workers = 0;
  TENON_ASSIGN_OR_RETURN(const EpochResults again, Run(job, /*show=*/false));
  TENON_RETURN_IF_ERROR(results.digest.CompareWith(again.digest));
  std::printf("verified: all %d batches are bit-identical\n",
              static_cast<int>(again.batches));
  return absl::OkStatus();
}

// Reports a failed run: ended by a signal, or by an error.
int FailRun(const absl::Status& status) {
  return Fail(InterruptedBy() != 0 ? 128 + InterruptedBy() : 1, status);
}

int Main() {
  const absl::StatusOr<Job> job = JobOfFlags();
  if (!job.ok()) return Fail(2, job.status());
  const absl::StatusOr<EpochResults> results = Run(*job, /*show=*/true);
  if (!results.ok()) return FailRun(results.status());
  std::fputs(Summary(*results).c_str(), stdout);
  if (absl::GetFlag(FLAGS_verify)) {
    const absl::Status same = Verify(*job, *results);
    if (!same.ok()) return FailRun(same);
  }
  std::printf("checksum: %s\n", results->digest.Checksum().c_str());
  return 0;
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  tenon::spawn::Init(argc, argv);
  absl::SetProgramUsageMessage(
      "Loads an epoch of photographs with worker processes.");
  absl::ParseCommandLine(argc, argv);
  return tenon::Main();
}

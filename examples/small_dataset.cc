// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A dataset and its loader: two worker processes write samples directly into
// the batches that this process reads.

#include <iostream>

#include "absl/time/clock.h"
#include "tenon/loader/loader.h"
#include "tenon/shm/base/exit_code.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/spawn/child/init.h"

using namespace tenon::loader;  // NOLINT: a program of one file.

class Noise : public Dataset {
 public:
  explicit Noise(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  SampleSpec spec() const override {
    return SampleSpec().Add<float>("image", {3, 64, 64}).Add<int64_t>("label");
  }
  absl::Status Get(int64_t index, SampleRandom& random, Sample& to) override {
    TENON_ASSIGN_OR_RETURN(const auto pixels, to.data<float>("image"));
    for (float& pixel : pixels) pixel = static_cast<float>(random.Uniform());
    return to.Set("label", index % 10);
  }

 private:
  int64_t size_;
};
TENON_LOADER_DATASET(Noise(int64_t));

int main(int argc, char** argv) {
  tenon::spawn::Init(argc, argv);  // The workers are this program, too.
  const auto loader = Loader::Create<Noise>(
      {.batch_size = 64, .shuffle = true, .workers = 2}, 2000);
  if (!loader.ok()) return tenon::ExitCode(loader.status());
  const absl::Time began = absl::Now();
  double sum = 0;
  for (const absl::StatusOr<Batch>& batch : (*loader)->Epoch(0)) {
    if (!batch.ok()) return tenon::ExitCode(batch.status());
    sum += **batch->tensor("image")->at<const float>({0, 0, 0, 0});
  }
  const auto batches = static_cast<double>((*loader)->batches());
  std::cout << batches << " batches of 3 MB: " << absl::Now() - began
            << "\nmean of their first pixels " << sum / batches << "\n";
}

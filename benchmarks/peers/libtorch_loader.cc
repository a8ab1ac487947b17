// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The peer loader.libtorch: torch::data of LibTorch, without workers and with
// its threads, two batches ahead for each. Prints the time of a batch. Built by
// tools/install_peers, not by Bazel.

#include <time.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

// Batches of copies of the same values, which stay in the cache. Samples are
// written into their places: the fastest form of a dataset.
class Flat : public torch::data::datasets::BatchDataset<Flat, torch::Tensor> {
 public:
  Flat(int64_t floats, int64_t size)
      : values_(static_cast<size_t>(floats), 1), size_(size) {}
  torch::Tensor get_batch(torch::ArrayRef<size_t> indices) override {
    const torch::Tensor batch =
        torch::empty({static_cast<int64_t>(indices.size()),
                      static_cast<int64_t>(values_.size())});
    float* to = batch.data_ptr<float>();
    for (size_t i = 0; i < indices.size(); ++i, to += values_.size()) {
      std::memcpy(to, values_.data(), values_.size() * sizeof(float));
    }
    return batch;
  }
  torch::optional<size_t> size() const override {
    return static_cast<size_t>(size_);
  }

 private:
  std::vector<float> values_;
  int64_t size_;
};

struct Shape {
  int64_t floats, batch_size, batches;
};
constexpr Shape kShapes[] = {
    {1, 64, 4096}, {3 * 32 * 32, 64, 128}, {3 * 224 * 224, 32, 8}};

double Microseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e6 +
         static_cast<double>(now.tv_nsec) * 1e-3;
}

// The median of a batch's time over epochs of about `seconds` in all.
double BatchMicroseconds(const Shape& shape, size_t workers, double seconds) {
  auto options = torch::data::DataLoaderOptions()
                     .batch_size(static_cast<size_t>(shape.batch_size))
                     .workers(workers);
  if (workers > 0) options.max_jobs(2 * workers);
  auto loader =
      torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
          Flat(shape.floats, shape.batch_size * shape.batches), options);
  std::vector<double> epochs;
  const double end = Microseconds() + seconds * 1e6;
  while (epochs.size() < 6 || Microseconds() < end) {
    const double begin = Microseconds();
    for (const torch::Tensor& batch : *loader) {
      if (batch.data_ptr<float>()[0] != 1) return -1;
    }
    epochs.push_back((Microseconds() - begin) /
                     static_cast<double>(shape.batches));
  }
  epochs.erase(epochs.begin());  // The first one warms up.
  std::nth_element(epochs.begin(), epochs.begin() + epochs.size() / 2,
                   epochs.end());
  return epochs[epochs.size() / 2];
}

}  // namespace

// --seconds=S is the time of each case; other arguments do not matter.
int main(int argc, char** argv) {
  double seconds = 1;
  for (int i = 1; i < argc; ++i)
    std::sscanf(argv[i], "--seconds=%lf", &seconds);
  torch::set_num_threads(1);
  for (const Shape& shape : kShapes) {
    for (const size_t workers : {0, 1, 2}) {
      const double us = BatchMicroseconds(shape, workers, seconds);
      if (us < 0) return 1;
      std::printf("BM_Batch/floats:%lld/workers:%zu/threads:%d  us=%.3f\n",
                  static_cast<long long>(shape.floats), workers, workers > 0,
                  us);
      std::fflush(stdout);
    }
  }
}

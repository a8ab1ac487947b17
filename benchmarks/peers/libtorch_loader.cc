// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The peer loader.libtorch: torch::data of LibTorch, without workers and with
// its threads, two batches ahead for each. Prints the time of a batch, and of
// the start and the stop of loaders with threads. Built by tools/install_peers,
// not by Bazel.

#include <time.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <set>
#include <string>
#include <utility>
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
constexpr int64_t kBatches[] = {1, 8, 64, 512};

double Microseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e6 +
         static_cast<double>(now.tv_nsec) * 1e-3;
}

auto LoaderOf(const Shape& shape, size_t workers) {
  auto options = torch::data::DataLoaderOptions()
                     .batch_size(static_cast<size_t>(shape.batch_size))
                     .workers(workers);
  if (workers > 0) options.max_jobs(2 * workers);
  return torch::data::make_data_loader<
      torch::data::samplers::SequentialSampler>(
      Flat(shape.floats, shape.batch_size * shape.batches), options);
}

double MedianOf(std::vector<double> times) {
  const auto middle = times.begin() + static_cast<ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

// The median of a batch's time over epochs of about `seconds` in all.
double BatchMicroseconds(const Shape& shape, size_t workers, double seconds) {
  auto loader = LoaderOf(shape, workers);
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
  return MedianOf(std::move(epochs));
}

// Medians of the time to the first tiny batch, and of the destructor.
void MeasureStarts(size_t workers, double seconds, double& start_us,
                   double& stop_us) {
  std::vector<double> starts, stops;
  const double end = Microseconds() + seconds * 1e6;
  while (starts.size() < 3 || Microseconds() < end) {
    const double begin = Microseconds();
    auto loader = LoaderOf({1, 64, 8}, workers);
    const torch::Tensor first = *loader->begin();
    starts.push_back(Microseconds() - begin);
    const double stop = Microseconds();
    loader.reset();
    stops.push_back(Microseconds() - stop);
  }
  start_us = MedianOf(std::move(starts));
  stop_us = MedianOf(std::move(stops));
}

bool IsWanted(const std::set<std::string>& wanted, const std::string& key) {
  return wanted.empty() || wanted.count(key) > 0;
}

// Prints the case. False if a batch has wrong values.
bool Measure(const std::string& key, const Shape& shape, size_t workers,
             double seconds) {
  const double us = BatchMicroseconds(shape, workers, seconds);
  if (us < 0) return false;
  std::printf("%s  us=%.3f\n", key.c_str(), us);
  std::fflush(stdout);
  return true;
}

}  // namespace

// --seconds=S is the time of each case; the other arguments are the keys of the
// cases that are wanted; none: all.
int main(int argc, char** argv) {
  double seconds = 1;
  std::set<std::string> wanted;
  for (int i = 1; i < argc; ++i) {
    if (argv[i][0] != '-') wanted.insert(argv[i]);
    std::sscanf(argv[i], "--seconds=%lf", &seconds);
  }
  torch::set_num_threads(1);
  for (const Shape& shape : kShapes) {
    for (const size_t workers : {0, 1, 2}) {
      const std::string key =
          "BM_Batch/floats:" + std::to_string(shape.floats) +
          "/workers:" + std::to_string(workers);
      if (IsWanted(wanted, key) && !Measure(key, shape, workers, seconds)) {
        return 1;
      }
    }
  }
  for (const int64_t batch : kBatches) {
    const Shape shape = {3 * 32 * 32, batch,
                         std::max<int64_t>(4, 2048 / batch)};
    const std::string key =
        "BM_BatchSize/batch:" + std::to_string(batch) + "/workers:2";
    if (IsWanted(wanted, key) && !Measure(key, shape, 2, seconds)) return 1;
  }
  for (const size_t workers : {1, 2, 4}) {
    const std::string end = "_threads_" + std::to_string(workers);
    double start_us, stop_us;
    if (!IsWanted(wanted, "start" + end) && !IsWanted(wanted, "stop" + end)) {
      continue;
    }
    MeasureStarts(workers, seconds, start_us, stop_us);
    std::printf("start%s  us=%.3f\nstop%s  us=%.3f\n", end.c_str(), start_us,
                end.c_str(), stop_us);
    std::fflush(stdout);
  }
}

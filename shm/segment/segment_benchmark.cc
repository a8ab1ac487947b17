// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The cost of a segment created for one use, and of a kept one, beside the
// limit of both: the same memcpy() into mapped private memory. The counter
// vs_memcpy is the CPU time as a multiple of that limit, which the same run
// measures first. The bare system calls show the kernel's share.

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "benchmark/benchmark.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"

namespace tenon {
namespace {

constexpr int kLimitSamples = 9;
constexpr double kSecondsPerSample = 0.005;
// Between readings of the clock.
constexpr size_t kBytesPerBatch = size_t{1} << 20;

// CPU time, because machines that measure are seldom idle.
double CpuSeconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) +
         static_cast<double>(time.tv_nsec) * 1e-9;
}

// Private memory with allocated pages. It begins at a page as mappings do: the
// relative alignment of two addresses changes the speed of memcpy().
class PrivateMemory {
 public:
  explicit PrivateMemory(size_t size_bytes)
      : data_(std::aligned_alloc(kPage, size_bytes), std::free),
        size_bytes_(size_bytes) {
    std::memset(data_.get(), 0x5a, size_bytes);
  }

  void* data() const { return data_.get(); }
  size_t size_bytes() const { return size_bytes_; }

 private:
  static constexpr size_t kPage = 4096;

  std::unique_ptr<void, void (*)(void*)> data_;
  size_t size_bytes_;
};

void Copy(void* to, const PrivateMemory& from) {
  std::memcpy(to, from.data(), from.size_bytes());
  benchmark::DoNotOptimize(to);
  benchmark::ClobberMemory();
}

// The median over some samples of the time of one copy.
double MeasureMemcpy(size_t size_bytes) {
  const PrivateMemory source(size_bytes);
  const PrivateMemory target(size_bytes);
  const size_t batch = std::max<size_t>(1, kBytesPerBatch / size_bytes);
  std::vector<double> samples;
  for (int i = 0; i < kLimitSamples; ++i) {
    const double start = CpuSeconds();
    double seconds = 0;
    size_t copies = 0;
    while (seconds < kSecondsPerSample) {
      for (size_t j = 0; j < batch; ++j) Copy(target.data(), source);
      copies += batch;
      seconds = CpuSeconds() - start;
    }
    samples.push_back(seconds / static_cast<double>(copies));
  }
  std::nth_element(samples.begin(), samples.begin() + kLimitSamples / 2,
                   samples.end());
  return samples[kLimitSamples / 2];
}

// Measured once for each size.
double MemcpySeconds(size_t size_bytes) {
  static auto& seconds = *new std::map<size_t, double>;
  const auto [found, is_new] = seconds.try_emplace(size_bytes);
  if (is_new) found->second = MeasureMemcpy(size_bytes);
  return found->second;
}

// Runs `use` with a source of the requested size, and reports the time.
template <typename Use>
void Measure(benchmark::State& state, Use use) {
  const auto size_bytes = static_cast<size_t>(state.range(0));
  const double limit = MemcpySeconds(size_bytes);
  const PrivateMemory source(size_bytes);
  const double start = CpuSeconds();
  for (auto _ : state) use(source);
  const double seconds = CpuSeconds() - start;
  const auto iterations = static_cast<double>(state.iterations());
  state.SetBytesProcessed(state.iterations() * state.range(0));
  if (iterations > 0) {
    state.counters["vs_memcpy"] = seconds / iterations / limit;
  }
}

void BM_Segment_CreateFillDestroy(benchmark::State& state,
                                  SharingStrategy strategy) {
  const SegmentOptions options = {.strategy = strategy};
  Measure(state, [&](const PrivateMemory& source) {
    absl::StatusOr<Segment::OwnerWritten> made =
        Segment::CreateOwnerWritten(source.size_bytes(), options);
    if (!made.ok()) {
      state.SkipWithError(made.status().ToString().c_str());
      return;
    }
    Copy(made->mapping.data(), source);
  });
}

// Without reserving pages, without seals, without checks.
void BM_SystemCalls_CreateFillDestroy(benchmark::State& state) {
  Measure(state, [&](const PrivateMemory& source) {
    const size_t size_bytes = source.size_bytes();
    const int fd = memfd_create("segment_benchmark", MFD_CLOEXEC);
    void* data = MAP_FAILED;
    if (ftruncate(fd, static_cast<off_t>(size_bytes)) == 0) {
      data =
          mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    if (data == MAP_FAILED) {
      state.SkipWithError("memfd_create, ftruncate or mmap failed");
    } else {
      Copy(data, source);
      munmap(data, size_bytes);
    }
    close(fd);
  });
}

void BM_Segment_FillPooled(benchmark::State& state, SharingStrategy strategy) {
  const auto size_bytes = static_cast<size_t>(state.range(0));
  const absl::StatusOr<Segment::OwnerWritten> made =
      Segment::CreateOwnerWritten(size_bytes, {.strategy = strategy});
  if (!made.ok()) {
    state.SkipWithError(made.status().ToString().c_str());
    return;
  }
  Copy(made->mapping.data(), PrivateMemory(size_bytes));  // Touches every page.
  Measure(state, [&](const PrivateMemory& source) {
    Copy(made->mapping.data(), source);
  });
}

// The limit, once more as a benchmark: 1 except for the noise of the machine.
void BM_Memcpy_PrivateMemory(benchmark::State& state) {
  const PrivateMemory target(static_cast<size_t>(state.range(0)));
  Measure(state,
          [&](const PrivateMemory& source) { Copy(target.data(), source); });
}

void Sizes(benchmark::internal::Benchmark* benchmark) {
  for (int64_t bytes : {4 << 10, 1 << 20, 16 << 20}) benchmark->Arg(bytes);
  benchmark->ArgName("bytes");
}

BENCHMARK(BM_Memcpy_PrivateMemory)->Apply(Sizes);
BENCHMARK_CAPTURE(BM_Segment_FillPooled, file_descriptor,
                  SharingStrategy::kFileDescriptor)
    ->Apply(Sizes);
BENCHMARK_CAPTURE(BM_Segment_FillPooled, file_system,
                  SharingStrategy::kFileSystem)
    ->Apply(Sizes);
BENCHMARK(BM_SystemCalls_CreateFillDestroy)->Apply(Sizes);
BENCHMARK_CAPTURE(BM_Segment_CreateFillDestroy, file_descriptor,
                  SharingStrategy::kFileDescriptor)
    ->Apply(Sizes);
BENCHMARK_CAPTURE(BM_Segment_CreateFillDestroy, file_system,
                  SharingStrategy::kFileSystem)
    ->Apply(Sizes);

}  // namespace
}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The cost of a training sample of 224 x 224 pixels, stage by stage, from a
// photograph of 4000 x 3000 pixels (12 megapixels, 4:2:0, baseline).
//
//   bazel run -c opt //examples/photos:photo_sample_benchmark

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "tenon/examples/photos/jpeg.h"
#include "tenon/examples/photos/photo_sample.h"
#include "tenon/examples/photos/resample.h"
#include "tenon/examples/photos/test_jpeg.h"

namespace tenon {
namespace {

constexpr int kWidth = 4000;
constexpr int kHeight = 3000;
constexpr int kSize = 224;

const std::vector<uint8_t>& Photo() {
  static const auto& jpeg = *new std::vector<uint8_t>(
      MakeTestJpeg(MakeTestImage(kWidth, kHeight), TestJpegKind::kBaseline));
  return jpeg;
}

// Samples a second, and megabytes of files a second.
void CountPhotos(benchmark::State& state) {
  state.SetItemsProcessed(state.iterations());
  state.SetBytesProcessed(state.iterations() *
                          static_cast<int64_t>(Photo().size()));
}

void BM_ReadSize(benchmark::State& state) {
  JpegDecoder decoder;
  for (auto _ : state) {
    const absl::StatusOr<JpegSize> size = decoder.ReadSize(Photo());
    if (!size.ok()) return state.SkipWithError("ReadSize");
    benchmark::DoNotOptimize(size->width);
  }
  CountPhotos(state);
}
BENCHMARK(BM_ReadSize);

// The argument is the scale, in eighths.
void BM_Decode(benchmark::State& state) {
  JpegDecoder decoder;
  const double scale = static_cast<double>(state.range(0)) / 8;
  for (auto _ : state) {
    const absl::StatusOr<DecodedJpeg> photo = decoder.Decode(Photo(), scale);
    if (!photo.ok()) return state.SkipWithError("Decode");
    benchmark::DoNotOptimize(photo->image.pixels.data());
  }
  CountPhotos(state);
}
BENCHMARK(BM_Decode)->ArgName("eighths")->Arg(1)->Arg(2)->Arg(4)->Arg(8)->Unit(
    benchmark::kMillisecond);

// The argument is the side of the box. Decoding leaves 224 to 448 pixels, and
// more of the largest photographs at 1/8.
void BM_Resample(benchmark::State& state) {
  const TestImage image = MakeTestImage(1000, 750);
  const auto side = static_cast<double>(state.range(0));
  std::vector<float> planes(size_t{3} * kSize * kSize);
  Resampler resampler;
  for (auto _ : state) {
    const absl::Status status = resampler.Resample(
        image.view(), {.box = {0.5, 0.25, side, side}, .size = kSize},
        absl::MakeSpan(planes));
    if (!status.ok()) return state.SkipWithError("Resample");
    benchmark::DoNotOptimize(planes.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_Resample)
    ->ArgName("side")
    ->Arg(100)
    ->Arg(224)
    ->Arg(300)
    ->Arg(448)
    ->Arg(700)
    ->Unit(benchmark::kMillisecond);

void BM_PhotoSample(benchmark::State& state) {
  PhotoSampler sampler = PhotoSampler::Create(kSize).value();
  std::mt19937_64 random(1);
  const auto uniform = [&] {
    return static_cast<double>(random() >> 11) * 0x1p-53;
  };
  std::vector<float> planes(size_t{3} * kSize * kSize);
  for (auto _ : state) {
    const absl::Status status =
        sampler.Make(Photo(), uniform, absl::MakeSpan(planes));
    if (!status.ok()) return state.SkipWithError("Make");
    benchmark::DoNotOptimize(planes.data());
    benchmark::ClobberMemory();
  }
  CountPhotos(state);
}
BENCHMARK(BM_PhotoSample)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tenon

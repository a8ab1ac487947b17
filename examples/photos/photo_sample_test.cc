// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/examples/photos/photo_sample.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/examples/photos/random_resized_crop.h"
#include "tenon/examples/photos/resample.h"
#include "tenon/examples/photos/test_jpeg.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr int kSize = 48;
constexpr size_t kValues = 3 * kSize * kSize;

class Mersenne {
 public:
  explicit Mersenne(unsigned seed) : engine_(seed) {}
  double operator()() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }

 private:
  std::mt19937_64 engine_;
};

std::vector<float> MakeSample(PhotoSampler& sampler,
                              absl::Span<const uint8_t> jpeg, unsigned seed) {
  std::vector<float> planes(kValues, std::numeric_limits<float>::quiet_NaN());
  Mersenne random(seed);
  EXPECT_THAT(sampler.Make(jpeg, std::ref(random), absl::MakeSpan(planes)),
              IsOk());
  return planes;
}

std::vector<float> MakeSample(absl::Span<const uint8_t> jpeg, unsigned seed) {
  PhotoSampler sampler = PhotoSampler::Create(kSize).value();
  return MakeSample(sampler, jpeg, seed);
}

// The sample from a decoder without reduced sizes.
std::vector<float> MakeFromOriginal(const TestImage& original, unsigned seed) {
  Mersenne random(seed);
  const RandomCrop crop =
      RandomResizedCrop(original.width, original.height, std::ref(random));
  const ImageBox box = {
      static_cast<double>(crop.left), static_cast<double>(crop.top),
      static_cast<double>(crop.width), static_cast<double>(crop.height)};
  std::vector<float> planes(kValues);
  Resampler resampler;
  EXPECT_THAT(resampler.Resample(original.view(),
                                 {.box = box, .size = kSize, .flip = crop.flip},
                                 absl::MakeSpan(planes)),
              IsOk());
  return planes;
}

double MeanDifference(const std::vector<float>& a,
                      const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::abs(a[i] - b[i]);
  return sum / a.size();
}

TEST(PhotoSamplerTest, ShowsTheCropThatWasDrawn) {
  // Slopes show which part of the photograph a sample is from, and its
  // orientation.
  for (const auto& [width, height] :
       {std::pair(700, 500), std::pair(333, 1999), std::pair(60, 40)}) {
    const TestImage original = MakeSlopes(width, height);
    const auto jpeg = MakeTestJpeg(original, TestJpegKind::kFine);
    for (unsigned seed = 0; seed < 20; ++seed) {
      const std::vector<float> sample = MakeSample(jpeg, seed);
      const std::vector<float> expected = MakeFromOriginal(original, seed);
      for (size_t i = 0; i < kValues; ++i) {
        // 4 levels of 255, in standard deviations.
        ASSERT_NEAR(sample[i], expected[i], 4 / 255.0 / 0.22)
            << width << " x " << height << ", seed " << seed << ", at " << i;
      }
    }
  }
}

TEST(PhotoSamplerTest, ReducedDecodingIsCloseToTheOriginal) {
  const TestImage original = MakeTestImage(900, 700);
  const auto jpeg = MakeTestJpeg(original, TestJpegKind::kFine);
  for (unsigned seed = 0; seed < 10; ++seed) {
    EXPECT_LT(MeanDifference(MakeSample(jpeg, seed),
                             MakeFromOriginal(original, seed)),
              6 / 255.0 / 0.22)
        << seed;
  }
}

TEST(PhotoSamplerTest, DependsOnTheNumbersDrawn) {
  const auto jpeg =
      MakeTestJpeg(MakeTestImage(400, 300), TestJpegKind::kBaseline);
  EXPECT_EQ(MakeSample(jpeg, 1), MakeSample(jpeg, 1));
  EXPECT_NE(MakeSample(jpeg, 1), MakeSample(jpeg, 2));
}

TEST(PhotoSamplerTest, DoesNotDependOnEarlierSamples) {
  const auto jpeg =
      MakeTestJpeg(MakeTestImage(400, 300), TestJpegKind::kBaseline);
  const auto other =
      MakeTestJpeg(MakeTestImage(1000, 800), TestJpegKind::kProgressive);
  const auto broken = absl::MakeConstSpan(jpeg).first(jpeg.size() / 2);
  PhotoSampler used = PhotoSampler::Create(kSize).value();
  std::vector<float> planes(kValues);
  MakeSample(used, other, 5);
  Mersenne random(6);
  ASSERT_THAT(used.Make(broken, std::ref(random), absl::MakeSpan(planes)),
              StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_EQ(MakeSample(used, jpeg, 7), MakeSample(jpeg, 7));
}

TEST(PhotoSamplerTest, ThreadsWithSamplersOfTheirOwnAgree) {
  const auto jpeg =
      MakeTestJpeg(MakeTestImage(400, 300), TestJpegKind::kBaseline);
  constexpr unsigned kSamples = 20;
  std::vector<std::vector<float>> samples[2];
  std::vector<std::thread> threads;
  for (auto& mine : samples) {
    threads.emplace_back([&] {
      PhotoSampler sampler = PhotoSampler::Create(kSize).value();
      for (unsigned seed = 0; seed < kSamples; ++seed) {
        mine.push_back(MakeSample(sampler, jpeg, seed));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(samples[0], samples[1]);
}

TEST(PhotoSamplerTest, PhotographsSmallerThanTheSampleAreEnlarged) {
  for (const int side : {1, 2, 7, 8, 9, 20}) {
    const auto jpeg =
        MakeTestJpeg(MakeSlopes(side, side), TestJpegKind::kBaseline);
    for (const float value : MakeSample(jpeg, 3)) {
      ASSERT_TRUE(std::isfinite(value)) << side;
    }
  }
}

TEST(PhotoSamplerTest, AnErrorWritesNothing) {
  const auto jpeg =
      MakeTestJpeg(MakeTestImage(400, 300), TestJpegKind::kBaseline);
  PhotoSampler sampler = PhotoSampler::Create(kSize).value();
  std::vector<float> planes(kValues, -7.0f);
  Mersenne random(1);
  EXPECT_THAT(
      sampler.Make(absl::MakeConstSpan(jpeg).first(jpeg.size() / 2),
                   std::ref(random), absl::MakeSpan(planes)),
      StatusIs(absl::StatusCode::kDataLoss, HasSubstr("Premature end")));
  EXPECT_THAT(sampler.Make({}, std::ref(random), absl::MakeSpan(planes)),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(
      sampler.Make(jpeg, std::ref(random), absl::MakeSpan(planes).subspan(1)),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("3 planes of 48 x 48")));
  EXPECT_THAT(planes, Each(-7.0f));
}

TEST(PhotoSamplerTest, ASampleHasPixels) {
  for (const int size : {0, -1}) {
    EXPECT_THAT(PhotoSampler::Create(size),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("at least 1 x 1")));
  }
}

}  // namespace
}  // namespace tenon

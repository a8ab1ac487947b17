// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/examples/photos/resample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/examples/photos/rgb_image.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

// Leaves values as they are: (v / 255 - 0) / (1 / 255).
constexpr ChannelStatistics kLevels = {
    .mean = {0, 0, 0}, .stddev = {1 / 255.0, 1 / 255.0, 1 / 255.0}};

// The header's promise, in levels of 255.
constexpr double kTolerance = 0.1;

struct Pixels {
  int width;
  int height;
  std::vector<uint8_t> bytes;

  RgbImage view() const {
    return {.pixels = bytes, .width = width, .height = height};
  }
  uint8_t at(int x, int y, int channel) const {
    return bytes[3 * (static_cast<size_t>(y) * width + x) + channel];
  }
};

Pixels MakeConstant(int width, int height, std::array<uint8_t, 3> colour) {
  Pixels image = {width, height, {}};
  for (int i = 0; i < width * height; ++i) {
    image.bytes.insert(image.bytes.end(), colour.begin(), colour.end());
  }
  return image;
}

// Noise including black and white: the hardest input for a filter.
Pixels MakeNoise(int width, int height) {
  Pixels image = MakeConstant(width, height, {0, 0, 0});
  std::mt19937 random(5);
  for (uint8_t& byte : image.bytes) {
    const uint32_t draw = random();
    byte = static_cast<uint8_t>(draw % 3 == 0   ? 0
                                : draw % 3 == 1 ? 255
                                                : draw >> 24);
  }
  return image;
}

ImageBox Whole(const Pixels& image) {
  return {0, 0, static_cast<double>(image.width),
          static_cast<double>(image.height)};
}

// With a fresh Resampler. Fails the test if it fails.
std::vector<float> Resampled(const Pixels& image,
                             const ResampleOptions& options) {
  std::vector<float> planes(
      3 * static_cast<size_t>(options.size) * options.size,
      std::numeric_limits<float>::quiet_NaN());
  Resampler resampler;
  EXPECT_THAT(resampler.Resample(image.view(), options, absl::MakeSpan(planes)),
              IsOk());
  return planes;
}

// The weight of each pixel in output pixel `i`, directly by the definition.
std::vector<double> Weights(double start, double length, int size, int i) {
  const double step = length / size;
  const double radius = std::max(1.0, step);
  const double centre = start + (i + 0.5) * step;
  std::vector<double> weights(static_cast<size_t>(std::ceil(start + length)),
                              0.0);
  double total = 0;
  for (size_t j = static_cast<size_t>(start); j < weights.size(); ++j) {
    weights[j] = std::max(0.0, 1 - std::abs(j + 0.5 - centre) / radius);
    total += weights[j];
  }
  for (double& weight : weights) weight /= total;
  return weights;
}

// The same in double precision and one sum over the area, in levels.
std::vector<double> Reference(const Pixels& image, const ImageBox& box,
                              int size) {
  std::vector<double> planes(3 * static_cast<size_t>(size) * size);
  for (int y = 0; y < size; ++y) {
    const std::vector<double> down = Weights(box.top, box.height, size, y);
    for (int x = 0; x < size; ++x) {
      const std::vector<double> across = Weights(box.left, box.width, size, x);
      for (int channel = 0; channel < 3; ++channel) {
        double sum = 0;
        for (size_t v = 0; v < down.size(); ++v) {
          if (down[v] == 0) continue;
          for (size_t u = 0; u < across.size(); ++u) {
            sum += down[v] * across[u] *
                   image.at(static_cast<int>(u), static_cast<int>(v), channel);
          }
        }
        planes[(static_cast<size_t>(channel) * size + y) * size + x] = sum;
      }
    }
  }
  return planes;
}

double LargestDifference(const std::vector<float>& a,
                         const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    // Written so that a NaN is the largest difference of all.
    const double difference = std::abs(a[i] - b[i]);
    if (!(difference <= largest)) largest = difference;
  }
  return largest;
}

TEST(ResampleTest, AgreesWithDoublePrecision) {
  const Pixels image = MakeNoise(61, 47);
  struct Case {
    ImageBox box;
    int size;
  };
  for (const Case& c : {
           Case{{0, 0, 61, 47}, 20},            // Smaller.
           Case{{0, 0, 61, 47}, 8},             // Much smaller.
           Case{{0, 0, 61, 47}, 90},            // Larger.
           Case{{0, 0, 61, 47}, 50},            // Smaller across, larger down.
           Case{{13, 7, 30, 21}, 16},           // A part.
           Case{{10.5, 3.25, 40.125, 30}, 24},  // Between pixels.
           Case{{60, 46, 1, 1}, 5},             // The last pixel.
           Case{{30.25, 20.5, 0.5, 0.25}, 3},   // A part of a pixel.
           Case{{0, 0, 61, 47}, 1},             // All in one.
       }) {
    const std::vector<float> planes =
        Resampled(image, {.box = c.box, .size = c.size, .statistics = kLevels});
    EXPECT_LT(LargestDifference(planes, Reference(image, c.box, c.size)),
              kTolerance)
        << c.box.width << " x " << c.box.height << " to " << c.size;
  }
}

TEST(ResampleTest, NormalisesEachChannel) {
  const Pixels image = MakeConstant(4, 4, {10, 100, 200});
  const std::vector<float> planes =
      Resampled(image, {.box = Whole(image), .size = 2});
  for (size_t i = 0; i < planes.size(); ++i) {
    const size_t channel = i / 4;
    const double mean = std::vector{0.485, 0.456, 0.406}[channel];
    const double stddev = std::vector{0.229, 0.224, 0.225}[channel];
    const double level = std::vector{10, 100, 200}[channel];
    EXPECT_NEAR(planes[i], (level / 255 - mean) / stddev, 1e-6) << i;
  }
}

TEST(ResampleTest, TheSameSizeGivesThePixels) {
  const Pixels image = MakeNoise(40, 30);
  const std::vector<float> planes = Resampled(
      image, {.box = {11, 3, 24, 24}, .size = 24, .statistics = kLevels});
  for (int channel = 0; channel < 3; ++channel) {
    for (int y = 0; y < 24; ++y) {
      for (int x = 0; x < 24; ++x) {
        ASSERT_EQ(planes[(channel * 24 + y) * 24 + x],
                  image.at(11 + x, 3 + y, channel))
            << x << ", " << y;
      }
    }
  }
}

TEST(ResampleTest, OneColourStaysExactlyThat) {
  for (const int level : {0, 1, 85, 127, 254, 255}) {
    const auto byte = static_cast<uint8_t>(level);
    const Pixels image = MakeConstant(97, 89, {byte, byte, byte});
    for (const int size : {1, 7, 31, 64, 96, 200}) {
      for (const ImageBox& box :
           {Whole(image), ImageBox{0.5, 0.25, 96.3, 88.7},
            ImageBox{40, 50, 1, 1}, ImageBox{3.1, 4.1, 5.9, 2.6}}) {
        EXPECT_THAT(
            Resampled(image, {.box = box, .size = size, .statistics = kLevels}),
            Each(static_cast<float>(level)))
            << size;
      }
    }
  }
}

TEST(ResampleTest, MirrorsLeftAndRight) {
  const Pixels image = MakeNoise(50, 40);
  ResampleOptions options = {.box = {1, 2, 45, 33.5}, .size = 21};
  const std::vector<float> straight = Resampled(image, options);
  options.flip = true;
  std::vector<float> mirrored = Resampled(image, options);
  EXPECT_NE(mirrored, straight);
  for (auto row = mirrored.begin(); row != mirrored.end(); row += 21) {
    std::reverse(row, row + 21);
  }
  EXPECT_EQ(mirrored, straight);
}

TEST(ResampleTest, OnePixelFillsEverything) {
  const Pixels image = MakeNoise(9, 9);
  const std::vector<float> planes =
      Resampled(image, {.box = {4, 5, 1, 1}, .size = 6, .statistics = kLevels});
  for (size_t i = 0; i < planes.size(); ++i) {
    EXPECT_EQ(planes[i], image.at(4, 5, static_cast<int>(i / 36)));
  }
}

TEST(ResampleTest, EnlargesByInterpolation) {
  // Two pixels, black and white, to four: 1/4 and 3/4 of the way between.
  const Pixels image = {2, 1, {0, 0, 0, 255, 255, 255}};
  const std::vector<float> planes =
      Resampled(image, {.box = Whole(image), .size = 4, .statistics = kLevels});
  EXPECT_THAT(std::vector<float>(planes.begin(), planes.begin() + 4),
              testing::ElementsAre(0, 63.75, 191.25, 255));
}

TEST(ResampleTest, LooksAtNothingOutsideTheBox) {
  Pixels image = MakeConstant(30, 30, {255, 0, 255});
  for (int y = 10; y < 20; ++y) {
    for (int x = 10; x < 20; ++x) image.bytes[3 * (y * 30 + x)] = 7;
  }
  for (const int size : {3, 10, 25}) {
    const std::vector<float> planes = Resampled(
        image, {.box = {10, 10, 10, 10}, .size = size, .statistics = kLevels});
    EXPECT_THAT(
        std::vector<float>(planes.begin(), planes.begin() + size * size),
        Each(7.0f));
  }
}

TEST(ResampleTest, GivesTheSameBitsWhateverCameBefore) {
  const Pixels image = MakeNoise(120, 90);
  const ResampleOptions options = {.box = {3, 4, 101.5, 77.25}, .size = 40};
  const std::vector<float> expected = Resampled(image, options);
  Resampler used;
  std::vector<float> planes(3 * 200 * 200);
  ASSERT_THAT(used.Resample(image.view(), {.box = Whole(image), .size = 200},
                            absl::MakeSpan(planes)),
              IsOk());
  planes.resize(expected.size());
  ASSERT_THAT(used.Resample(image.view(), options, absl::MakeSpan(planes)),
              IsOk());
  EXPECT_EQ(planes, expected);
}

TEST(ResampleTest, RefusesBoxesOutsideTheImage) {
  const Pixels image = MakeNoise(10, 8);
  std::vector<float> planes(3 * 4 * 4, -1.0f);
  Resampler resampler;
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const ImageBox& box :
       {ImageBox{-0.1, 0, 5, 5}, ImageBox{0, -1, 5, 5}, ImageBox{6, 0, 4.1, 5},
        ImageBox{0, 4, 5, 4.5}, ImageBox{0, 0, 0, 5}, ImageBox{0, 0, 5, 0},
        ImageBox{0, 0, -5, 5}, ImageBox{10, 0, 1e-30, 5},
        ImageBox{0, 8, 5, 1e-30}, ImageBox{kNan, 0, 5, 5},
        ImageBox{0, 0, kNan, 5}, ImageBox{0, 0, 5, kInfinity},
        ImageBox{-kInfinity, 0, 5, 5}}) {
    EXPECT_THAT(resampler.Resample(image.view(), {.box = box, .size = 4},
                                   absl::MakeSpan(planes)),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("is empty or not inside an image of 10 x 8 "
                                   "pixels")));
  }
  EXPECT_THAT(planes, Each(-1.0f));
}

TEST(ResampleTest, ABoxMayBeSmallerThanADoubleCanTell) {
  const Pixels image = MakeNoise(10, 8);
  const std::vector<float> planes = Resampled(
      image, {.box = {9, 7, 1e-30, 1e-30}, .size = 2, .statistics = kLevels});
  EXPECT_EQ(planes[0], image.at(9, 7, 0));
}

TEST(ResampleTest, RefusesOtherNonsense) {
  const Pixels image = MakeNoise(10, 8);
  std::vector<float> planes(3 * 4 * 4);
  Resampler resampler;
  const auto resample = [&](const RgbImage& view,
                            const ResampleOptions& options) {
    return resampler.Resample(view, options, absl::MakeSpan(planes));
  };
  const ImageBox box = {0, 0, 5, 5};
  EXPECT_THAT(resample(image.view(), {.box = box, .size = 5}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "48 values are not 3 planes of 5 x 5"));
  for (const int size : {0, -4, std::numeric_limits<int>::min()}) {
    EXPECT_THAT(resample(image.view(), {.box = box, .size = size}),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
  for (const double stddev : {0.0, -1.0, std::nan("")}) {
    EXPECT_THAT(
        resample(image.view(),
                 {.box = box,
                  .size = 4,
                  .statistics = {.mean = {}, .stddev = {1, stddev, 1}}}),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 HasSubstr("standard deviation")));
  }
  RgbImage cut = image.view();
  cut.pixels.remove_suffix(1);
  EXPECT_THAT(resample(cut, {.box = box, .size = 4}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "239 bytes are not an image of 10 x 8 pixels"));
  EXPECT_THAT(resample(RgbImage(), {.box = box, .size = 4}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace tenon

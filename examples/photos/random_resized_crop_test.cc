// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/examples/photos/random_resized_crop.h"

#include <cstddef>
#include <functional>
#include <ostream>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace tenon {

// Makes GoogleTest print a crop.
void PrintTo(const RandomCrop& crop, std::ostream* out) {
  *out << crop.width << " x " << crop.height << " at (" << crop.left << ", "
       << crop.top << ")" << (crop.flip ? ", flipped" : "");
}

namespace {

constexpr double kAlmostOne = 1 - 0x1p-53;

// Returns the given numbers, in turn.
class Script {
 public:
  explicit Script(std::vector<double> numbers) : numbers_(std::move(numbers)) {}

  double operator()() { return numbers_.at(used_++); }
  size_t used() const { return used_; }

 private:
  std::vector<double> numbers_;
  size_t used_ = 0;
};

// Uniform in [0, 1); the standard defines the output of mt19937_64.
class Mersenne {
 public:
  explicit Mersenne(unsigned seed) : engine_(seed) {}
  double operator()() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }

 private:
  std::mt19937_64 engine_;
};

TEST(RandomResizedCropTest, DrawsAreaAspectTopLeftFlip) {
  // Area: 0.08 + 0.92 * 0.5 = 0.54 of 480000; aspect: exp(0) = 1, so a square
  // of sqrt(259200) = 509.1 pixels. It has 92 positions down, 292 across.
  Script script({0.5, 0.5, 0.25, 0.75, 0.25});
  EXPECT_EQ(RandomResizedCrop(800, 600, std::ref(script)),
            (RandomCrop{219, 23, 509, 509, true}));
  EXPECT_EQ(script.used(), 5u);
}

TEST(RandomResizedCropTest, ReachesTheEndsOfItsRanges) {
  // The least area with the flattest aspect; the first position; flipped.
  Script least({0, 0, 0, 0, 0});
  EXPECT_EQ(RandomResizedCrop(1000, 1000, std::ref(least)),
            (RandomCrop{0, 0, 245, 327, true}));
  // An area slightly smaller than the image, and an aspect of 1.
  Script most({kAlmostOne, 0.5, kAlmostOne, kAlmostOne, kAlmostOne});
  EXPECT_EQ(RandomResizedCrop(1000, 1000, std::ref(most)),
            (RandomCrop{0, 0, 1000, 1000, false}));
  // The last position.
  Script last({0, 0.5, kAlmostOne, kAlmostOne, 0.5});
  EXPECT_EQ(RandomResizedCrop(1000, 1000, std::ref(last)),
            (RandomCrop{717, 717, 283, 283, false}));
}

TEST(RandomResizedCropTest, TriesAgainWhenTheRectangleDoesNotFit) {
  // All of the image's area at an aspect of nearly 4/3 does not fit.
  Script script({1 - 1e-9, 0.99, 0, 0.5, 0.5, 0.5, 0.7});
  EXPECT_EQ(RandomResizedCrop(1000, 1000, std::ref(script)),
            (RandomCrop{359, 359, 283, 283, false}));
  EXPECT_EQ(script.used(), 7u);
}

TEST(RandomResizedCropTest, TakesTheCentreAfterTenTries) {
  std::vector<double> numbers(20, kAlmostOne);  // 4/3 of the whole area.
  numbers.push_back(0.1);
  Script square(numbers);
  EXPECT_EQ(RandomResizedCrop(1000, 1000, std::ref(square)),
            (RandomCrop{0, 0, 1000, 1000, true}));
  EXPECT_EQ(square.used(), 21u);
  Script wide(numbers);
  EXPECT_EQ(RandomResizedCrop(1000, 300, std::ref(wide)),
            (RandomCrop{300, 0, 400, 300, true}));
  Script tall(numbers);
  EXPECT_EQ(RandomResizedCrop(300, 1000, std::ref(tall)),
            (RandomCrop{0, 300, 300, 400, true}));
}

TEST(RandomResizedCropTest, GoldenValues) {
  struct Case {
    int width;
    int height;
    RandomCrop crop;
  };
  // From an independent program in Python, with the same numbers.
  const Case cases[] = {
      {1920, 1080, {28, 162, 585, 721, true}},
      {1920, 1080, {121, 341, 566, 544, false}},
      {1920, 1080, {808, 7, 914, 1055, true}},
      {1080, 1920, {139, 781, 776, 878, true}},
      {1080, 1920, {20, 111, 790, 987, false}},
      {500, 375, {60, 19, 387, 327, true}},
      {500, 375, {102, 144, 225, 213, true}},
      {500, 375, {113, 39, 282, 226, true}},
      {3000, 200, {1366, 0, 267, 200, false}},
      {3000, 200, {1366, 0, 267, 200, false}},
      {64, 64, {2, 0, 51, 56, true}},
      {64, 64, {0, 3, 60, 51, false}},
  };
  Mersenne random(1);
  for (const Case& c : cases) {
    EXPECT_EQ(RandomResizedCrop(c.width, c.height, std::ref(random)), c.crop);
  }
}

TEST(RandomResizedCropTest, OnePixelIsAllThereIs) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    Mersenne random(seed);
    RandomCrop crop = RandomResizedCrop(1, 1, std::ref(random));
    crop.flip = false;
    EXPECT_EQ(crop, (RandomCrop{0, 0, 1, 1, false}));
  }
}

TEST(RandomResizedCropTest, LiesInsideImagesOfAnyShape) {
  Mersenne random(7);
  for (const int width : {1, 2, 3, 17, 640, 65500}) {
    for (const int height : {1, 2, 5, 19, 480, 65500}) {
      for (int i = 0; i < 200; ++i) {
        const RandomCrop crop =
            RandomResizedCrop(width, height, std::ref(random));
        ASSERT_GE(crop.width, 1);
        ASSERT_GE(crop.height, 1);
        ASSERT_GE(crop.left, 0);
        ASSERT_GE(crop.top, 0);
        ASSERT_LE(crop.left + crop.width, width);
        ASSERT_LE(crop.top + crop.height, height);
      }
    }
  }
}

TEST(RandomResizedCropTest, HasTheDistributionsItStates) {
  // In a square image the aspect of 1 fits at any area, and rectangles that do
  // not fit are rare for small areas: test those.
  constexpr int kSide = 10000;
  constexpr int kDraws = 20000;
  Mersenne random(3);
  int small = 0;
  int upright = 0;
  int flipped = 0;
  int in_left_half = 0;
  for (int i = 0; i < kDraws; ++i) {
    const RandomCrop crop = RandomResizedCrop(kSide, kSide, std::ref(random));
    flipped += crop.flip ? 1 : 0;
    const double area = 1.0 * crop.width * crop.height / kSide / kSide;
    ASSERT_GT(area, 0.0799);
    const double aspect = 1.0 * crop.width / crop.height;
    ASSERT_GT(aspect, 0.749);
    ASSERT_LT(aspect, 1.334);
    if (area > 0.54) continue;
    ++small;
    upright += aspect < 1 ? 1 : 0;
    in_left_half += crop.left < (kSide - crop.width) / 2 ? 1 : 0;
  }
  // Five standard deviations are 0.018 of kDraws, and 0.025 of `small`.
  EXPECT_NEAR(flipped, 0.5 * kDraws, 0.018 * kDraws);
  EXPECT_GT(small, kDraws / 2);
  EXPECT_NEAR(upright, 0.5 * small, 0.025 * small);
  EXPECT_NEAR(in_left_half, 0.5 * small, 0.025 * small);
}

TEST(RandomResizedCropDeathTest, AnImageHasPixels) {
  const auto zero = [] { return 0.0; };
  EXPECT_DEATH(RandomResizedCrop(0, 5, zero), "without pixels");
  EXPECT_DEATH(RandomResizedCrop(5, -1, zero), "without pixels");
}

}  // namespace
}  // namespace tenon

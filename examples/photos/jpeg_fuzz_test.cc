// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Corrupts JPEG images at random, with a fixed seed, and decodes them: any
// bytes give an image or an error. Under --config=asan this also proves that
// every pixel of an image may be read.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/examples/photos/jpeg.h"
#include "tenon/examples/photos/test_jpeg.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AnyOf;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int kMutants = 20000;
// So that a corrupt header cannot take hours.
constexpr int64_t kMaxPixels = 1 << 18;

class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}

  // Uniform enough for corruption.
  size_t Below(size_t bound) { return random_() % bound; }

  std::vector<uint8_t> Mutate(std::vector<uint8_t> bytes) {
    for (size_t i = 0, steps = 1 + Below(6); i < steps && !bytes.empty(); ++i) {
      MutateOnce(bytes);
    }
    return bytes;
  }

 private:
  void MutateOnce(std::vector<uint8_t>& bytes) {
    // Half of the corruptions are in the headers, a small part of the file.
    const size_t reach =
        Below(2) == 0 ? std::min<size_t>(bytes.size(), 640) : bytes.size();
    const auto at = bytes.begin() + static_cast<ptrdiff_t>(Below(reach));
    const auto end = at + static_cast<ptrdiff_t>(std::min<size_t>(
                              1 + Below(32), bytes.end() - at));
    switch (Below(7)) {
      case 0:
        *at ^= static_cast<uint8_t>(1 << Below(8));
        break;
      case 1:
        *at = static_cast<uint8_t>(Below(256));
        break;
      case 2:
        *at = Below(2) == 0 ? 0x00 : 0xff;
        break;
      case 3:
        bytes.erase(at, end);
        break;
      case 4: {
        const std::vector<uint8_t> again(at, end);
        bytes.insert(at, again.begin(), again.end());
        break;
      }
      case 5: {  // A marker; the bytes there become its length.
        *at = 0xff;
        if (at + 1 != bytes.end()) *(at + 1) = 0xc0 + Below(0x40);
        break;
      }
      case 6:
        bytes.erase(Below(8) == 0 ? at : bytes.end() - 1, bytes.end());
        break;
    }
  }

  std::mt19937 random_;
};

class JpegFuzzTest : public ::testing::TestWithParam<TestJpegKind> {};

TEST_P(JpegFuzzTest, AnyBytesGiveAnImageOrAnError) {
  const std::vector<uint8_t> intact =
      MakeTestJpeg(MakeTestImage(48, 40), GetParam());
  JpegDecoder decoder({.max_pixels = kMaxPixels});
  Mutator mutator(20260102 + static_cast<unsigned>(GetParam()));
  constexpr double kScales[] = {0, 0.25, 0.5, 1};
  int images = 0;
  uint64_t sum = 0;
  for (int i = 0; i < kMutants; ++i) {
    const std::vector<uint8_t> mutant = mutator.Mutate(intact);
    const absl::StatusOr<DecodedJpeg> photo =
        decoder.Decode(mutant, kScales[mutator.Below(4)]);
    if (!photo.ok()) {
      ASSERT_THAT(
          photo.status().code(),
          AnyOf(absl::StatusCode::kInvalidArgument, absl::StatusCode::kDataLoss,
                absl::StatusCode::kUnimplemented,
                absl::StatusCode::kResourceExhausted));
      ASSERT_THAT(photo.status().message(), Not(IsEmpty()));
      continue;
    }
    ++images;
    const RgbImage& image = photo->image;
    ASSERT_GE(image.width, 1);
    ASSERT_GE(image.height, 1);
    ASSERT_EQ(image.pixels.size(), image.row_bytes() * image.height);
    sum += std::accumulate(image.pixels.begin(), image.pixels.end(), 0u);
  }
  // The corruptions are neither without effect nor always fatal.
  EXPECT_GT(images, kMutants / 100);
  EXPECT_LT(images, kMutants * 99 / 100);
  EXPECT_GT(sum, 0u);
}

TEST_P(JpegFuzzTest, AnErrorLeavesNoTrace) {
  const std::vector<uint8_t> intact =
      MakeTestJpeg(MakeTestImage(48, 40), GetParam());
  JpegDecoder fresh;
  TENON_ASSERT_OK_AND_ASSIGN(const DecodedJpeg expected,
                             fresh.Decode(intact, 0.5));
  JpegDecoder decoder({.max_pixels = kMaxPixels});
  Mutator mutator(20260103 + static_cast<unsigned>(GetParam()));
  for (int i = 0; i < kMutants / 10; ++i) {
    (void)decoder.Decode(mutator.Mutate(intact), 1);
    TENON_ASSERT_OK_AND_ASSIGN(const DecodedJpeg photo,
                               decoder.Decode(intact, 0.5));
    ASSERT_TRUE(photo.image.pixels == expected.image.pixels) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, JpegFuzzTest,
                         ::testing::Values(TestJpegKind::kBaseline,
                                           TestJpegKind::kFine,
                                           TestJpegKind::kProgressive,
                                           TestJpegKind::kProgressive422,
                                           TestJpegKind::kGrey));

}  // namespace
}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/examples/photos/needed_scans.h"

#include <turbojpeg.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/examples/photos/test_jpeg.h"

namespace tenon {
namespace {

using JpegBytes = std::vector<uint8_t>;

// The whole file at an eighth of its size; empty after an error or a warning.
JpegBytes AnEighthOf(const JpegBytes& jpeg, int width, int height) {
  const tjscalingfactor eighth = {1, 8};
  const int w = TJSCALED(width, eighth);
  const int h = TJSCALED(height, eighth);
  JpegBytes pixels(3 * static_cast<size_t>(w) * h);
  const tjhandle handle = tjInitDecompress();
  const int failed = tjDecompress2(handle, jpeg.data(), jpeg.size(),
                                   pixels.data(), w, /*pitch=*/0, h, TJPF_RGB,
                                   TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING);
  tjDestroy(handle);
  return failed != 0 ? JpegBytes() : pixels;
}

class NeededScansTest : public ::testing::TestWithParam<
                            std::tuple<TestJpegKind, std::array<int, 2>>> {};
INSTANTIATE_TEST_SUITE_P(
    , NeededScansTest,
    ::testing::Combine(::testing::Values(TestJpegKind::kProgressive,
                                         TestJpegKind::kProgressive422,
                                         TestJpegKind::kProgressiveFine,
                                         TestJpegKind::kProgressiveGrey),
                       ::testing::Values(std::array{8, 8}, std::array{9, 1},
                                         std::array{640, 480},
                                         std::array{333, 77})));

TEST_P(NeededScansTest, GiveTheSamePixelsInFewerBytes) {
  const auto [kind, size] = GetParam();
  const JpegBytes jpeg = MakeTestJpeg(MakeTestImage(size[0], size[1]), kind);
  JpegBytes needed = {1, 2, 3};
  ASSERT_TRUE(NeededScans(jpeg, needed));
  const JpegBytes expected = AnEighthOf(jpeg, size[0], size[1]);
  ASSERT_FALSE(expected.empty());
  EXPECT_TRUE(AnEighthOf(needed, size[0], size[1]) == expected);
  if (size[0] > 300) {
    EXPECT_LT(needed.size(), jpeg.size() / 2);
  }
}

// The empty scans have more blocks than a run can have.
TEST(NeededScansOfFilesTest, OfALargeImage) {
  const JpegBytes jpeg =
      MakeTestJpeg(MakeSlopes(2048, 1100), TestJpegKind::kProgressive422);
  JpegBytes needed;
  ASSERT_TRUE(NeededScans(jpeg, needed));
  EXPECT_TRUE(AnEighthOf(needed, 2048, 1100) == AnEighthOf(jpeg, 2048, 1100));
}

TEST(NeededScansOfFilesTest, AreAllOfOtherFiles) {
  JpegBytes needed;
  for (const TestJpegKind kind :
       {TestJpegKind::kBaseline, TestJpegKind::kFine, TestJpegKind::kGrey}) {
    EXPECT_FALSE(
        NeededScans(MakeTestJpeg(MakeTestImage(100, 80), kind), needed));
  }
  EXPECT_FALSE(NeededScans({}, needed));
  EXPECT_FALSE(NeededScans(JpegBytes{0xff, 0xd8}, needed));
}

TEST(NeededScansOfFilesTest, AreAllOfATruncatedFile) {
  const JpegBytes jpeg =
      MakeTestJpeg(MakeTestImage(64, 48), TestJpegKind::kProgressive);
  JpegBytes needed;
  ASSERT_TRUE(NeededScans(jpeg, needed));
  for (size_t size = 0; size < jpeg.size(); ++size) {
    EXPECT_FALSE(NeededScans(absl::MakeConstSpan(jpeg).first(size), needed))
        << size;
  }
}

// libjpeg-turbo smooths an image that lacks coefficients.
TEST(NeededScansOfFilesTest, AreAllOfAFileThatLacksAScan) {
  const JpegBytes jpeg =
      MakeTestJpeg(MakeTestImage(64, 48), TestJpegKind::kProgressive422);
  JpegBytes needed;
  constexpr std::array<uint8_t, 2> kScan = {0xff, 0xda};
  const auto scan =
      std::find_end(jpeg.begin(), jpeg.end(), kScan.begin(), kScan.end());
  ASSERT_NE(scan, jpeg.end());
  JpegBytes without(jpeg.begin(), scan);
  without.insert(without.end(), {0xff, 0xd9});
  ASSERT_FALSE(AnEighthOf(without, 64, 48).empty());
  EXPECT_FALSE(NeededScans(without, needed));
  // And of one that has it twice.
  JpegBytes twice(jpeg.begin(), jpeg.end() - 2);
  twice.insert(twice.end(), scan, jpeg.end());
  EXPECT_FALSE(NeededScans(twice, needed));
}

}  // namespace
}  // namespace tenon

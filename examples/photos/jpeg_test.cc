// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/examples/photos/jpeg.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/examples/photos/test_jpeg.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<uint8_t> Bytes(absl::string_view text) {
  return std::vector<uint8_t>(text.begin(), text.end());
}

std::vector<uint8_t> PixelsOf(const DecodedJpeg& photo) {
  return std::vector<uint8_t>(photo.image.pixels.begin(),
                              photo.image.pixels.end());
}

int LargestDifference(const RgbImage& a, const RgbImage& b) {
  EXPECT_EQ(a.pixels.size(), b.pixels.size());
  int largest = 0;
  for (size_t i = 0; i < std::min(a.pixels.size(), b.pixels.size()); ++i) {
    largest = std::max(largest, std::abs(a.pixels[i] - b.pixels[i]));
  }
  return largest;
}

TEST(JpegDecoderTest, ReadsTheSize) {
  JpegDecoder decoder;
  for (const auto& [width, height] :
       {std::pair(1, 1), std::pair(33, 65), std::pair(640, 480)}) {
    const auto jpeg =
        MakeTestJpeg(MakeTestImage(width, height), TestJpegKind::kBaseline);
    TENON_ASSERT_OK_AND_ASSIGN(const JpegSize size, decoder.ReadSize(jpeg));
    EXPECT_EQ(size.width, width);
    EXPECT_EQ(size.height, height);
  }
}

TEST(JpegDecoderTest, DecodesThePixels) {
  const TestImage original = MakeTestImage(123, 77);
  const auto jpeg = MakeTestJpeg(original, TestJpegKind::kFine);
  JpegDecoder decoder;
  TENON_ASSERT_OK_AND_ASSIGN(const DecodedJpeg photo, decoder.Decode(jpeg, 1));
  EXPECT_EQ(photo.scale, 1);
  EXPECT_EQ(photo.image.width, 123);
  EXPECT_EQ(photo.image.height, 77);
  EXPECT_LE(LargestDifference(photo.image, original.view()), 4);
}

TEST(JpegDecoderTest, DecodesProgressiveImages) {
  const TestImage original = MakeTestImage(200, 100);
  JpegDecoder one;
  JpegDecoder other;
  const auto baseline = MakeTestJpeg(original, TestJpegKind::kBaseline);
  const auto progressive = MakeTestJpeg(original, TestJpegKind::kProgressive);
  ASSERT_NE(baseline, progressive);
  TENON_ASSERT_OK_AND_ASSIGN(const DecodedJpeg a, one.Decode(baseline, 1));
  TENON_ASSERT_OK_AND_ASSIGN(const DecodedJpeg b, other.Decode(progressive, 1));
  // The same coefficients, stored in another order.
  EXPECT_EQ(LargestDifference(a.image, b.image), 0);
}

TEST(JpegDecoderTest, DecodesGreyImagesToRgb) {
  const auto jpeg = MakeTestJpeg(MakeTestImage(64, 64), TestJpegKind::kGrey);
  JpegDecoder decoder;
  TENON_ASSERT_OK_AND_ASSIGN(const DecodedJpeg photo, decoder.Decode(jpeg, 1));
  ASSERT_EQ(photo.image.pixels.size(), 3u * 64 * 64);
  for (size_t i = 0; i < photo.image.pixels.size(); i += 3) {
    ASSERT_EQ(photo.image.pixels[i], photo.image.pixels[i + 1]);
    ASSERT_EQ(photo.image.pixels[i], photo.image.pixels[i + 2]);
  }
}

TEST(JpegDecoderTest, TakesTheSmallestScaleThatIsLargeEnough) {
  const auto jpeg =
      MakeTestJpeg(MakeTestImage(801, 603), TestJpegKind::kBaseline);
  JpegDecoder decoder;
  struct Case {
    double min_scale;
    double scale;
    int width;
    int height;
  };
  for (const Case& c :
       {Case{-1, 0.125, 101, 76}, Case{0.125, 0.125, 101, 76},
        Case{0.1251, 0.25, 201, 151}, Case{0.25, 0.25, 201, 151},
        Case{0.26, 0.5, 401, 302}, Case{0.5, 0.5, 401, 302},
        Case{0.51, 1, 801, 603}, Case{1, 1, 801, 603}, Case{7, 1, 801, 603}}) {
    TENON_ASSERT_OK_AND_ASSIGN(const DecodedJpeg photo,
                               decoder.Decode(jpeg, c.min_scale));
    EXPECT_EQ(photo.scale, c.scale) << c.min_scale;
    EXPECT_EQ(photo.image.width, c.width) << c.min_scale;
    EXPECT_EQ(photo.image.height, c.height) << c.min_scale;
    EXPECT_EQ(photo.image.pixels.size(), 3u * c.width * c.height);
  }
}

TEST(JpegDecoderTest, AReducedImageShowsTheSame) {
  // On a slope the mean of an area is the value at its middle.
  const auto jpeg = MakeTestJpeg(MakeSlopes(512, 384), TestJpegKind::kFine);
  JpegDecoder decoder;
  for (const double scale : {0.125, 0.25, 0.5, 1.0}) {
    TENON_ASSERT_OK_AND_ASSIGN(const DecodedJpeg photo,
                               decoder.Decode(jpeg, scale));
    const TestImage expected =
        MakeSlopes(photo.image.width, photo.image.height);
    EXPECT_LE(LargestDifference(photo.image, expected.view()), 4) << scale;
  }
}

TEST(JpegDecoderTest, TinyImagesAreNotReduced) {
  JpegDecoder decoder;
  const auto tiny = MakeTestJpeg(MakeTestImage(5, 7), TestJpegKind::kBaseline);
  TENON_ASSERT_OK_AND_ASSIGN(const DecodedJpeg photo, decoder.Decode(tiny, 0));
  EXPECT_EQ(photo.scale, 1);
  EXPECT_EQ(photo.image.width, 5);
  EXPECT_EQ(photo.image.height, 7);
  const auto thin = MakeTestJpeg(MakeTestImage(1, 8), TestJpegKind::kBaseline);
  TENON_ASSERT_OK_AND_ASSIGN(const DecodedJpeg line, decoder.Decode(thin, 0));
  EXPECT_EQ(line.scale, 0.125);
  EXPECT_EQ(line.image.width, 1);
  EXPECT_EQ(line.image.height, 1);
}

TEST(JpegDecoderTest, GivesTheSamePixelsWhateverCameBefore) {
  const auto jpeg =
      MakeTestJpeg(MakeTestImage(320, 240), TestJpegKind::kBaseline);
  const auto larger =
      MakeTestJpeg(MakeTestImage(500, 400), TestJpegKind::kProgressive);
  const auto broken = absl::MakeConstSpan(jpeg).first(jpeg.size() / 2);
  JpegDecoder fresh;
  TENON_ASSERT_OK_AND_ASSIGN(const DecodedJpeg first, fresh.Decode(jpeg, 0.5));
  JpegDecoder used;
  ASSERT_THAT(used.Decode(larger, 1), IsOk());
  ASSERT_THAT(used.Decode(broken, 1), Not(IsOk()));
  ASSERT_THAT(used.Decode(Bytes("no"), 1), Not(IsOk()));
  TENON_ASSERT_OK_AND_ASSIGN(const DecodedJpeg later, used.Decode(jpeg, 0.5));
  EXPECT_EQ(PixelsOf(first), PixelsOf(later));
}

// Without the segments of this kind in front of the data.
std::vector<uint8_t> WithoutSegments(const std::vector<uint8_t>& jpeg,
                                     uint8_t kind) {
  std::vector<uint8_t> result(jpeg.begin(), jpeg.begin() + 2);
  size_t at = 2;
  while (jpeg[at + 1] != 0xda) {
    const size_t end = at + 2 + (jpeg[at + 2] << 8 | jpeg[at + 3]);
    if (jpeg[at + 1] != kind) {
      result.insert(result.end(), jpeg.begin() + at, jpeg.begin() + end);
    }
    at = end;
  }
  result.insert(result.end(), jpeg.begin() + at, jpeg.end());
  return result;
}

TEST(JpegDecoderTest, KeepsNoTablesFromTheImageBefore) {
  const auto jpeg =
      MakeTestJpeg(MakeTestImage(64, 64), TestJpegKind::kBaseline);
  const auto without_tables = WithoutSegments(jpeg, 0xdb);
  ASSERT_LT(without_tables.size(), jpeg.size());
  JpegDecoder decoder;
  ASSERT_THAT(decoder.Decode(jpeg, 1), IsOk());
  EXPECT_THAT(decoder.Decode(without_tables, 1),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("Quantization table")));
}

TEST(JpegDecoderTest, MovesWithItsPixels) {
  const TestImage original = MakeTestImage(32, 32);
  const auto jpeg = MakeTestJpeg(original, TestJpegKind::kFine);
  JpegDecoder decoder;
  TENON_ASSERT_OK_AND_ASSIGN(const DecodedJpeg photo, decoder.Decode(jpeg, 1));
  JpegDecoder moved = std::move(decoder);
  EXPECT_LE(LargestDifference(photo.image, original.view()), 4);
  EXPECT_THAT(moved.Decode(jpeg, 1), IsOk());
}

TEST(JpegDecoderTest, MovedFromItIsAsGoodAsNew) {
  const auto jpeg =
      MakeTestJpeg(MakeTestImage(32, 32), TestJpegKind::kBaseline);
  JpegDecoder decoder;
  ASSERT_THAT(decoder.Decode(jpeg, 1), IsOk());
  const JpegDecoder moved = std::move(decoder);
  EXPECT_THAT(decoder.Decode(jpeg, 1), IsOk());  // NOLINT: the point of it.
}

TEST(JpegDecoderTest, ATruncatedFileIsDataLoss) {
  for (const TestJpegKind kind :
       {TestJpegKind::kBaseline, TestJpegKind::kProgressive}) {
    const auto jpeg = MakeTestJpeg(MakeTestImage(160, 120), kind);
    JpegDecoder decoder;
    const auto cut = absl::MakeConstSpan(jpeg).first(jpeg.size() * 3 / 4);
    ASSERT_THAT(decoder.ReadSize(cut), IsOk());
    EXPECT_THAT(
        decoder.Decode(cut, 1),
        StatusIs(absl::StatusCode::kDataLoss,
                 AllOf(HasSubstr("Premature end of JPEG file"),
                       HasSubstr(std::to_string(cut.size()) + " bytes"))));
  }
}

TEST(JpegDecoderTest, EveryTruncationIsAnError) {
  const auto jpeg =
      MakeTestJpeg(MakeTestImage(24, 16), TestJpegKind::kBaseline);
  JpegDecoder decoder;
  // The last two bytes are the end marker, which the pixels do not need but
  // libjpeg-turbo requires.
  for (size_t size = 0; size < jpeg.size(); ++size) {
    EXPECT_THAT(decoder.Decode(absl::MakeConstSpan(jpeg).first(size), 1),
                Not(IsOk()))
        << size << " of " << jpeg.size();
  }
  EXPECT_THAT(decoder.Decode(jpeg, 1), IsOk());
}

TEST(JpegDecoderTest, CorruptDataIsDataLoss) {
  auto jpeg = MakeTestJpeg(MakeTestImage(160, 120), TestJpegKind::kBaseline);
  // An end of image in the middle of the data.
  jpeg[jpeg.size() / 2] = 0xff;
  jpeg[jpeg.size() / 2 + 1] = 0xd9;
  JpegDecoder decoder;
  EXPECT_THAT(
      decoder.Decode(jpeg, 1),
      StatusIs(absl::StatusCode::kDataLoss, HasSubstr("Corrupt JPEG data")));
}

TEST(JpegDecoderTest, OtherFilesAreInvalidArguments) {
  JpegDecoder decoder;
  const auto png = Bytes("\x89PNG\r\n\x1a\n and more of it");
  EXPECT_THAT(decoder.ReadSize(png),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("Not a JPEG file: starts with 0x89 0x50")));
  EXPECT_THAT(decoder.Decode(png, 1),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("Not a JPEG file")));
  EXPECT_THAT(decoder.ReadSize({}), StatusIs(absl::StatusCode::kInvalidArgument,
                                             "JPEG image of 0 bytes"));
}

TEST(JpegDecoderTest, CmykImagesAreUnimplemented) {
  JpegDecoder decoder;
  const auto jpeg = MakeTestJpeg(MakeTestImage(16, 16), TestJpegKind::kCmyk);
  EXPECT_THAT(decoder.Decode(jpeg, 1),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("CMYK")));
}

TEST(JpegDecoderTest, RefusesImagesThatAreTooLarge) {
  const auto jpeg =
      MakeTestJpeg(MakeTestImage(40, 25), TestJpegKind::kBaseline);
  JpegDecoder exact({.max_pixels = 1000});
  EXPECT_THAT(exact.Decode(jpeg, 1), IsOk());
  JpegDecoder strict({.max_pixels = 999});
  EXPECT_THAT(strict.Decode(jpeg, 1),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("40 x 25 pixels are more than the 999")));
}

TEST(JpegDecoderTest, RefusesHugeDimensionsByDefault) {
  auto jpeg = MakeTestJpeg(MakeTestImage(16, 16), TestJpegKind::kBaseline);
  // The frame header: FF C0, length, precision, height, width.
  const uint8_t marker[] = {0xff, 0xc0};
  const auto frame = std::search(jpeg.begin(), jpeg.end(), std::begin(marker),
                                 std::end(marker));
  ASSERT_LT(frame + 9, jpeg.end());
  std::fill(frame + 5, frame + 9, 0xf0);  // 61680 x 61680.
  JpegDecoder decoder;
  EXPECT_THAT(decoder.Decode(jpeg, 0),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("61680 x 61680 pixels")));
}

}  // namespace
}  // namespace tenon

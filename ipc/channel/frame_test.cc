// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/channel/frame.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Datagram(const FrameHeader& header, absl::string_view payload) {
  std::string bytes(sizeof(header), '\0');
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes.append(payload.data(), payload.size());
}

auto HasPayload(absl::string_view payload) {
  return ::testing::Field("payload", &Frame::payload, payload);
}

std::string SizeAsBytes(uint64_t size) {
  return std::string(reinterpret_cast<const char*>(&size), sizeof(size));
}

// The layout, spelled out again: a change of it is a new version.
TEST(FrameTest, LayoutIsThatOfVersionTwo) {
  const uint32_t words[] = {0x6e6f6e54, 2, 3, 2};
  std::string expected(16, '\0');
  std::memcpy(expected.data(), words, sizeof(words));
  EXPECT_EQ(Datagram({.payload_bytes = 3, .fd_count = 2}, "abc"),
            expected + "abc");
}

TEST(FrameTest, PayloadIsAViewIntoTheDatagram) {
  const std::string datagram = Datagram({.payload_bytes = 3}, "abc");
  TENON_ASSERT_OK_AND_ASSIGN(const Frame frame, ParseFrame(datagram, 0));
  EXPECT_EQ(frame.payload, "abc");
  EXPECT_EQ(frame.payload.data(), datagram.data() + sizeof(FrameHeader));
  EXPECT_EQ(frame.segment_bytes, 0u);
}

TEST(FrameTest, PayloadMayBeEmpty) {
  EXPECT_THAT(ParseFrame(Datagram({}, ""), 0), IsOkAndHolds(HasPayload("")));
}

TEST(FrameTest, DatagramNeedNotBeAligned) {
  const std::string datagram =
      "x" + Datagram({.payload_bytes = 3, .fd_count = 1}, "abc");
  EXPECT_THAT(ParseFrame(absl::string_view(datagram).substr(1), 1),
              IsOkAndHolds(HasPayload("abc")));
}

TEST(FrameTest, EveryShorterDatagramIsDataLoss) {
  const std::string datagram = Datagram({.payload_bytes = 3}, "abc");
  for (size_t size = 0; size < datagram.size(); ++size) {
    // A copy of its own size, for AddressSanitizer to guard.
    const std::string shorter = datagram.substr(0, size);
    EXPECT_THAT(ParseFrame(shorter, 0), StatusIs(absl::StatusCode::kDataLoss,
                                                 HasSubstr("malformed frame")))
        << size;
  }
}

TEST(FrameTest, LongerDatagramIsDataLoss) {
  EXPECT_THAT(ParseFrame(Datagram({.payload_bytes = 3}, "abcd"), 0),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("announces 3 bytes but has 4")));
}

TEST(FrameTest, HugeLengthIsDataLoss) {
  EXPECT_THAT(ParseFrame(Datagram({.payload_bytes = 0xffffffff}, "abc"), 0),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("announces 4294967295 bytes but has 3")));
}

TEST(FrameTest, OtherMagicIsDataLoss) {
  EXPECT_THAT(
      ParseFrame(Datagram({.magic = 0x20544547}, ""), 0),
      StatusIs(absl::StatusCode::kDataLoss,
               AllOf(HasSubstr("0x20544547"), HasSubstr("0x6e6f6e54"))));
}

TEST(FrameTest, EveryFlippedBitOfTheHeaderIsDataLoss) {
  const std::string good = Datagram({.payload_bytes = 3, .fd_count = 2}, "abc");
  ASSERT_THAT(ParseFrame(good, 2), IsOk());
  for (size_t bit = 0; bit < 8 * sizeof(FrameHeader); ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_THAT(ParseFrame(bad, 2), StatusIs(absl::StatusCode::kDataLoss))
        << bit;
  }
}

TEST(FrameTest, OtherVersionTellsBoth) {
  EXPECT_THAT(ParseFrame(Datagram({.version = 77}, ""), 0),
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(HasSubstr("version 77"), HasSubstr("version 2"))));
}

// Other versions may have shorter or longer headers.
TEST(FrameTest, OtherVersionTellsBothWhateverItsLayout) {
  const std::string datagram = Datagram({.version = 77}, "abc");
  for (size_t size = 8; size <= datagram.size(); ++size) {
    EXPECT_THAT(
        ParseFrame(datagram.substr(0, size), 0),
        StatusIs(absl::StatusCode::kDataLoss,
                 AllOf(HasSubstr("version 77"), HasSubstr("version 2"))))
        << size;
  }
}

TEST(FrameTest, OtherCountOfDescriptorsIsDataLoss) {
  const std::string two = Datagram({.fd_count = 2}, "");
  EXPECT_THAT(ParseFrame(two, 2), IsOk());
  EXPECT_THAT(ParseFrame(two, 1),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("announces 2 descriptors but came with 1")));
  EXPECT_THAT(ParseFrame(two, 3),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("announces 2 descriptors but came with 3")));
}

FrameHeader SegmentHeader(uint16_t fds, uint32_t payload_bytes = 8) {
  return {.payload_bytes = payload_bytes,
          .fd_count = fds,
          .kind = FrameKind::kBytesInSegment};
}

TEST(FrameTest, BytesInASegmentAreAnnouncedBySize) {
  const uint32_t words[] = {0x6e6f6e54, 2, 8, 0x00010002};
  std::string expected(16, '\0');
  std::memcpy(expected.data(), words, sizeof(words));
  const std::string datagram = Datagram(SegmentHeader(2), SizeAsBytes(100'000));
  EXPECT_EQ(datagram, expected + SizeAsBytes(100'000));
  TENON_ASSERT_OK_AND_ASSIGN(const Frame frame, ParseFrame(datagram, 2));
  EXPECT_EQ(frame.segment_bytes, 100'000u);
}

TEST(FrameTest, SegmentWithoutDescriptorOrSizeIsDataLoss) {
  const auto refers =
      StatusIs(absl::StatusCode::kDataLoss, HasSubstr("names a segment"));
  EXPECT_THAT(ParseFrame(Datagram(SegmentHeader(0), SizeAsBytes(1)), 0),
              refers);
  EXPECT_THAT(ParseFrame(Datagram(SegmentHeader(1), SizeAsBytes(0)), 1),
              refers);
  EXPECT_THAT(ParseFrame(Datagram(SegmentHeader(1, 7), "1234567"), 1), refers);
  EXPECT_THAT(ParseFrame(Datagram(SegmentHeader(1, 9), "123456789"), 1),
              refers);
}

TEST(FrameTest, AnEndHasNeitherBytesNorDescriptors) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const Frame frame,
      ParseFrame(Datagram({.kind = FrameKind::kEnd}, ""), 0));
  EXPECT_TRUE(frame.is_end);
  const auto refused =
      StatusIs(absl::StatusCode::kDataLoss, HasSubstr("an end with"));
  EXPECT_THAT(
      ParseFrame(Datagram({.payload_bytes = 1, .kind = FrameKind::kEnd}, "x"),
                 0),
      refused);
  EXPECT_THAT(
      ParseFrame(Datagram({.fd_count = 1, .kind = FrameKind::kEnd}, ""), 1),
      refused);
}

TEST(FrameTest, OtherKindIsDataLoss) {
  for (const uint16_t kind : {3, 4, 0xffff}) {
    EXPECT_THAT(
        ParseFrame(Datagram({.kind = static_cast<FrameKind>(kind)}, ""), 0),
        StatusIs(absl::StatusCode::kDataLoss, HasSubstr("unknown kind ")));
  }
}

TEST(FrameTest, CountsThatDifferBy32BitsAreNotEqual) {
  EXPECT_THAT(ParseFrame(Datagram({}, ""), size_t{1} << 32),
              StatusIs(absl::StatusCode::kDataLoss));
}

}  // namespace
}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/frame.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Datagram(const FrameHeader& header, absl::string_view payload) {
  std::string bytes(sizeof(header), '\0');
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes.append(payload.data(), payload.size());
}

// The layout, written out once more: a change of it is a new version.
TEST(FrameTest, LayoutIsThatOfVersionOne) {
  const uint32_t words[] = {0x6e6f6e54, 1, 3, 2};
  std::string expected(16, '\0');
  std::memcpy(expected.data(), words, sizeof(words));
  EXPECT_EQ(Datagram({.payload_bytes = 3, .fd_count = 2}, "abc"),
            expected + "abc");
}

TEST(FrameTest, PayloadIsAViewIntoTheDatagram) {
  const std::string datagram = Datagram({.payload_bytes = 3}, "abc");
  TENON_ASSERT_OK_AND_ASSIGN(const absl::string_view payload,
                             ParseFrame(datagram, 0));
  EXPECT_EQ(payload, "abc");
  EXPECT_EQ(payload.data(), datagram.data() + sizeof(FrameHeader));
}

TEST(FrameTest, PayloadMayBeEmpty) {
  EXPECT_THAT(ParseFrame(Datagram({}, ""), 0), IsOkAndHolds(""));
}

TEST(FrameTest, DatagramNeedNotBeAligned) {
  const std::string datagram =
      "x" + Datagram({.payload_bytes = 3, .fd_count = 1}, "abc");
  EXPECT_THAT(ParseFrame(absl::string_view(datagram).substr(1), 1),
              IsOkAndHolds("abc"));
}

TEST(FrameTest, EveryShorterDatagramIsDataLoss) {
  const std::string datagram = Datagram({.payload_bytes = 3}, "abc");
  for (size_t size = 0; size < datagram.size(); ++size) {
    // A copy of its own size, for AddressSanitizer to guard.
    const std::string shorter = datagram.substr(0, size);
    EXPECT_THAT(ParseFrame(shorter, 0),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("not a frame")))
        << size;
  }
}

TEST(FrameTest, LongerDatagramIsDataLoss) {
  EXPECT_THAT(ParseFrame(Datagram({.payload_bytes = 3}, "abcd"), 0),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("announces 3 bytes and has 4")));
}

TEST(FrameTest, HugeLengthIsDataLoss) {
  EXPECT_THAT(ParseFrame(Datagram({.payload_bytes = 0xffffffff}, "abc"), 0),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("announces 4294967295 bytes and has 3")));
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
                       AllOf(HasSubstr("version 77"), HasSubstr("version 1"))));
}

// Whatever else it changes: the header may have become shorter, or longer.
TEST(FrameTest, OtherVersionTellsBothWhateverItsLayout) {
  const std::string datagram = Datagram({.version = 77}, "abc");
  for (size_t size = 8; size <= datagram.size(); ++size) {
    EXPECT_THAT(
        ParseFrame(datagram.substr(0, size), 0),
        StatusIs(absl::StatusCode::kDataLoss,
                 AllOf(HasSubstr("version 77"), HasSubstr("version 1"))))
        << size;
  }
}

TEST(FrameTest, OtherCountOfDescriptorsIsDataLoss) {
  const std::string two = Datagram({.fd_count = 2}, "");
  EXPECT_THAT(ParseFrame(two, 2), IsOk());
  EXPECT_THAT(ParseFrame(two, 1),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("announces 2 descriptors and came with 1")));
  EXPECT_THAT(ParseFrame(two, 3),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("announces 2 descriptors and came with 3")));
}

TEST(FrameTest, CountsThatDifferBy32BitsAreNotEqual) {
  EXPECT_THAT(ParseFrame(Datagram({}, ""), size_t{1} << 32),
              StatusIs(absl::StatusCode::kDataLoss));
}

}  // namespace
}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/arena_offer.h"

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using enum absl::StatusCode;

constexpr size_t kHeaderBytes = 32;
constexpr size_t kMagicBytes = 8;
constexpr size_t kByNameAt = 28;

ArenaOfferFacts WithDescriptor() {
  return {{0x1111, 0x2222}, 77, SharingStrategy::kFileDescriptor, ""};
}
ArenaOfferFacts ByName() {
  return {{3, 4}, 5, SharingStrategy::kFileSystem, "a-name"};
}

TEST(ArenaOfferFactsTest, ArriveAsTheyWereSent) {
  for (const ArenaOfferFacts& sent : {WithDescriptor(), ByName()}) {
    TENON_ASSERT_OK_AND_ASSIGN(const ArenaOfferFacts got,
                               ArenaOfferFacts::FromBytes(sent.ToBytes()));
    EXPECT_EQ(got.arena, sent.arena);
    EXPECT_EQ(got.segment, sent.segment);
    EXPECT_EQ(got.strategy, sent.strategy);
    EXPECT_EQ(got.name, sent.name);
    EXPECT_EQ(got.fd_count(), sent.fd_count());
  }
  EXPECT_EQ(WithDescriptor().ToBytes().size(), kHeaderBytes);
  EXPECT_EQ(WithDescriptor().fd_count(), 3u);
  EXPECT_EQ(ByName().fd_count(), 2u);
}

TEST(ArenaOfferFactsTest, CutAtEachByteTheyAreRefusedOrHaveAShorterName) {
  const std::string bytes = ByName().ToBytes();
  const size_t name_at = bytes.size() - ByName().name.size();
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto facts = ArenaOfferFacts::FromBytes(bytes.substr(0, size));
    if (size < name_at) {
      EXPECT_THAT(facts, StatusIs(kInvalidArgument)) << size;
    } else {
      ASSERT_THAT(facts, IsOk()) << size;
      EXPECT_EQ(facts->name, bytes.substr(name_at, size - name_at));
    }
  }
}

TEST(ArenaOfferFactsTest, EachFlippedBitIsRefusedOrSeen) {
  const std::string bytes = ByName().ToBytes();
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    const auto facts = ArenaOfferFacts::FromBytes(flipped);
    if (bit / 8 < kMagicBytes) {
      EXPECT_THAT(facts, StatusIs(kInvalidArgument)) << bit;
    } else if (facts.ok()) {
      EXPECT_NE(facts->ToBytes(), bytes) << bit;
    } else {
      EXPECT_THAT(facts, StatusIs(kInvalidArgument)) << bit;
      EXPECT_GE(bit / 8, kByNameAt);
    }
  }
}

TEST(ArenaOfferFactsTest, OtherBytesAreNoOffer) {
  for (const std::string& bytes :
       {std::string(), std::string(1000, '\0'), std::string(40, 'x')}) {
    EXPECT_THAT(ArenaOfferFacts::FromBytes(bytes), StatusIs(kInvalidArgument));
  }
}

}  // namespace
}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/benchmarks/handover/by_hand.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>

#include "gtest/gtest.h"
#include "tenon/benchmarks/handover/hand_link.h"

namespace tenon::benchmarks {
namespace {

template <typename Link>
class ByHandTest : public testing::Test {
 protected:
  using End = typename Link::End;

  static uint64_t Number(End& end, const by_hand::Message& message) {
    uint64_t number;
    std::memcpy(&number, end.Bytes(message).data(), sizeof(number));
    return number;
  }
  static by_hand::Message NewWithNumber(End& end, uint64_t number) {
    const by_hand::Message message = end.New();
    std::memcpy(end.Bytes(message).data(), &number, sizeof(number));
    return message;
  }

  Link link_;
};

using Links = testing::Types<HandLink<by_hand::TwoLines, by_hand::Locked>,
                             HandLink<by_hand::OneLine, by_hand::Locked>,
                             HandLink<by_hand::OneLine, by_hand::Plain>>;
TYPED_TEST_SUITE(ByHandTest, Links);

// Many more than there are slots and blocks.
constexpr uint64_t kMany = 20 * by_hand::kBlocks;

TYPED_TEST(ByHandTest, EachBlockArrivesOnceAndInOrder) {
  const auto asker = this->link_.Asker();
  std::thread answering([&] {
    const auto answerer = this->link_.Answerer();
    for (uint64_t i = 0; i < kMany; ++i) {
      const by_hand::Message got = answerer->Get();
      EXPECT_EQ(this->Number(*answerer, got), i);
      answerer->Release(got);
    }
  });
  for (uint64_t i = 0; i < kMany; ++i) {
    asker->Put(this->NewWithNumber(*asker, i));
  }
  answering.join();
}

// A block that is held anywhere is not used again.
TYPED_TEST(ByHandTest, HeldBlocksKeepTheirBytes) {
  const auto asker = this->link_.Asker();
  const auto answerer = this->link_.Answerer();
  asker->Put(this->NewWithNumber(*asker, 4711));
  const by_hand::Message held = answerer->Get();
  for (uint64_t i = 1; i < by_hand::kBlocks; ++i) {
    asker->Put(this->NewWithNumber(*asker, i));
    answerer->Release(answerer->Get());
  }
  EXPECT_EQ(this->Number(*answerer, held), 4711u);
  answerer->Release(held);
  const by_hand::Message next = asker->New();
  EXPECT_EQ(next.block, held.block);
  EXPECT_EQ(next.generation, held.generation + 1);
}

TYPED_TEST(ByHandTest, ForwardsAndKeeps) {
  const auto asker = this->link_.Asker();
  const auto answerer = this->link_.Answerer();
  const by_hand::Message message = this->NewWithNumber(*asker, 7);
  for (uint64_t i = 0; i < kMany; ++i) {
    asker->PutKeeping(message);
    answerer->Put(answerer->Get());
    const by_hand::Message back = asker->Get();
    EXPECT_EQ(this->Number(*asker, back), 7u);
    asker->Release(back);
  }
}

}  // namespace
}  // namespace tenon::benchmarks

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/random_id.h"

#include <set>

#include "absl/container/flat_hash_set.h"
#include "gtest/gtest.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

TEST(RandomIdTest, NoTwoAreTheSame) {
  std::set<RandomId> ids;
  absl::flat_hash_set<RandomId> hashed;
  for (int i = 0; i < 1000; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(const RandomId id, RandomId::New());
    EXPECT_FALSE(id.is_zero());
    ids.insert(id);
    hashed.insert(id);
  }
  EXPECT_EQ(ids.size(), 1000u);
  EXPECT_EQ(hashed.size(), 1000u);
}

TEST(RandomIdTest, IsZeroOnlyIfBothWordsAre) {
  EXPECT_TRUE(RandomId().is_zero());
  EXPECT_FALSE((RandomId{1, 0}.is_zero()));
  EXPECT_FALSE((RandomId{0, 1}.is_zero()));
}

TEST(RandomIdTest, TextHas32Digits) {
  EXPECT_EQ((RandomId{0x12, 0xabcdef}.ToString()),
            "00000000000000120000000000abcdef");
}

TEST(RandomIdTest, IsOrderedByTheHighWordFirst) {
  EXPECT_LT((RandomId{1, 9}), (RandomId{2, 0}));
  EXPECT_LT((RandomId{1, 0}), (RandomId{1, 9}));
  EXPECT_NE((RandomId{1, 0}), (RandomId{0, 1}));
}

}  // namespace
}  // namespace tenon

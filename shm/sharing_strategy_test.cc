// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/sharing_strategy.h"

#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::HasSubstr;

constexpr auto kFileDescriptor = SharingStrategy::kFileDescriptor;
constexpr auto kFileSystem = SharingStrategy::kFileSystem;

TEST(SharingStrategyTest, ListsAll) {
  const auto all = AllSharingStrategies();
  EXPECT_THAT(std::vector<SharingStrategy>(all.begin(), all.end()),
              ElementsAre(kFileDescriptor, kFileSystem));
}

TEST(SharingStrategyTest, NamesAreTheOnesUsersKnow) {
  EXPECT_EQ(SharingStrategyName(kFileDescriptor), "file_descriptor");
  EXPECT_EQ(SharingStrategyName(kFileSystem), "file_system");
}

TEST(SharingStrategyTest, EveryNameParsesToItsStrategy) {
  std::set<std::string> names;
  for (SharingStrategy strategy : AllSharingStrategies()) {
    const std::string name(SharingStrategyName(strategy));
    EXPECT_THAT(ParseSharingStrategy(name), IsOkAndHolds(strategy));
    EXPECT_TRUE(names.insert(name).second) << name;
  }
}

TEST(SharingStrategyTest, OtherNamesAreRefusedWithTheListOfThoseThereAre) {
  for (const char* name : {"", "file", "FILE_SYSTEM", "file_system "}) {
    EXPECT_THAT(ParseSharingStrategy(name),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("file_descriptor, file_system")))
        << name;
  }
  EXPECT_THAT(
      ParseSharingStrategy("a\nb"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'a\\nb'")));
}

TEST(SharingStrategyTest, StartsAsFileDescriptorAndCanBeSet) {
  EXPECT_EQ(GetSharingStrategy(), kFileDescriptor);
  SetSharingStrategy(kFileSystem);
  EXPECT_EQ(GetSharingStrategy(), kFileSystem);
  SetSharingStrategy(kFileDescriptor);
  EXPECT_EQ(GetSharingStrategy(), kFileDescriptor);
}

TEST(SharingStrategyTest, ThreadsMaySetAndGetAtOnce) {
  std::thread writer([] {
    for (int i = 0; i < 10000; ++i) {
      SetSharingStrategy(i % 2 == 0 ? kFileSystem : kFileDescriptor);
    }
  });
  for (int i = 0; i < 10000; ++i) {
    EXPECT_THAT(GetSharingStrategy(),
                AnyOf(Eq(kFileDescriptor), Eq(kFileSystem)));
  }
  writer.join();
  SetSharingStrategy(kFileDescriptor);
}

}  // namespace
}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The valid sizes, prefixes and strategies of a segment.

#include <unistd.h>

#include <cstddef>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/segment_testing.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

using absl::StatusCode::kInvalidArgument;
using absl::StatusCode::kResourceExhausted;

TEST_P(SegmentTest, SizesThatCannotBeAreRefused) {
  EXPECT_THAT(Create(0), StatusIs(kInvalidArgument, HasSubstr("0 bytes")));
  for (size_t size : {size_t{1} << 63, std::numeric_limits<size_t>::max()}) {
    EXPECT_THAT(Create(size),
                StatusIs(kInvalidArgument, HasSubstr(absl::StrCat(size))));
  }
}

TEST_P(SegmentTest, AbsurdSizesAreMoreThanThereIs) {
  for (size_t size : {size_t{1} << 50, size_t{1} << 62,
                      (size_t{1} << 63) - 4096, (size_t{1} << 63) - 1}) {
    EXPECT_THAT(Create(size),
                StatusIs(kResourceExhausted, HasSubstr(absl::StrCat(size))));
    EXPECT_THAT(ListShmNames(prefix_), IsOkAndHolds(IsEmpty()));
  }
}

TEST_P(SegmentTest, BadPrefixesAreRefused) {
  for (const std::string& prefix :
       {std::string(), std::string("."), std::string(".x"), std::string("a/b"),
        std::string("../x"), std::string("a b"), std::string("x\0y", 3),
        std::string(161, 'x')}) {
    EXPECT_THAT(Create(kSize, prefix), StatusIs(kInvalidArgument)) << prefix;
  }
}

TEST_P(SegmentTest, LongestPrefixWorks) {
  std::string prefix = prefix_;
  prefix.resize(160, 'x');
  EXPECT_THAT(Create(kSize, prefix), IsOk());
}

INSTANTIATE_TEST_SUITE_P(All, SegmentTest, AllSegmentCases(), SegmentCaseName);

TEST(SegmentOptionsTest, StrategyIsTheOneOfTheProcessUnlessGiven) {
  const SegmentOptions unset = {.name_prefix = UniqueTestPrefix()};
  for (SharingStrategy strategy : AllSharingStrategies()) {
    SetSharingStrategy(strategy);
    TENON_ASSERT_OK_AND_ASSIGN(const Segment segment,
                               Segment::CreateSharedWritable(kSize, unset));
    EXPECT_EQ(segment.strategy(), strategy);
    for (SharingStrategy given : AllSharingStrategies()) {
      SegmentOptions options = unset;
      options.strategy = given;
      TENON_ASSERT_OK_AND_ASSIGN(const Segment other,
                                 Segment::CreateSharedWritable(kSize, options));
      EXPECT_EQ(other.strategy(), given);
    }
  }
  SetSharingStrategy(SharingStrategy::kFileDescriptor);
}

TEST(SegmentOptionsTest, PrefixLabelsAMemfd) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const Segment segment,
      Segment::CreateSharedWritable(
          kSize, {.strategy = SharingStrategy::kFileDescriptor,
                  .name_prefix = "camera.0"}));
  char target[100] = {};
  const std::string link = absl::StrCat("/proc/self/fd/", segment.fd());
  ASSERT_GT(readlink(link.c_str(), target, sizeof(target) - 1), 0);
  EXPECT_STREQ(target, "/memfd:camera.0 (deleted)");
}

}  // namespace
}  // namespace tenon

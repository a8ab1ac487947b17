// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/value/value.h"

#include <fcntl.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm/value/array.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Progress {
  int64_t step = 3;
  std::atomic<uint32_t> errors = 4;
  char phase[16] = "begin";
};

struct Point {
  double x;
  double y;
};

UniqueFd Duplicate(int fd) { return UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

TEST(ValueTest, BeginsAsItIsCreated) {
  EXPECT_THAT(Value<int>::Create().value().Load(), IsOkAndHolds(0));
  EXPECT_THAT(Value<int>::Create(5).value().Load(), IsOkAndHolds(5));
  EXPECT_THAT(Value<bool>::Create(true).value().Load(), IsOkAndHolds(true));
  const auto point = Value<Point>::Create({.x = 1, .y = 2});
  ASSERT_THAT(point, IsOk());
  EXPECT_EQ(point->get().value()->y, 2);
  const auto progress = Value<Progress>::Create();
  ASSERT_THAT(progress, IsOk());
  EXPECT_EQ(progress->get().value()->step, 3);
  EXPECT_EQ(progress->get().value()->errors.load(), 4u);
  EXPECT_STREQ(progress->get().value()->phase, "begin");
}

TEST(ValueTest, FieldsAreDoubledByAChildAndACopyIsPrivate) {
  const auto point = Value<Point>::Create({.x = 1.5, .y = -2});
  ASSERT_THAT(point, IsOk());
  const Point copy = *point->get().value();
  EXPECT_TRUE(PassesInChild([&] {
    const auto same = Value<Point>::Adopt(Duplicate(point->fd()));
    ASSERT_THAT(same, IsOk());
    Point& theirs = *same->get().value();
    theirs.x *= 2;
    theirs.y *= 2;
  }));
  EXPECT_EQ(point->get().value()->x, 3);
  EXPECT_EQ(point->get().value()->y, -4);
  EXPECT_EQ(copy.x, 1.5);
  EXPECT_EQ(copy.y, -2);
}

class ValueStrategyTest : public testing::TestWithParam<SharingStrategy> {};

TEST_P(ValueStrategyTest, IsOneInAllProcesses) {
  const std::string prefix = UniqueTestPrefix();
  {
    const auto value = Value<int64_t>::Create(
        40, {.strategy = GetParam(), .name_prefix = prefix});
    ASSERT_THAT(value, IsOk());
    // A name suffices to share it.
    EXPECT_EQ(value->fd() < 0, GetParam() == SharingStrategy::kFileSystem);
    EXPECT_TRUE(PassesInChild([&] {
      const auto same = GetParam() == SharingStrategy::kFileSystem
                            ? Value<int64_t>::Open(value->name())
                            : Value<int64_t>::Adopt(Duplicate(value->fd()));
      ASSERT_THAT(same, IsOk());
      EXPECT_THAT(same->FetchAdd(2), IsOkAndHolds(40));
    }));
    EXPECT_THAT(value->Load(std::memory_order_acquire), IsOkAndHolds(42));
    ASSERT_THAT(value->Store(-1, std::memory_order_release), IsOk());
    EXPECT_EQ(*value->get().value(), -1);
  }
  EXPECT_THAT(ListShmNames(prefix), IsOkAndHolds(IsEmpty()));
}

INSTANTIATE_TEST_SUITE_P(Strategies, ValueStrategyTest,
                         testing::ValuesIn(AllSharingStrategies().begin(),
                                           AllSharingStrategies().end()));

TEST(ValueTest, IsAnArrayOfOne) {
  const auto value = Value<int>::Create(7);
  ASSERT_THAT(value, IsOk());
  const auto array = Array<int>::Adopt(Duplicate(value->fd()));
  ASSERT_THAT(array, IsOk());
  EXPECT_EQ(array->size(), 1u);
  EXPECT_THAT(array->Load(0), IsOkAndHolds(7));
  EXPECT_THAT(Value<int>::Adopt(Duplicate(array->fd())), IsOk());
  const auto two = Array<int>::Create(2);
  ASSERT_THAT(two, IsOk());
  EXPECT_THAT(Value<int>::Adopt(Duplicate(two->fd())),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the number of elements is 2; want 1")));
  EXPECT_THAT(Value<float>::Adopt(Duplicate(value->fd())),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the type of an element")));
}

TEST(ValueTest, ErrorsOfCreationArePassedOn) {
  EXPECT_THAT(Value<int>::Create({.name_prefix = "no/prefix"}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Value<int>::Create(1, {.name_prefix = "no/prefix"}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace tenon

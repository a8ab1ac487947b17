// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// What segments do for a NameKeeper, and names that are left to their last
// holder.

#include "tenon/shm/segment/name_keeper.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/segment/named_segments.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class Counter final : public NameKeeper {
 public:
  Counter() { SetNameKeeper(this); }
  ~Counter() { SetNameKeeper(nullptr); }

  void Attend() override { ++attends; }
  absl::Status KeepName(absl::string_view) override {
    return absl::UnavailableError("it only counts");
  }
  void ReleaseName(absl::string_view) override {}

  int attends = 0;
};

class NameKeeperTest : public testing::Test {
 protected:
  ~NameKeeperTest() override {
    EXPECT_THAT(ListShmNames(prefix_), IsOkAndHolds(IsEmpty()));
  }

  absl::StatusOr<Segment> Create(
      SharingStrategy strategy = SharingStrategy::kFileSystem) const {
    return Segment::CreateSharedWritable(
        8192, {.strategy = strategy, .name_prefix = prefix_});
  }
  static absl::StatusOr<Segment> Open(const Segment& segment) {
    return Segment::Open(segment.name(), SegmentKind::kSharedWritable);
  }
  size_t names() const { return ListShmNames(prefix_).value().size(); }

  const std::string prefix_ = UniqueTestPrefix();
};

TEST_F(NameKeeperTest, AttendsToNamedSegmentsAlone) {
  EXPECT_EQ(GetNameKeeper(), nullptr);
  Counter counter;
  EXPECT_EQ(GetNameKeeper(), &counter);
  TENON_ASSERT_OK_AND_ASSIGN(const Segment unnamed,
                             Create(SharingStrategy::kFileDescriptor));
  EXPECT_EQ(counter.attends, 0);
  TENON_ASSERT_OK_AND_ASSIGN(const Segment named, Create());
  EXPECT_EQ(counter.attends, 1);
  EXPECT_THAT(Open(named), IsOk());
  EXPECT_EQ(counter.attends, 2);
}

TEST_F(NameKeeperTest, ANameThatIsNotLeftEndsWithItsCreator) {
  TENON_ASSERT_OK_AND_ASSIGN(std::optional<Segment> creator, Create());
  TENON_ASSERT_OK_AND_ASSIGN(const Segment opener, Open(*creator));
  creator.reset();
  EXPECT_EQ(names(), 0u);
}

TEST_F(NameKeeperTest, ANameThatIsLeftEndsWithItsLastHolder) {
  TENON_ASSERT_OK_AND_ASSIGN(std::optional<Segment> creator, Create());
  TENON_ASSERT_OK_AND_ASSIGN(std::optional<Segment> opener, Open(*creator));
  TENON_ASSERT_OK_AND_ASSIGN(std::optional<Segment> other, Open(*creator));
  creator->LeaveNameToLastHolder();
  opener->LeaveNameToLastHolder();
  other->LeaveNameToLastHolder();
  creator.reset();
  EXPECT_EQ(names(), 1u);
  opener.reset();
  EXPECT_EQ(names(), 1u);
  // Moving takes the duty along.
  std::optional<Segment> moved(std::move(*other));
  other.reset();
  EXPECT_EQ(names(), 1u);
  Segment assigned = *std::move(moved);
  moved.reset();
  EXPECT_EQ(names(), 1u);
  TENON_ASSERT_OK_AND_ASSIGN(assigned, Create());
  EXPECT_THAT(ListShmNames(prefix_), IsOkAndHolds(SizeIs(1)));
}

TEST_F(NameKeeperTest, AMappingHoldsItToo) {
  TENON_ASSERT_OK_AND_ASSIGN(std::optional<Segment> creator, Create());
  TENON_ASSERT_OK_AND_ASSIGN(std::optional<Segment> opener, Open(*creator));
  TENON_ASSERT_OK_AND_ASSIGN(std::optional<WritableMapping> mapping,
                             opener->MapWritable());
  EXPECT_THAT(opener->CloseFd(), IsOk());
  creator->LeaveNameToLastHolder();
  opener->LeaveNameToLastHolder();
  creator.reset();
  EXPECT_EQ(names(), 1u);
  mapping.reset();
  opener.reset();
}

TEST_F(NameKeeperTest, AHoldThatIsDroppedTellsOfOthers) {
  TENON_ASSERT_OK_AND_ASSIGN(const Segment creator, Create());
  TENON_ASSERT_OK_AND_ASSIGN(const Segment opener, Open(creator));
  EXPECT_TRUE(DropHoldOfName(opener.fd()));
  EXPECT_FALSE(DropHoldOfName(creator.fd())) << "the opener's hold counted";
  EXPECT_THAT(ReclaimDeadName(creator.name()), IsOkAndHolds(true));
}

TEST_F(NameKeeperTest, AForkedChildLeavesItAlone) {
  TENON_ASSERT_OK_AND_ASSIGN(std::optional<Segment> creator, Create());
  creator->LeaveNameToLastHolder();
  EXPECT_TRUE(PassesInChild([&] {
    creator.reset();
    EXPECT_EQ(names(), 1u);
  }));
  EXPECT_EQ(names(), 1u);
  EXPECT_THAT(creator->Unlink(), IsOk());
  EXPECT_EQ(names(), 0u);
}

}  // namespace
}  // namespace tenon

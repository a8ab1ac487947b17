// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Values, arrays and tensors under names that programs choose.

#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/segment/open_or_create.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/segment_options.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm/value/array.h"
#include "tenon/shm/value/value.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class NamedValueTest : public testing::Test {
 protected:
  ~NamedValueTest() override {
    EXPECT_THAT(ListShmNames(name_), IsOkAndHolds(IsEmpty()));
    EXPECT_EQ(CountOpenFds(), fds_before_);
  }
  SegmentOptions Named() const { return {.name_prefix = name_, .name = name_}; }

  const std::string name_ = UniqueTestPrefix() + ".value";
  const size_t fds_before_ = CountOpenFds();
};

TEST_F(NamedValueTest, ProgramsMeetByIt) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto steps,
                             Value<int64_t>::Create(40, Named()));
  EXPECT_EQ(steps.name(), name_);
  EXPECT_TRUE(PassesInChild([&] {
    TENON_ASSERT_OK_AND_ASSIGN(const auto theirs, Value<int64_t>::Open(name_));
    EXPECT_THAT(theirs.FetchAdd(2), IsOkAndHolds(40));
  }));
  EXPECT_THAT(steps.Load(), IsOkAndHolds(42));
  EXPECT_THAT(ListShmNames(name_), IsOkAndHolds(ElementsAre(name_)));
}

TEST_F(NamedValueTest, TypeAndNumberAreChecked) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto made,
                             Array<uint32_t>::Create(3, Named()));
  EXPECT_THAT(Array<float>::Open(name_),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("type")));
  EXPECT_THAT(Array<uint32_t>::OpenOrCreate(4, Named()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the number of elements is 3; want 4")));
  EXPECT_THAT(Value<uint32_t>::OpenOrCreate(0, Named()),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Array<uint32_t>::OpenOrCreate(3, Named()), IsOk());
  EXPECT_THAT(Array<uint32_t>::Create(3, Named()),
              StatusIs(absl::StatusCode::kAlreadyExists));
}

TEST_F(NamedValueTest, OpenOrCreateInitializesOnce) {
  bool created = false;
  TENON_ASSERT_OK_AND_ASSIGN(
      auto first, Value<int64_t>::OpenOrCreate(7, Named(), &created));
  EXPECT_TRUE(created);
  EXPECT_THAT(first.Store(8), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto second, Value<int64_t>::OpenOrCreate(7, Named(), &created));
  EXPECT_FALSE(created);
  EXPECT_THAT(second.Load(), IsOkAndHolds(8));
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto third,
      OpenOrCreate([&] { return Value<int64_t>::Open(name_); },
                   [&] { return Value<int64_t>::Create(9, Named()); }));
  EXPECT_THAT(third.Load(), IsOkAndHolds(8));
}

TEST_F(NamedValueTest, AfterTheDeathOfAllHoldersItBeginsAnew) {
  const pid_t child = fork();
  if (child == 0) {
    const auto made = Value<int64_t>::Create(1, Named());
    if (made.ok()) raise(SIGKILL);
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  bool created = false;
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto made, Value<int64_t>::OpenOrCreate(2, Named(), &created));
  EXPECT_TRUE(created);
  EXPECT_THAT(made.Load(), IsOkAndHolds(2));
}

TEST_F(NamedValueTest, AssignmentEndsTheHold) {
  TENON_ASSERT_OK_AND_ASSIGN(auto value, Value<int64_t>::Create(1, Named()));
  TENON_ASSERT_OK_AND_ASSIGN(value, Value<int64_t>::Create(2));
  EXPECT_THAT(ListShmNames(name_), IsOkAndHolds(IsEmpty()));
  EXPECT_THAT(value.Load(), IsOkAndHolds(2));
}

TEST_F(NamedValueTest, CanBeNamedWhenComplete) {
  TENON_ASSERT_OK_AND_ASSIGN(
      auto made,
      Array<int32_t>::Create(
          2, {.strategy = SharingStrategy::kFileSystem, .name_prefix = name_}));
  ASSERT_THAT(made.Store(1, 5), IsOk());
  ASSERT_THAT(made.PublishAs(name_), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const auto opened, Array<int32_t>::Open(name_));
  EXPECT_THAT(opened.Load(1), IsOkAndHolds(5));
  ASSERT_THAT(made.Unlink(), IsOk());
  EXPECT_THAT(Array<int32_t>::Open(name_),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(NamedValueTest, FileDescriptorStrategyIsRefused) {
  const SegmentOptions bad = {.strategy = SharingStrategy::kFileDescriptor,
                              .name = name_};
  EXPECT_THAT(Value<int64_t>::Create(1, bad),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(NamedValueTest, ATensorMayHaveOne) {
  {
    TENON_ASSERT_OK_AND_ASSIGN(
        const Tensor tensor,
        Tensor::CreateShared(kDtypeOf<float>, {16}, {.segment = Named()}));
    EXPECT_THAT(Segment::Open(name_, SegmentKind::kOwnerWritten), IsOk());
  }
  EXPECT_THAT(ListShmNames(name_), IsOkAndHolds(IsEmpty()))
      << "removed by its last holder, which has no descriptor";
}

}  // namespace
}  // namespace tenon

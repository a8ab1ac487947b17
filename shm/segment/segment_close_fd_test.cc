// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Named segments without a descriptor.

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr size_t kSize = 10000;
using absl::StatusCode::kFailedPrecondition;

class SegmentCloseFdTest : public testing::Test {
 protected:
  void TearDown() override {
    EXPECT_THAT(ListShmNames(prefix_), IsOkAndHolds(IsEmpty()));
    EXPECT_EQ(CountOpenFds(), fds_before_);
  }

  absl::StatusOr<Segment> CreateNamed() const {
    return Segment::CreateSharedWritable(
        kSize,
        {.strategy = SharingStrategy::kFileSystem, .name_prefix = prefix_});
  }

  const std::string prefix_ = UniqueTestPrefix();
  const size_t fds_before_ = CountOpenFds();
};

TEST_F(SegmentCloseFdTest, MapsByNameAndKeepsNoDescriptor) {
  TENON_ASSERT_OK_AND_ASSIGN(Segment created, CreateNamed());
  TENON_ASSERT_OK_AND_ASSIGN(const WritableMapping before,
                             created.MapWritable());
  ASSERT_THAT(created.CloseFd(), IsOk());
  EXPECT_THAT(created.CloseFd(), IsOk()) << "again is nothing";
  EXPECT_EQ(created.fd(), -1);
  EXPECT_EQ(CountOpenFds(), fds_before_);
  Segment segment = std::move(created);
  TENON_ASSERT_OK_AND_ASSIGN(const WritableMapping mapping,
                             segment.MapWritable());
  TENON_ASSERT_OK_AND_ASSIGN(const ReadOnlyMapping reader,
                             segment.MapReadOnly());
  EXPECT_EQ(CountOpenFds(), fds_before_);
  mapping.data()[kSize - 1] = std::byte{7};
  EXPECT_EQ(before.data()[kSize - 1], std::byte{7});
  EXPECT_EQ(reader.data()[kSize - 1], std::byte{7});
}

TEST_F(SegmentCloseFdTest, AnOpenedOneClosesItToo) {
  TENON_ASSERT_OK_AND_ASSIGN(const Segment created, CreateNamed());
  TENON_ASSERT_OK_AND_ASSIGN(
      Segment opened,
      Segment::Open(created.name(), SegmentKind::kOwnerWritten));
  ASSERT_THAT(opened.CloseFd(), IsOk());
  EXPECT_THAT(opened.MapReadOnly(), IsOk());
  EXPECT_THAT(opened.MapWritable(), StatusIs(kFailedPrecondition));
}

TEST_F(SegmentCloseFdTest, AnotherFileOfThatNameIsNotMapped) {
  TENON_ASSERT_OK_AND_ASSIGN(Segment segment, CreateNamed());
  ASSERT_THAT(segment.CloseFd(), IsOk());
  // Kept mapped, so that its number is not given to the other file.
  TENON_ASSERT_OK_AND_ASSIGN(const ReadOnlyMapping mapping,
                             segment.MapReadOnly());
  const std::string path = "/dev/shm/" + segment.name();
  ASSERT_EQ(unlink(path.c_str()), 0);
  EXPECT_THAT(segment.MapReadOnly(), StatusIs(absl::StatusCode::kNotFound));
  const UniqueFd planted(
      open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
  ASSERT_TRUE(planted.valid());
  ASSERT_EQ(ftruncate(planted.get(), kSize), 0);
  const auto is_refused =
      StatusIs(kFailedPrecondition,
               AllOf(HasSubstr(segment.name()), HasSubstr("expected file")));
  EXPECT_THAT(segment.MapReadOnly(), is_refused);
  EXPECT_THAT(segment.MapWritable(), is_refused);
}

TEST_F(SegmentCloseFdTest, ATruncatedFileIsNotMapped) {
  TENON_ASSERT_OK_AND_ASSIGN(Segment segment, CreateNamed());
  ASSERT_THAT(segment.CloseFd(), IsOk());
  ASSERT_EQ(truncate(("/dev/shm/" + segment.name()).c_str(), 1), 0);
  EXPECT_THAT(segment.MapReadOnly(),
              StatusIs(kFailedPrecondition, HasSubstr("of 1 bytes; expected")));
}

TEST_F(SegmentCloseFdTest, WithoutANameThereIsNoOtherWay) {
  TENON_ASSERT_OK_AND_ASSIGN(
      Segment segment,
      Segment::CreateSharedWritable(
          kSize, {.strategy = SharingStrategy::kFileDescriptor}));
  EXPECT_THAT(segment.CloseFd(),
              StatusIs(kFailedPrecondition, HasSubstr("file_system strategy")));
  EXPECT_GE(segment.fd(), 0);
  EXPECT_THAT(segment.MapReadOnly(), IsOk());
}

TEST_F(SegmentCloseFdTest, AfterUnlinkTheDescriptorIsTheOnlyWay) {
  TENON_ASSERT_OK_AND_ASSIGN(Segment created, CreateNamed());
  ASSERT_THAT(created.Unlink(), IsOk());
  Segment segment = std::move(created);
  EXPECT_THAT(segment.CloseFd(),
              StatusIs(kFailedPrecondition,
                       AllOf(HasSubstr(segment.name()), HasSubstr("Unlink"))));
  EXPECT_GE(segment.fd(), 0);
  EXPECT_THAT(segment.MapWritable(), IsOk());
  EXPECT_THAT(segment.MapReadOnly(), IsOk());
}

TEST_F(SegmentCloseFdTest, IsInertInAForkedChild) {
  TENON_ASSERT_OK_AND_ASSIGN(Segment segment, CreateNamed());
  EXPECT_TRUE(PassesInChild([&] {
    EXPECT_THAT(segment.CloseFd(), StatusIs(kFailedPrecondition));
    EXPECT_GE(segment.fd(), 0);
  }));
}

}  // namespace
}  // namespace tenon

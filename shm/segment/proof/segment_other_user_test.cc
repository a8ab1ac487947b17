// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The powers of another user of the machine: none over names in /dev/shm, which
// all users share; with a descriptor, those that its seals allow.

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/segment/proof/segment_trust_testing.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using absl::StatusCode::kFailedPrecondition;
using absl::StatusCode::kPermissionDenied;

class SegmentOtherUserTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!CanBecomeAnotherUser()) GTEST_SKIP() << kNoOtherUser;
  }
  void TearDown() override { unlink(path_.c_str()); }

  SegmentOptions Options(SharingStrategy strategy) const {
    return {.strategy = strategy, .name_prefix = prefix_};
  }

  const std::string prefix_ = UniqueTestPrefix();
  const std::string path_ = "/dev/shm/" + prefix_;
};

TEST_F(SegmentOtherUserTest, KnowsTheNameAndGetsNothing) {
  for (SegmentKind kind : kBothKinds) {
    TENON_ASSERT_OK_AND_ASSIGN(
        const Segment segment,
        Segment::CreateSharedWritable(kSize,
                                      Options(SharingStrategy::kFileSystem)));
    const std::string path = "/dev/shm/" + segment.name();
    EXPECT_TRUE(PassesInChild([&] {
      ASSERT_TRUE(BecomeAnotherUser());
      EXPECT_THAT(Segment::Open(segment.name(), kind),
                  StatusIs(kPermissionDenied, HasSubstr(segment.name())));
      EXPECT_EQ(open(path.c_str(), O_RDONLY | O_CLOEXEC), -1);
      EXPECT_EQ(errno, EACCES);
      EXPECT_NE(truncate(path.c_str(), 0), 0);
      EXPECT_NE(chmod(path.c_str(), 0666), 0);
    }));
    EXPECT_THAT(ListShmNames(prefix_),
                IsOkAndHolds(ElementsAre(segment.name())));
    EXPECT_THAT(Segment::Open(segment.name(), kind), IsOk());
  }
}

// All that Open() checks is right: type, size and mode.
TEST_F(SegmentOtherUserTest, PlantsAFile) {
  EXPECT_TRUE(PassesInChild([&] {
    ASSERT_TRUE(BecomeAnotherUser());
    const UniqueFd fd(
        open(path_.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
    ASSERT_TRUE(fd.valid());
    ASSERT_EQ(ftruncate(fd.get(), kSize), 0);
  }));
  struct stat file;
  ASSERT_EQ(stat(path_.c_str(), &file), 0);
  ASSERT_EQ(file.st_uid, kNobody);
  for (SegmentKind kind : kBothKinds) {
    EXPECT_THAT(Segment::Open(prefix_, kind), StatusIs(kPermissionDenied));
  }
  // Accessible to all users, so that no permission is missing.
  ASSERT_EQ(chmod(path_.c_str(), 0666), 0);
  for (SegmentKind kind : kBothKinds) {
    EXPECT_THAT(Segment::Open(prefix_, kind), StatusIs(kPermissionDenied));
  }
}

TEST_F(SegmentOtherUserTest, PlantsALinkToASegment) {
  TENON_ASSERT_OK_AND_ASSIGN(const Segment target,
                             Segment::CreateSharedWritable(
                                 kSize, Options(SharingStrategy::kFileSystem)));
  EXPECT_TRUE(PassesInChild([&] {
    ASSERT_TRUE(BecomeAnotherUser());
    ASSERT_EQ(symlink(target.name().c_str(), path_.c_str()), 0);
  }));
  for (SegmentKind kind : kBothKinds) {
    // Where fs.protected_symlinks is set, the kernel refuses it itself.
    EXPECT_THAT(Segment::Open(prefix_, kind),
                testing::AnyOf(StatusIs(kFailedPrecondition),
                               StatusIs(kPermissionDenied)));
  }
  // A new segment cannot collide with it: 128 bits of the name are random.
  EXPECT_THAT(Segment::CreateSharedWritable(
                  kSize, Options(SharingStrategy::kFileSystem)),
              IsOk());
}

TEST_F(SegmentOtherUserTest, ReadsWhatItIsSent) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto made, Segment::CreateOwnerWritten(
                           kSize, Options(SharingStrategy::kFileDescriptor)));
  std::memset(made.mapping.data(), 'A', kSize);
  EXPECT_TRUE(PassesInChild([&] {
    ASSERT_TRUE(BecomeAnotherUser());
    TENON_ASSERT_OK_AND_ASSIGN(const Segment segment,
                               Segment::Adopt(UniqueFd(dup(made.segment.fd())),
                                              SegmentKind::kOwnerWritten));
    TENON_ASSERT_OK_AND_ASSIGN(const ReadOnlyMapping mapping,
                               segment.MapReadOnly());
    EXPECT_EQ(mapping.data()[kSize - 1], std::byte{'A'});
    EXPECT_EQ(mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED,
                   segment.fd(), 0),
              MAP_FAILED);
    EXPECT_EQ(pwrite(segment.fd(), "B", 1, 0), -1);
    EXPECT_NE(ftruncate(segment.fd(), 0), 0);
  }));
  EXPECT_EQ(made.mapping.data()[0], std::byte{'A'});
}

}  // namespace
}  // namespace tenon

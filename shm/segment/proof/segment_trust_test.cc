// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Attacks of a hostile process on a segment that it received. (Each attack
// needs only the descriptor, so the test itself makes most of them.) Forged
// segments: segment_adopt_test.cc. Planted names: segment_open_test.cc.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/segment/proof/segment_trust_testing.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using absl::StatusCode::kPermissionDenied;

// Succeeds if `result` is that of a call that failed with `error`.
testing::AssertionResult FailsWith(int error, ssize_t result) {
  const int got = errno;
  if (result != -1) return testing::AssertionFailure() << "it worked";
  if (got == error) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "it failed with " << strerror(got);
}

// mmap() with the result of a system call.
ssize_t TryMap(int fd, int protection, int flags = MAP_SHARED) {
  void* data = mmap(nullptr, kSize, protection, flags, fd, 0);
  if (data == MAP_FAILED) return -1;
  munmap(data, kSize);
  return 0;
}

// An owner-written segment full of 'A', and the descriptor that a peer of it
// has received. Whatever the peer does, the contents stay.
class OwnerWrittenSegmentTest : public testing::Test {
 protected:
  void SetUp() override {
    TENON_ASSERT_OK_AND_ASSIGN(
        owned_, Segment::CreateOwnerWritten(
                    kSize, {.strategy = SharingStrategy::kFileDescriptor}));
    std::memset(owned_->mapping.data(), 'A', kSize);
    peer_.Reset(dup(owned_->segment.fd()));
  }

  void TearDown() override {
    struct stat file;
    ASSERT_EQ(fstat(peer_.get(), &file), 0);
    EXPECT_EQ(file.st_size, static_cast<off_t>(kSize));
    for (std::byte byte : owned_->mapping.bytes()) {
      ASSERT_EQ(byte, std::byte{'A'});
    }
  }

  int peer() const { return peer_.get(); }

  std::optional<Segment::OwnerWritten> owned_;
  UniqueFd peer_;
};

TEST_F(OwnerWrittenSegmentTest, CannotBeShrunk) {
  EXPECT_TRUE(FailsWith(EPERM, ftruncate(peer(), kPage)));
  EXPECT_TRUE(FailsWith(EPERM, ftruncate(peer(), 0)));
}

TEST_F(OwnerWrittenSegmentTest, CannotBeGrown) {
  EXPECT_TRUE(FailsWith(EPERM, ftruncate(peer(), kSize + kPage)));
  EXPECT_TRUE(FailsWith(EPERM, fallocate(peer(), 0, kSize, kPage)));
}

TEST_F(OwnerWrittenSegmentTest, CannotBeTruncatedByOpeningIt) {
  EXPECT_FALSE(Reopen(peer(), O_RDWR | O_TRUNC).valid());
}

TEST_F(OwnerWrittenSegmentTest, CannotBePunched) {
  const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  EXPECT_TRUE(FailsWith(EPERM, fallocate(peer(), mode, 0, kPage)));
}

TEST_F(OwnerWrittenSegmentTest, CannotBeZeroed) {
  EXPECT_EQ(fallocate(peer(), FALLOC_FL_ZERO_RANGE, 0, kPage), -1);
}

TEST_F(OwnerWrittenSegmentTest, CannotBeMappedWritable) {
  EXPECT_TRUE(FailsWith(EPERM, TryMap(peer(), PROT_READ | PROT_WRITE)));
  EXPECT_TRUE(FailsWith(EPERM, TryMap(peer(), PROT_WRITE)));
}

TEST_F(OwnerWrittenSegmentTest, ReadOnlyMappingCannotBeMadeWritable) {
  void* data = mmap(nullptr, kSize, PROT_READ, MAP_SHARED, peer(), 0);
  ASSERT_NE(data, MAP_FAILED);
  EXPECT_TRUE(FailsWith(EACCES, mprotect(data, kSize, PROT_READ | PROT_WRITE)));
  munmap(data, kSize);
}

TEST_F(OwnerWrittenSegmentTest, PagesCannotBeRemovedThroughAMapping) {
  void* data = mmap(nullptr, kSize, PROT_READ, MAP_SHARED, peer(), 0);
  ASSERT_NE(data, MAP_FAILED);
  EXPECT_EQ(madvise(data, kSize, MADV_REMOVE), -1);
  munmap(data, kSize);
}

TEST_F(OwnerWrittenSegmentTest, CannotBeWritten) {
  EXPECT_TRUE(FailsWith(EPERM, write(peer(), "B", 1)));
  EXPECT_TRUE(FailsWith(EPERM, pwrite(peer(), "B", 1, kPage)));
}

TEST_F(OwnerWrittenSegmentTest, CannotBeWrittenByTheKernelForAPeer) {
  const UniqueFd source(memfd_create("source", MFD_CLOEXEC));
  ASSERT_EQ(write(source.get(), "B", 1), 1);
  off_t offset = 0;
  EXPECT_TRUE(FailsWith(EPERM, sendfile(peer(), source.get(), &offset, 1)));
}

TEST_F(OwnerWrittenSegmentTest, ReopeningItGivesNoMore) {
  const UniqueFd again = Reopen(peer(), O_RDWR);
  ASSERT_TRUE(again.valid());
  EXPECT_TRUE(FailsWith(EPERM, pwrite(again.get(), "B", 1, 0)));
  EXPECT_TRUE(FailsWith(EPERM, TryMap(again.get(), PROT_READ | PROT_WRITE)));
  EXPECT_TRUE(FailsWith(EPERM, ftruncate(again.get(), kPage)));
}

TEST_F(OwnerWrittenSegmentTest, SealsCannotBeChanged) {
  EXPECT_TRUE(FailsWith(EPERM, fcntl(peer(), F_ADD_SEALS, F_SEAL_WRITE)));
}

TEST_F(OwnerWrittenSegmentTest, PrivateMappingIsACopy) {
  void* data =
      mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE, peer(), 0);
  ASSERT_NE(data, MAP_FAILED);
  std::memset(data, 'B', kSize);
  munmap(data, kSize);
}

TEST_F(OwnerWrittenSegmentTest, SoItIsInAnotherProcess) {
  EXPECT_TRUE(PassesInChild([&] {
    TENON_ASSERT_OK_AND_ASSIGN(
        const Segment received,
        Segment::Adopt(UniqueFd(dup(peer())), kOwnerWritten));
    EXPECT_TRUE(FailsWith(EPERM, ftruncate(received.fd(), 0)));
    EXPECT_TRUE(FailsWith(EPERM, pwrite(received.fd(), "B", 1, 0)));
    EXPECT_TRUE(FailsWith(EPERM, TryMap(received.fd(), PROT_WRITE)));
    EXPECT_THAT(WritableMapping::Map(received.fd(), kSize, "x"),
                StatusIs(kPermissionDenied));
  }));
}

TEST_F(OwnerWrittenSegmentTest, OwnersMappingGoesOnWriting) {
  std::memset(owned_->mapping.data(), 'C', kSize);
  TENON_ASSERT_OK_AND_ASSIGN(const ReadOnlyMapping reader,
                             owned_->segment.MapReadOnly());
  EXPECT_EQ(reader.data()[kSize - 1], std::byte{'C'});
  std::memset(owned_->mapping.data(), 'A', kSize);
}

TEST_F(OwnerWrittenSegmentTest, PassedOffAsSharedWritableItStaysReadOnly) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const Segment received,
      Segment::Adopt(UniqueFd(dup(peer())), kSharedWritable));
  EXPECT_THAT(received.MapWritable(), StatusIs(kPermissionDenied));
  EXPECT_THAT(received.MapReadOnly(), IsOk());
}

TEST(SharedWritableSegmentTest, AllMayWriteAndNobodyMayChangeTheSize) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const Segment segment,
      Segment::CreateSharedWritable(
          kSize, {.strategy = SharingStrategy::kFileDescriptor}));
  const int fd = segment.fd();
  EXPECT_TRUE(FailsWith(EPERM, ftruncate(fd, kPage)));
  EXPECT_TRUE(FailsWith(EPERM, ftruncate(fd, kSize + kPage)));
  EXPECT_TRUE(FailsWith(EPERM, fallocate(fd, 0, kSize, kPage)));
  EXPECT_TRUE(FailsWith(EPERM, fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE)));
  EXPECT_FALSE(Reopen(fd, O_RDWR | O_TRUNC).valid());
  EXPECT_EQ(pwrite(fd, "B", 1, 0), 1);
  EXPECT_EQ(TryMap(fd, PROT_READ | PROT_WRITE), 0);
}

}  // namespace
}  // namespace tenon

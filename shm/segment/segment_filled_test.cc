// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Segment::CreateFilled(), for each strategy and kind.

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/segment_options.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr size_t kMiB = size_t{1} << 20;

std::vector<std::byte> Counting(size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = std::byte(i % 251);
  return bytes;
}

class SegmentFilledTest
    : public testing::TestWithParam<std::tuple<SharingStrategy, SegmentKind>> {
 protected:
  void TearDown() override {
    EXPECT_THAT(ListShmNames(prefix_), IsOkAndHolds(IsEmpty()));
    EXPECT_EQ(CountOpenFds(), fds_before_);
  }

  SharingStrategy strategy() const { return std::get<0>(GetParam()); }
  SegmentKind kind() const { return std::get<1>(GetParam()); }
  bool has_name() const { return strategy() == SharingStrategy::kFileSystem; }

  absl::StatusOr<Segment> Create(std::span<const std::byte> contents) {
    return Segment::CreateFilled(
        contents, kind(), {.strategy = strategy(), .name_prefix = prefix_});
  }

  absl::StatusOr<Segment> Receive(const Segment& segment) {
    if (has_name()) return Segment::Open(segment.name(), kind());
    return Segment::Adopt(UniqueFd(dup(segment.fd())), kind());
  }

  const std::string prefix_ = UniqueTestPrefix();
  const size_t fds_before_ = CountOpenFds();
};

TEST_P(SegmentFilledTest, HasTheContentsHereAndThere) {
  for (size_t size : {size_t{1}, size_t{4095}, size_t{4096}, size_t{4097},
                      size_t{5000001}, 17 * kMiB}) {
    const std::vector<std::byte> contents = Counting(size);
    TENON_ASSERT_OK_AND_ASSIGN(const Segment segment, Create(contents));
    EXPECT_EQ(segment.size_bytes(), size);
    EXPECT_EQ(segment.kind(), kind());
    EXPECT_EQ(segment.strategy(), strategy());
    TENON_ASSERT_OK_AND_ASSIGN(const Segment received, Receive(segment));
    TENON_ASSERT_OK_AND_ASSIGN(const ReadOnlyMapping mapping,
                               received.MapReadOnly());
    ASSERT_EQ(mapping.size_bytes(), size);
    const auto bytes = mapping.bytes();
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), contents.begin()));
  }
}

TEST_P(SegmentFilledTest, TakesACopy) {
  std::vector<std::byte> contents = Counting(100);
  TENON_ASSERT_OK_AND_ASSIGN(const Segment segment, Create(contents));
  contents[0] = std::byte{99};
  TENON_ASSERT_OK_AND_ASSIGN(const ReadOnlyMapping mapping,
                             segment.MapReadOnly());
  EXPECT_EQ(mapping.data()[0], std::byte{0});
}

TEST_P(SegmentFilledTest, MayBeWrittenAsItsKindSays) {
  TENON_ASSERT_OK_AND_ASSIGN(const Segment segment, Create(Counting(5000)));
  if (kind() == SegmentKind::kOwnerWritten) {
    EXPECT_THAT(segment.MapWritable(),
                StatusIs(absl::StatusCode::kFailedPrecondition));
    if (has_name()) return;  // Cannot be sealed.
    EXPECT_EQ(pwrite(segment.fd(), "B", 1, 0), -1);
    EXPECT_EQ(errno, EPERM);
    EXPECT_THAT(WritableMapping::Map(segment.fd(), 5000, "x"),
                StatusIs(absl::StatusCode::kPermissionDenied));
    return;
  }
  TENON_ASSERT_OK_AND_ASSIGN(const WritableMapping writer,
                             segment.MapWritable());
  writer.data()[4999] = std::byte{5};
  TENON_ASSERT_OK_AND_ASSIGN(const ReadOnlyMapping reader,
                             segment.MapReadOnly());
  EXPECT_EQ(reader.data()[4999], std::byte{5});
}

TEST_P(SegmentFilledTest, MayBeWrittenLaterByItsOwnerAlone) {
  if (kind() != SegmentKind::kOwnerWritten) GTEST_SKIP() << "of one kind only";
  const std::vector<std::byte> contents = Counting(2 * kMiB + 1);
  for (const bool prefault : {false, true}) {
    TENON_ASSERT_OK_AND_ASSIGN(
        const Segment::OwnerWritten owned,
        Segment::CreateOwnerWritten(contents, {.strategy = strategy(),
                                               .name_prefix = prefix_,
                                               .prefault = prefault}));
    TENON_ASSERT_OK_AND_ASSIGN(const Segment received, Receive(owned.segment));
    TENON_ASSERT_OK_AND_ASSIGN(const ReadOnlyMapping mapping,
                               received.MapReadOnly());
    ASSERT_EQ(mapping.size_bytes(), contents.size());
    EXPECT_TRUE(std::equal(contents.begin(), contents.end(), mapping.data()));
    owned.mapping.data()[4096] = std::byte{252};
    EXPECT_EQ(mapping.data()[4096], std::byte{252});
    EXPECT_THAT(received.MapWritable(),
                StatusIs(absl::StatusCode::kFailedPrecondition));
    if (has_name()) continue;  // Cannot be sealed.
    EXPECT_EQ(pwrite(received.fd(), "B", 1, 0), -1);
    EXPECT_EQ(errno, EPERM);
    EXPECT_EQ(ftruncate(received.fd(), 1), -1);
  }
  EXPECT_THAT(Segment::CreateOwnerWritten(std::span<const std::byte>()),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

// No later touch can run out of memory.
TEST_P(SegmentFilledTest, ItsPagesAreThere) {
  TENON_ASSERT_OK_AND_ASSIGN(const Segment segment, Create(Counting(kMiB + 1)));
  struct stat file;
  ASSERT_EQ(fstat(segment.fd(), &file), 0);
  EXPECT_EQ(file.st_size, static_cast<off_t>(kMiB + 1));
  EXPECT_GE(file.st_blocks * 512, file.st_size);
}

TEST_P(SegmentFilledTest, CannotChangeItsSize) {
  if (has_name()) GTEST_SKIP() << "a named one cannot be sealed";
  TENON_ASSERT_OK_AND_ASSIGN(const Segment segment, Create(Counting(5000)));
  EXPECT_EQ(ftruncate(segment.fd(), 1), -1);
  EXPECT_EQ(ftruncate(segment.fd(), 1 << 20), -1);
  EXPECT_EQ(fcntl(segment.fd(), F_ADD_SEALS, F_SEAL_WRITE), -1);
}

TEST_P(SegmentFilledTest, NothingIsNotEnough) {
  EXPECT_THAT(Create({}), StatusIs(absl::StatusCode::kInvalidArgument,
                                   HasSubstr("0 bytes")));
}

TEST_P(SegmentFilledTest, ContentsThatCannotBeReadAreAnError) {
  void* data =
      mmap(nullptr, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(data, MAP_FAILED);
  EXPECT_THAT(
      Create({static_cast<const std::byte*>(data), 8192}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("[EFAULT]")));
  munmap(data, 8192);
}

TEST_P(SegmentFilledTest, ContentsMayBeAnotherSegment) {
  TENON_ASSERT_OK_AND_ASSIGN(const Segment first, Create(Counting(9000)));
  TENON_ASSERT_OK_AND_ASSIGN(const ReadOnlyMapping from, first.MapReadOnly());
  TENON_ASSERT_OK_AND_ASSIGN(const Segment second, Create(from.bytes()));
  TENON_ASSERT_OK_AND_ASSIGN(const ReadOnlyMapping to, second.MapReadOnly());
  EXPECT_TRUE(
      std::equal(to.bytes().begin(), to.bytes().end(), from.bytes().begin()));
}

TEST_P(SegmentFilledTest, LimitOfFileSizesIsAnErrorAndNoSignal) {
  EXPECT_TRUE(PassesInChild([&] {
    const rlimit limit = {kMiB, kMiB};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    EXPECT_THAT(Create(Counting(2 * kMiB)),
                StatusIs(absl::StatusCode::kResourceExhausted,
                         HasSubstr("RLIMIT_FSIZE")));
    EXPECT_THAT(Create(Counting(kMiB)), IsOk());
    EXPECT_THAT(ListShmNames(prefix_), IsOkAndHolds(IsEmpty()));
  }));
}

TEST_P(SegmentFilledTest, NoMoreDescriptorsIsAnError) {
  EXPECT_TRUE(PassesInChild([&] {
    const std::vector<std::byte> contents = Counting(100);
    const int next = dup(0);
    ASSERT_EQ(close(next), 0);
    rlimit before;
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    rlimit limit = before;
    limit.rlim_cur = static_cast<rlim_t>(next);
    // UBSan inspects objects through a pipe, so no method of the test is called
    // without descriptors.
    const SegmentKind of_kind = kind();
    const SegmentOptions options = {.strategy = strategy(),
                                    .name_prefix = prefix_};
    const int limited = setrlimit(RLIMIT_NOFILE, &limit);
    const absl::Status status =
        Segment::CreateFilled(contents, of_kind, options).status();
    const int restored = setrlimit(RLIMIT_NOFILE, &before);
    ASSERT_EQ(limited, 0);
    ASSERT_EQ(restored, 0);
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                                 HasSubstr("ulimit -n")));
  }));
}

INSTANTIATE_TEST_SUITE_P(
    Ways, SegmentFilledTest,
    testing::Combine(testing::ValuesIn(AllSharingStrategies()),
                     testing::Values(SegmentKind::kOwnerWritten,
                                     SegmentKind::kSharedWritable)),
    [](const auto& param) {
      return absl::StrCat(
          std::get<0>(param.param) == SharingStrategy::kFileSystem
              ? "FileSystem"
              : "FileDescriptor",
          std::get<1>(param.param) == SegmentKind::kOwnerWritten
              ? "OwnerWritten"
              : "SharedWritable");
    });

}  // namespace
}  // namespace tenon

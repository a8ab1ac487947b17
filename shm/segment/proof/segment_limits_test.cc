// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A process at a limit gets an error that names it, leaves nothing behind, and
// gets a segment at the next attempt once there is room.

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm/testing/mount_namespace_testing.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using absl::StatusCode::kResourceExhausted;
using enum SharingStrategy;
constexpr size_t kMiB = size_t{1} << 20;

void SetLimit(decltype(RLIMIT_NOFILE) resource, rlim_t soft) {
  rlimit limit;
  ASSERT_EQ(getrlimit(resource, &limit), 0);
  limit.rlim_cur = soft;
  ASSERT_EQ(setrlimit(resource, &limit), 0);
}

// Calls `call` while this process may open no more descriptors. Expectations
// follow later: UBSan inspects matchers through a pipe.
template <typename Call>
void WithoutDescriptors(Call call) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = dup(0);
  ASSERT_EQ(close(next), 0);
  SetLimit(RLIMIT_NOFILE, static_cast<rlim_t>(next));
  call();
  SetLimit(RLIMIT_NOFILE, before.rlim_cur);
}

rlim_t AddressSpaceInUse() {
  std::ifstream statm("/proc/self/statm");
  rlim_t pages = 0;
  EXPECT_TRUE(statm >> pages);
  return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

absl::Status Create(size_t size_bytes, SegmentKind kind,
                    const SegmentOptions& options) {
  if (kind == SegmentKind::kOwnerWritten) {
    return Segment::CreateOwnerWritten(size_bytes, options).status();
  }
  return Segment::CreateSharedWritable(size_bytes, options).status();
}

class SegmentLimitsTest : public testing::Test {
 protected:
  // Runs `body` for each strategy and kind, in a separate child.
  template <typename Body>
  void InEachWay(Body body) {
    for (SharingStrategy strategy : AllSharingStrategies()) {
      for (SegmentKind kind :
           {SegmentKind::kOwnerWritten, SegmentKind::kSharedWritable}) {
        SCOPED_TRACE(absl::StrCat(SharingStrategyName(strategy),
                                  kind == SegmentKind::kOwnerWritten
                                      ? ", owner-written"
                                      : ", shared-writable"));
        EXPECT_TRUE(PassesInChild([&] {
          const size_t fds = CountOpenFds();
          body(kind, Options(strategy));
          EXPECT_EQ(CountOpenFds(), fds);
          EXPECT_THAT(ListShmNames(prefix_), IsOkAndHolds(IsEmpty()));
        }));
      }
    }
  }

  SegmentOptions Options(SharingStrategy strategy) const {
    return {.strategy = strategy, .name_prefix = prefix_};
  }

  const std::string prefix_ = UniqueTestPrefix();
};

TEST_F(SegmentLimitsTest, DescriptorsRunOut) {
  InEachWay([](SegmentKind kind, const SegmentOptions& options) {
    absl::Status status;
    WithoutDescriptors([&] { status = Create(4096, kind, options); });
    EXPECT_THAT(status,
                StatusIs(kResourceExhausted, AllOf(HasSubstr("[EMFILE]"),
                                                   HasSubstr("RLIMIT_NOFILE"),
                                                   HasSubstr("ulimit -n"))));
    EXPECT_THAT(Create(4096, kind, options), IsOk());
  });
}

TEST_F(SegmentLimitsTest, DescriptorsRunOutWhenOpening) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const Segment segment,
      Segment::CreateSharedWritable(4096, Options(kFileSystem)));
  EXPECT_TRUE(PassesInChild([&] {
    absl::Status status;
    WithoutDescriptors([&] {
      status =
          Segment::Open(segment.name(), SegmentKind::kSharedWritable).status();
    });
    EXPECT_THAT(status, StatusIs(kResourceExhausted, HasSubstr("ulimit -n")));
  }));
}

TEST_F(SegmentLimitsTest, FilesMayNotBeSoLarge) {
  InEachWay([](SegmentKind kind, const SegmentOptions& options) {
    SetLimit(RLIMIT_FSIZE, kMiB);
    EXPECT_THAT(Create(2 * kMiB, kind, options),
                StatusIs(kResourceExhausted,
                         HasSubstr("1048576 bytes (1.0 MiB), RLIMIT_FSIZE")));
    EXPECT_THAT(Create(kMiB, kind, options), IsOk());
  });
}

TEST_F(SegmentLimitsTest, AddressSpaceRunsOutAfterTheFileIsMade) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer needs the address space itself";
#endif
  InEachWay([](SegmentKind kind, const SegmentOptions& options) {
    if (kind != SegmentKind::kOwnerWritten) return;  // Maps nothing.
    SetLimit(RLIMIT_AS, AddressSpaceInUse() + 16 * kMiB);
    EXPECT_THAT(Create(64 * kMiB, kind, options),
                StatusIs(kResourceExhausted,
                         AllOf(HasSubstr("mmap"), HasSubstr("RLIMIT_AS"))));
  });
}

TEST_F(SegmentLimitsTest, MemoryRunsOut) {
  InEachWay([](SegmentKind kind, const SegmentOptions& options) {
    EXPECT_THAT(
        Create(size_t{1} << 45, kind, options),
        StatusIs(kResourceExhausted, HasSubstr("35184372088832 bytes")));
    EXPECT_THAT(Create(kMiB, kind, options), IsOk());
  });
}

// With another /dev/shm than the machine's.
class SmallDevShmTest : public SegmentLimitsTest {
 protected:
  void SetUp() override {
    if (!CanEnterOwnMountNamespace()) GTEST_SKIP() << kNoMountNamespace;
  }
};

TEST_F(SmallDevShmTest, IsNamedWhenItIsFull) {
  EXPECT_TRUE(PassesInChild([&] {
    ASSERT_TRUE(EnterOwnMountNamespace());
    ASSERT_TRUE(MountTmpfs("/dev/shm", "size=64m"));
    // A size over its capacity allocates nothing.
    for (size_t size : {100 * kMiB, 65 * kMiB}) {
      EXPECT_THAT(
          Segment::CreateSharedWritable(size, Options(kFileSystem)),
          StatusIs(kResourceExhausted,
                   AllOf(HasSubstr("/dev/shm has 67108864 bytes (64.0 MiB) of "
                                   "67108864 bytes (64.0 MiB) and"),
                         HasSubstr("--shm-size"),
                         HasSubstr("file_descriptor strategy"))));
    }
    std::vector<Segment> segments;
    absl::Status full;
    while (full.ok() && segments.size() < 100) {
      absl::StatusOr<Segment> segment =
          Segment::CreateSharedWritable(10 * kMiB, Options(kFileSystem));
      full = segment.status();
      if (segment.ok()) segments.push_back(*std::move(segment));
    }
    EXPECT_EQ(segments.size(), 6u);
    EXPECT_THAT(full,
                StatusIs(kResourceExhausted,
                         AllOf(HasSubstr("[ENOSPC]"),
                               HasSubstr("of 67108864 bytes (64.0 MiB)"))));
    EXPECT_EQ(ListShmNames(prefix_)->size(), 6u);
    // The failed one has released its memory.
    EXPECT_THAT(Segment::CreateSharedWritable(3 * kMiB, Options(kFileSystem)),
                IsOk());
    segments.clear();
    EXPECT_THAT(ListShmNames(prefix_), IsOkAndHolds(IsEmpty()));
    EXPECT_THAT(Segment::CreateOwnerWritten(60 * kMiB, Options(kFileSystem)),
                IsOk());
  }));
}

// Too much contents is an error, where a copy into a mapping would be fatal.
TEST_F(SmallDevShmTest, IsNamedWhenContentsDoNotFit) {
  EXPECT_TRUE(PassesInChild([&] {
    ASSERT_TRUE(EnterOwnMountNamespace());
    ASSERT_TRUE(MountTmpfs("/dev/shm", "size=4m"));
    for (SegmentKind kind :
         {SegmentKind::kOwnerWritten, SegmentKind::kSharedWritable}) {
      for (size_t size : {5 * kMiB, 32 * kMiB}) {
        const std::vector<std::byte> contents(size, std::byte{1});
        EXPECT_THAT(Segment::CreateFilled(contents, kind, Options(kFileSystem)),
                    StatusIs(kResourceExhausted,
                             HasSubstr("of 4194304 bytes (4.0 MiB) and")));
      }
      EXPECT_THAT(ListShmNames(prefix_), IsOkAndHolds(IsEmpty()));
      const std::vector<std::byte> contents(3 * kMiB, std::byte{1});
      EXPECT_THAT(Segment::CreateFilled(contents, kind, Options(kFileSystem)),
                  IsOk());
    }
  }));
}

TEST_F(SmallDevShmTest, DoesNotBoundFileDescriptors) {
  EXPECT_TRUE(PassesInChild([&] {
    ASSERT_TRUE(EnterOwnMountNamespace());
    ASSERT_TRUE(MountTmpfs("/dev/shm", "size=1m"));
    EXPECT_THAT(
        Segment::CreateOwnerWritten(100 * kMiB, Options(kFileDescriptor)),
        IsOk());
  }));
}

TEST_F(SmallDevShmTest, IsNamedWhenItHasNoMoreInodes) {
  EXPECT_TRUE(PassesInChild([&] {
    ASSERT_TRUE(EnterOwnMountNamespace());
    ASSERT_TRUE(MountTmpfs("/dev/shm", "size=1m,nr_inodes=2"));
    TENON_ASSERT_OK_AND_ASSIGN(
        const Segment segment,
        Segment::CreateSharedWritable(1, Options(kFileSystem)));
    EXPECT_THAT(Segment::CreateSharedWritable(1, Options(kFileSystem)),
                StatusIs(kResourceExhausted, HasSubstr("0 of 2 inodes free")));
  }));
}

TEST_F(SmallDevShmTest, IsNamedWhenItCannotBeWrittenTo) {
  EXPECT_TRUE(PassesInChild([&] {
    ASSERT_TRUE(EnterOwnMountNamespace());
    ASSERT_TRUE(MountTmpfs("/dev/shm", "size=1m", MS_RDONLY));
    EXPECT_THAT(
        Segment::CreateSharedWritable(1, Options(kFileSystem)),
        StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("/dev/shm")));
  }));
}

TEST_F(SmallDevShmTest, OnlyOneStrategyNeedsItToExist) {
  EXPECT_TRUE(PassesInChild([&] {
    ASSERT_TRUE(EnterOwnMountNamespace());
    ASSERT_TRUE(MountTmpfs("/dev", "size=1m"));
    EXPECT_THAT(Segment::CreateSharedWritable(1, Options(kFileSystem)),
                StatusIs(absl::StatusCode::kNotFound, HasSubstr("/dev/shm")));
    EXPECT_THAT(ListShmNames(prefix_), IsOkAndHolds(IsEmpty()));
    EXPECT_THAT(Segment::CreateSharedWritable(1, Options(kFileDescriptor)),
                IsOk());
  }));
}

TEST_F(SmallDevShmTest, MemoryIsThereWhenItIsWrittenTo) {
  EXPECT_TRUE(PassesInChild([&] {
    ASSERT_TRUE(EnterOwnMountNamespace());
    ASSERT_TRUE(MountTmpfs("/dev/shm", "size=1m"));
    TENON_ASSERT_OK_AND_ASSIGN(
        const auto made,
        Segment::CreateOwnerWritten(kMiB / 2, Options(kFileSystem)));
    // Another file takes all the rest.
    const UniqueFd rest(open("/dev/shm/rest", O_CREAT | O_RDWR, 0600));
    const std::vector<char> page(4096, 'x');
    while (write(rest.get(), page.data(), page.size()) > 0) {
    }
    EXPECT_EQ(errno, ENOSPC);
    for (std::byte& byte : made.mapping.bytes()) byte = std::byte{1};
  }));
}

}  // namespace
}  // namespace tenon

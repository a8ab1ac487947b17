// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Further attacks of a hostile process: segments of absurd sizes, holes, and
// descriptors that are not files. (The rest: segment_trust_test.cc.)

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr SegmentKind kBothKinds[] = {SegmentKind::kOwnerWritten,
                                      SegmentKind::kSharedWritable};
constexpr size_t kPage = 4096;

TEST(HostileSegmentTest, IsLargerThanAllAddresses) {
  const size_t size = std::numeric_limits<off_t>::max();
  const UniqueFd fd(memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(fd.get(), static_cast<off_t>(size)), 0);
  ASSERT_EQ(
      fcntl(fd.get(), F_ADD_SEALS,
            F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL),
      0);
  const size_t fds = CountOpenFds();
  for (SegmentKind kind : kBothKinds) {
    TENON_ASSERT_OK_AND_ASSIGN(const Segment segment,
                               Segment::Adopt(UniqueFd(dup(fd.get())), kind));
    EXPECT_EQ(segment.size_bytes(), size);
    EXPECT_THAT(segment.MapReadOnly(),
                StatusIs(absl::StatusCode::kResourceExhausted,
                         AllOf(HasSubstr("mmap("),
                               HasSubstr(absl::StrCat(size, " bytes")))));
  }
  EXPECT_TRUE(Becomes([&] { return CountOpenFds() <= fds; }));
}

// Holes can be punched into a shared-writable segment. They read as zeros, and
// can be written again: no signal.
TEST(HostileSegmentTest, HasHolesPunchedIntoIt) {
  for (SharingStrategy strategy : AllSharingStrategies()) {
    TENON_ASSERT_OK_AND_ASSIGN(
        const Segment segment,
        Segment::CreateSharedWritable(
            2 * kPage,
            {.strategy = strategy, .name_prefix = UniqueTestPrefix()}));
    TENON_ASSERT_OK_AND_ASSIGN(const WritableMapping mapping,
                               segment.MapWritable());
    std::memset(mapping.data(), 'A', 2 * kPage);
    EXPECT_TRUE(PassesInChild([&] {
      ASSERT_EQ(fallocate(segment.fd(),
                          FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kPage),
                0);
    }));
    EXPECT_EQ(mapping.data()[0], std::byte{0});
    EXPECT_EQ(mapping.data()[kPage], std::byte{'A'});
    TENON_ASSERT_OK_AND_ASSIGN(const ReadOnlyMapping reader,
                               segment.MapReadOnly());
    ASSERT_EQ(madvise(mapping.data() + kPage, kPage, MADV_REMOVE), 0);
    EXPECT_EQ(reader.data()[2 * kPage - 1], std::byte{0});
    std::memset(mapping.data(), 'B', 2 * kPage);
    EXPECT_EQ(reader.data()[2 * kPage - 1], std::byte{'B'});
  }
}

TEST(HostileSegmentTest, IsAnythingElseThatHasADescriptor) {
  sigset_t none;
  sigemptyset(&none);
  TENON_ASSERT_OK_AND_ASSIGN(const PidFd self, PidFd::Open(getpid()));
  std::vector<std::pair<std::string, UniqueFd>> others;
  others.emplace_back("eventfd", eventfd(0, EFD_CLOEXEC));
  others.emplace_back("epoll", epoll_create1(EPOLL_CLOEXEC));
  others.emplace_back("timerfd", timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
  others.emplace_back("signalfd", signalfd(-1, &none, SFD_CLOEXEC));
  others.emplace_back("inotify", inotify_init1(IN_CLOEXEC));
  others.emplace_back("pidfd", dup(self.fd()));
  others.emplace_back("memory", open("/proc/self/mem", O_RDWR | O_CLOEXEC));
  others.emplace_back("program", open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  others.emplace_back("random", open("/dev/urandom", O_RDONLY | O_CLOEXEC));
  others.emplace_back("sysfs", open("/sys/kernel/mm", O_RDONLY | O_CLOEXEC));
  const size_t fds = CountOpenFds();
  for (const auto& [what, fd] : others) {
    ASSERT_TRUE(fd.valid()) << what;
    for (SegmentKind kind : kBothKinds) {
      EXPECT_THAT(Segment::Adopt(UniqueFd(dup(fd.get())), kind),
                  StatusIs(absl::StatusCode::kInvalidArgument,
                           HasSubstr("received file descriptor ")))
          << what;
    }
  }
  EXPECT_TRUE(Becomes([&] { return CountOpenFds() <= fds; }));
}

}  // namespace
}  // namespace tenon

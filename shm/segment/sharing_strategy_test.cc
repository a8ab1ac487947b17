// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/segment/sharing_strategy.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <cstddef>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/testing/mount_namespace_testing.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/seccomp_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::HasSubstr;

constexpr auto kFileDescriptor = SharingStrategy::kFileDescriptor;
constexpr auto kFileSystem = SharingStrategy::kFileSystem;

TEST(SharingStrategyTest, ListsAll) {
  const auto all = AllSharingStrategies();
  EXPECT_THAT(std::vector<SharingStrategy>(all.begin(), all.end()),
              ElementsAre(kFileDescriptor, kFileSystem));
}

TEST(SupportedSharingStrategiesTest, WithoutMemfds) {
  for (const int error : {EPERM, ENOSYS}) {
    EXPECT_TRUE(PassesInChild([&] {
      ASSERT_TRUE(FailSystemCall({.number = SYS_memfd_create, .error = error}));
      EXPECT_THAT(SupportedSharingStrategies(), ElementsAre(kFileSystem));
    }));
  }
}

TEST(SupportedSharingStrategiesTest, WithoutAUsableDevShm) {
  if (!CanEnterOwnMountNamespace()) GTEST_SKIP() << kNoMountNamespace;
  EXPECT_TRUE(PassesInChild([] {
    ASSERT_TRUE(EnterOwnMountNamespace());
    ASSERT_TRUE(MountTmpfs("/dev/shm", "size=1m"));
    EXPECT_THAT(SupportedSharingStrategies(),
                ElementsAre(kFileDescriptor, kFileSystem));
    ASSERT_TRUE(MountTmpfs("/dev/shm", "size=1m", MS_RDONLY));
    EXPECT_THAT(SupportedSharingStrategies(), ElementsAre(kFileDescriptor));
    ASSERT_TRUE(MountTmpfs("/dev", "size=1m"));
    EXPECT_THAT(SupportedSharingStrategies(), ElementsAre(kFileDescriptor));
    ASSERT_TRUE(FailSystemCall({.number = SYS_memfd_create, .error = EPERM}));
    EXPECT_THAT(SupportedSharingStrategies(), testing::IsEmpty());
  }));
}

TEST(SupportedSharingStrategiesTest, WithoutLocksOfOpenFileDescriptions) {
  EXPECT_TRUE(PassesInChild([] {
    ASSERT_TRUE(FailSystemCall({.number = SYS_fcntl,
                                .argument = 1,
                                .value = F_OFD_GETLK,
                                .error = EINVAL}));
    ASSERT_TRUE(FailSystemCall({.number = SYS_fcntl,
                                .argument = 1,
                                .value = F_OFD_SETLK,
                                .error = EINVAL}));
    EXPECT_THAT(SupportedSharingStrategies(), ElementsAre(kFileDescriptor));
    EXPECT_THAT(Segment::CreateSharedWritable(1, {.strategy = kFileSystem}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("F_OFD_SETLK"),
                               HasSubstr("use the file_descriptor strategy"))));
  }));
}

// Filters of old container runtimes do not know faccessat2().
TEST(SupportedSharingStrategiesTest, WhereACallIsForbiddenThatOnlyAsks) {
  const auto before = SupportedSharingStrategies();
  for (const int error : {EPERM, ENOSYS}) {
    EXPECT_TRUE(PassesInChild([&] {
      ASSERT_TRUE(FailSystemCall({.number = SYS_faccessat2, .error = error}));
      EXPECT_EQ(SupportedSharingStrategies(), before);
    }));
  }
}

// Creating a segment fails, and names the limit.
TEST(SupportedSharingStrategiesTest, AnExhaustedLimitIsNoLack) {
  EXPECT_TRUE(PassesInChild([] {
    const auto before = SupportedSharingStrategies();
    rlimit limit = {};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const rlimit none = {0, limit.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    const auto at_limit = SupportedSharingStrategies();
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_EQ(at_limit, before);
  }));
}

TEST(SupportedSharingStrategiesTest, LeavesNothingBehind) {
  const size_t fds = CountOpenFds();
  EXPECT_THAT(SupportedSharingStrategies(), testing::Contains(kFileDescriptor));
  EXPECT_EQ(CountOpenFds(), fds);
}

TEST(SharingStrategyTest, NamesAreTheOnesUsersKnow) {
  EXPECT_EQ(SharingStrategyName(kFileDescriptor), "file_descriptor");
  EXPECT_EQ(SharingStrategyName(kFileSystem), "file_system");
}

TEST(SharingStrategyTest, EveryNameParsesToItsStrategy) {
  std::set<std::string> names;
  for (SharingStrategy strategy : AllSharingStrategies()) {
    const std::string name(SharingStrategyName(strategy));
    EXPECT_THAT(ParseSharingStrategy(name), IsOkAndHolds(strategy));
    EXPECT_TRUE(names.insert(name).second) << name;
  }
}

TEST(SharingStrategyTest, OtherNamesAreRefusedWithTheListOfThoseThereAre) {
  for (const char* name : {"", "file", "FILE_SYSTEM", "file_system "}) {
    EXPECT_THAT(ParseSharingStrategy(name),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("file_descriptor, file_system")))
        << name;
  }
  EXPECT_THAT(
      ParseSharingStrategy("a\nb"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'a\\nb'")));
}

TEST(SharingStrategyTest, StartsAsFileDescriptorAndCanBeSet) {
  EXPECT_EQ(GetSharingStrategy(), kFileDescriptor);
  SetSharingStrategy(kFileSystem);
  EXPECT_EQ(GetSharingStrategy(), kFileSystem);
  SetSharingStrategy(kFileDescriptor);
  EXPECT_EQ(GetSharingStrategy(), kFileDescriptor);
}

TEST(SharingStrategyTest, ThreadsMaySetAndGetAtOnce) {
  std::thread writer([] {
    for (int i = 0; i < 10000; ++i) {
      SetSharingStrategy(i % 2 == 0 ? kFileSystem : kFileDescriptor);
    }
  });
  for (int i = 0; i < 10000; ++i) {
    EXPECT_THAT(GetSharingStrategy(),
                AnyOf(Eq(kFileDescriptor), Eq(kFileSystem)));
  }
  writer.join();
  SetSharingStrategy(kFileDescriptor);
}

}  // namespace
}  // namespace tenon

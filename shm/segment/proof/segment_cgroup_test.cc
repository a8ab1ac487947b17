// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A memory cgroup that is too small is an error, where filling the segment
// would make the kernel kill the process.

#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/memory_cgroup_testing.h"
#include "tenon/shm/testing/mount_namespace_testing.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kLimit = 64 * kMiB;

size_t FreeSwap() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  size_t kilobytes = 0;
  while (file >> word && word != "SwapFree:") {
  }
  file >> kilobytes;
  return kilobytes * 1024;
}

// With a separate cgroup inside the process's own one, until the test has
// ended.
class SegmentCgroupTest : public testing::TestWithParam<SharingStrategy> {
 protected:
  void SetUp() override {
    absl::StatusOr<MemoryCgroup> cgroup = MemoryCgroup::Create(prefix_, kLimit);
    if (!cgroup.ok()) GTEST_SKIP() << cgroup.status();
    cgroup_.emplace(*std::move(cgroup));
  }
  void TearDown() override {
    if (!cgroup_) return;
    EXPECT_TRUE(cgroup_->Remove()) << cgroup_->path();
  }

  // Creating a named segment without memory reclaims dead names: where mount
  // namespaces are permitted, not those of other tests.
  bool Enter() const {
    if (unshare(CLONE_NEWNS) == 0 &&
        (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
         !MountTmpfs("/dev/shm", "mode=1777"))) {
      return false;
    }
    return cgroup_->Enter();
  }

  absl::Status Create(size_t size_bytes) const {
    return Segment::CreateSharedWritable(
               size_bytes, {.strategy = GetParam(), .name_prefix = prefix_})
        .status();
  }

  const std::string prefix_ = UniqueTestPrefix();
  ShmNamesGuard names_{prefix_};  // Removes the names of killed processes.
  std::optional<MemoryCgroup> cgroup_;
};

TEST_P(SegmentCgroupTest, LimitIsAnErrorThatNamesItAndNoKill) {
  const size_t size = kLimit + 36 * kMiB + FreeSwap();
  EXPECT_TRUE(PassesInChild([&] {
    ASSERT_TRUE(Enter());
    const size_t fds = CountOpenFds();
    EXPECT_THAT(
        Create(size),
        StatusIs(absl::StatusCode::kResourceExhausted,
                 AllOf(HasSubstr("memory for segment '"),
                       HasSubstr(absl::StrCat(size, " bytes (")),
                       HasSubstr(absl::StrCat(
                           cgroup_->limit_name(), " of the cgroup ",
                           cgroup_->path(), ": 67108864 bytes")),
                       HasSubstr(absl::StrCat("echo <more> > ", cgroup_->path(),
                                              "/", cgroup_->limit_name())))));
    EXPECT_EQ(CountOpenFds(), fds);
    EXPECT_THAT(ListShmNames(prefix_), IsOkAndHolds(IsEmpty()));
    // The next one, which fits, works; so does the same one after the limit has
    // been raised as the error recommends.
    EXPECT_THAT(Create(32 * kMiB), IsOk());
    ASSERT_TRUE(cgroup_->SetLimit(size + kLimit));
    EXPECT_THAT(Create(size), IsOk());
  }));
}

// Each of them alone would be too small for a check of the free memory.
TEST_P(SegmentCgroupTest, ManySmallOnesAreAnErrorAndNoKillEither) {
  const size_t most = (kLimit + FreeSwap()) / (8 * kMiB) + 8;
  EXPECT_TRUE(PassesInChild([&] {
    ASSERT_TRUE(Enter());
    std::vector<Segment> segments;
    absl::Status status;
    for (size_t i = 0; i < most && status.ok(); ++i) {
      auto segment = Segment::CreateSharedWritable(
          8 * kMiB, {.strategy = GetParam(), .name_prefix = prefix_});
      status = segment.status();
      if (segment.ok()) segments.push_back(*std::move(segment));
    }
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                                 HasSubstr(cgroup_->limit_name())));
    segments.clear();
    EXPECT_THAT(Create(8 * kMiB), IsOk());
  }));
}

TEST_P(SegmentCgroupTest, MemoryOfTheDeadIsReclaimed) {
  if (GetParam() != SharingStrategy::kFileSystem) {
    GTEST_SKIP() << "the kernel frees it";
  }
  EXPECT_TRUE(PassesInChild([&] {
    ASSERT_TRUE(Enter());
    EXPECT_TRUE(PassesInChild([&] {
      TENON_ASSERT_OK_AND_ASSIGN(
          const Segment dies,
          Segment::CreateSharedWritable(
              40 * kMiB, {.strategy = GetParam(), .name_prefix = prefix_}));
      _exit(0);  // Without its destructor.
    }));
    EXPECT_THAT(ListShmNames(prefix_), IsOkAndHolds(testing::SizeIs(1)));
    EXPECT_THAT(Create(48 * kMiB + FreeSwap()), IsOk());
    EXPECT_THAT(ListShmNames(prefix_), IsOkAndHolds(IsEmpty()));
  }));
}

INSTANTIATE_TEST_SUITE_P(Strategies, SegmentCgroupTest,
                         testing::ValuesIn(AllSharingStrategies()),
                         [](const auto& test) {
                           return std::string(SharingStrategyName(test.param));
                         });

}  // namespace
}  // namespace tenon

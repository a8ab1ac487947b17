// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A memory cgroup that is too small is an error, where filling the segment
// would make the kernel kill the process.

#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm/testing/kill/census.h"
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

bool WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  return static_cast<bool>(file.flush());
}

size_t FreeSwap() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  size_t kilobytes = 0;
  while (file >> word && word != "SwapFree:") {
  }
  file >> kilobytes;
  return kilobytes * 1024;
}

// The directory of this process's memory cgroup; empty if there is none.
// `limit` is the name of the file with its limit.
std::string OwnCgroup(std::string& limit) {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    std::string directory;
    if (parts[1] == "memory") {
      directory = "/sys/fs/cgroup/memory" + parts[2];
      limit = "memory.limit_in_bytes";
    } else if (parts[1].empty()) {
      directory = "/sys/fs/cgroup" + parts[2];
      limit = "memory.max";
    }
    if (directory.ends_with('/')) directory.pop_back();  // The root's.
    if (!directory.empty() &&
        access((directory + "/cgroup.procs").c_str(), W_OK) == 0 &&
        access((directory + "/memory.stat").c_str(), R_OK) == 0) {
      return directory;
    }
  }
  return "";
}

// With a separate cgroup inside the process's own one, until the test has
// ended.
class SegmentCgroupTest : public testing::TestWithParam<SharingStrategy> {
 protected:
  void SetUp() override {
    const std::string own = OwnCgroup(limit_);
    if (own.empty()) GTEST_SKIP() << "no memory cgroup that may be written to";
    cgroup_ = absl::StrCat(own, "/", prefix_);
    if (mkdir(cgroup_.c_str(), 0755) != 0) {
      cgroup_.clear();
      GTEST_SKIP() << "this user may not make a cgroup in " << own;
    }
    if (!SetLimit(kLimit)) {
      GTEST_SKIP() << "cgroups in " << own << " have no limit of memory";
    }
  }
  void TearDown() override {
    if (cgroup_.empty()) return;
    EXPECT_EQ(rmdir(cgroup_.c_str()), 0) << cgroup_;
  }

  bool SetLimit(size_t bytes) const {
    return WriteFile(absl::StrCat(cgroup_, "/", limit_), absl::StrCat(bytes));
  }
  // Creating a named segment without memory reclaims dead names: where mount
  // namespaces are permitted, not those of other tests.
  bool Enter() const {
    if (unshare(CLONE_NEWNS) == 0 &&
        (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
         !MountTmpfs("/dev/shm", "mode=1777"))) {
      return false;
    }
    return WriteFile(cgroup_ + "/cgroup.procs", absl::StrCat(getpid()));
  }

  absl::Status Create(size_t size_bytes) const {
    return Segment::CreateSharedWritable(
               size_bytes, {.strategy = GetParam(), .name_prefix = prefix_})
        .status();
  }

  const std::string prefix_ = UniqueTestPrefix();
  ShmNamesGuard names_{prefix_};  // Removes the names of killed processes.
  std::string cgroup_;
  std::string limit_;
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
                       HasSubstr(absl::StrCat(size, " bytes:")),
                       HasSubstr(absl::StrCat(limit_, " of the cgroup ",
                                              cgroup_, ": 67108864 bytes")),
                       HasSubstr(absl::StrCat("echo <more> > ", cgroup_, "/",
                                              limit_)))));
    EXPECT_EQ(CountOpenFds(), fds);
    EXPECT_THAT(ListShmNames(prefix_), IsOkAndHolds(IsEmpty()));
    // The next one, which fits, works; so does the same one after the limit has
    // been raised as the error recommends.
    EXPECT_THAT(Create(32 * kMiB), IsOk());
    ASSERT_TRUE(SetLimit(size + kLimit));
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
                                 HasSubstr(limit_)));
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

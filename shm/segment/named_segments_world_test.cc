// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Reclaiming all names of a /dev/shm: in mount namespaces with a /dev/shm of
// their own, beside processes in other pid namespaces, and when it is full.

#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/name_token.h"
#include "tenon/shm/segment/named_segments.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/segment_options.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm/testing/mount_namespace_testing.h"
#include "tenon/shm/testing/pid_namespace_testing.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr size_t kMiB = size_t{1} << 20;

absl::StatusOr<Segment> CreateIn(const std::string& prefix, size_t bytes,
                                 const std::string& chosen = "") {
  return Segment::CreateSharedWritable(
      bytes, {.strategy = SharingStrategy::kFileSystem,
              .name_prefix = prefix,
              .name = chosen});
}

// A process that creates a segment and is killed.
void LeaveDead(const std::string& prefix, size_t bytes,
               const std::string& chosen = "") {
  const pid_t child = fork();
  if (child == 0) {
    const auto segment = CreateIn(prefix, bytes, chosen);
    if (segment.ok()) raise(SIGKILL);
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << "not created";
}

void PlantForeign(const char* path) {
  const UniqueFd fd(open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  ASSERT_TRUE(fd.valid());
  ASSERT_EQ(ftruncate(fd.get(), 4096), 0);
}

// A file as Segment makes them, whose creator has died.
void PlantDead(const char* path, size_t bytes) {
  const UniqueFd fd(open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  ASSERT_TRUE(fd.valid());
  ASSERT_EQ(fallocate(fd.get(), 0, 0, static_cast<off_t>(bytes)), 0);
  ASSERT_EQ(fchmod(fd.get(), kFinishedNameMode), 0);
}

class NamedSegmentsWorldTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!CanEnterOwnMountNamespace()) GTEST_SKIP() << kNoMountNamespace;
  }

  // Runs `body` with an empty /dev/shm.
  static testing::AssertionResult InOwnShm(const char* options,
                                           const std::function<void()>& body) {
    return PassesInChild([&] {
      ASSERT_TRUE(EnterOwnMountNamespace());
      ASSERT_TRUE(MountTmpfs("/dev/shm", options));
      body();
    });
  }
};

TEST_F(NamedSegmentsWorldTest, ReclaimsTheDeadAndNothingElse) {
  EXPECT_TRUE(InOwnShm("size=64m", [] {
    TENON_ASSERT_OK_AND_ASSIGN(const Segment alive, CreateIn("alive", kMiB));
    PlantForeign("/dev/shm/dead-0123456789abcdef0123456789abcdef");
    PlantForeign("/dev/shm/psm_4711");
    for (int i = 0; i < 3; ++i) LeaveDead("dead", 2 * kMiB);
    TENON_ASSERT_OK_AND_ASSIGN(const auto all, ListNamedSegments());
    EXPECT_THAT(all, SizeIs(4));
    TENON_ASSERT_OK_AND_ASSIGN(const auto removed, ReclaimDeadNames());
    ASSERT_THAT(removed, SizeIs(3));
    for (const NamedSegment& segment : removed) {
      EXPECT_EQ(segment.name.rfind("dead-", 0), 0u) << segment.name;
      EXPECT_EQ(segment.allocated_bytes, 2 * kMiB);
      EXPECT_FALSE(segment.is_held);
    }
    EXPECT_THAT(
        ListShmNames("dead"),
        IsOkAndHolds(ElementsAre("dead-0123456789abcdef0123456789abcdef")));
    EXPECT_THAT(ListShmNames("psm"), IsOkAndHolds(SizeIs(1)));
    EXPECT_THAT(ListShmNames("alive"), IsOkAndHolds(ElementsAre(alive.name())));
    EXPECT_THAT(ReclaimDeadNames(), IsOkAndHolds(IsEmpty()));
  }));
}

// Makes and removes 400 names, again and again, until it is killed.
void ComeAndGo(const std::string& prefix) {
  for (;;) {
    std::vector<std::string> paths;
    for (int n = 0; n < 400; ++n) {
      paths.push_back(absl::StrCat("/dev/shm/", prefix, "-", n));
      PlantDead(paths.back().c_str(), 4096);
    }
    for (const std::string& path : paths) unlink(path.c_str());
  }
}

// In a directory of more than some 300 names from which others remove some,
// readdir() of Linux 6.18 returns one twice in 1 or 2 of 100 readings.
TEST_F(NamedSegmentsWorldTest, NoNameIsListedTwiceWhileOthersRemoveTheirs) {
  EXPECT_TRUE(InOwnShm("size=64m", [] {
    std::vector<pid_t> others;
    for (const char* prefix : {"a", "b", "c", "d"}) {
      others.push_back(fork());
      if (others.back() != 0) continue;
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      ComeAndGo(prefix);
    }
    const Deadline end = Deadline::After(absl::Seconds(3));
    for (int round = 0; round < 300 && !end.has_passed(); ++round) {
      TENON_ASSERT_OK_AND_ASSIGN(const auto names, ListShmNames("a"));
      EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
      TENON_ASSERT_OK_AND_ASSIGN(const auto segments, ListNamedSegments());
      for (size_t s = 1; s < segments.size(); ++s) {
        EXPECT_LT(segments[s - 1].name, segments[s].name);
      }
    }
    for (const pid_t other : others) {
      kill(other, SIGKILL);
      waitpid(other, nullptr, 0);
    }
  }));
}

TEST_F(NamedSegmentsWorldTest, CreationInAFullShmReclaims) {
  EXPECT_TRUE(InOwnShm("size=8m", [] {
    TENON_ASSERT_OK_AND_ASSIGN(const Segment alive, CreateIn("alive", kMiB));
    for (int i = 0; i < 3; ++i) LeaveDead("dead", 2 * kMiB);
    // Nothing is reclaimed while there is space.
    TENON_ASSERT_OK_AND_ASSIGN(const Segment small, CreateIn("small", 4096));
    EXPECT_THAT(ListShmNames("dead"), IsOkAndHolds(SizeIs(3)));
    const std::vector<std::byte> contents(5 * kMiB, std::byte{1});
    {
      TENON_ASSERT_OK_AND_ASSIGN(
          const Segment filled,
          Segment::CreateFilled(contents, SegmentKind::kOwnerWritten,
                                {.strategy = SharingStrategy::kFileSystem}));
      EXPECT_THAT(ListShmNames("dead"), IsOkAndHolds(IsEmpty()));
      EXPECT_THAT(Segment::Open(alive.name(), SegmentKind::kSharedWritable),
                  IsOk());
    }
    // With no dead names left, the limit is an error as before.
    const auto too_much = CreateIn("x", 7 * kMiB);
    EXPECT_THAT(too_much, StatusIs(absl::StatusCode::kResourceExhausted,
                                   testing::HasSubstr("/dev/shm")));
    EXPECT_THAT(ListShmNames("x"), IsOkAndHolds(IsEmpty()));
  }));
}

TEST_F(NamedSegmentsWorldTest, AFruitlessScanIsNotRepeatedAtOnce) {
  EXPECT_TRUE(InOwnShm("size=8m", [] {
    TENON_ASSERT_OK_AND_ASSIGN(const Segment alive,
                               CreateIn("alive", 2 * kMiB));
    bool in_time = false;
    for (int tries = 0; !in_time && tries < 100; ++tries) {
      const Deadline pause = Deadline::After(absl::Milliseconds(100));
      EXPECT_THAT(CreateIn("x", 7 * kMiB),
                  StatusIs(absl::StatusCode::kResourceExhausted));
      PlantDead("/dev/shm/dead", 4 * kMiB);
      const auto early = CreateIn("y", 5 * kMiB);
      in_time = !pause.has_passed();
      if (in_time) {
        EXPECT_THAT(early, StatusIs(absl::StatusCode::kResourceExhausted,
                                    testing::HasSubstr("/dev/shm")));
      }
      // A scan that finds something ends the pause.
      EXPECT_TRUE(early.ok() ||
                  Becomes([] { return CreateIn("y", 5 * kMiB).ok(); }));
    }
    EXPECT_TRUE(in_time) << "the machine is too slow";
  }));
}

TEST_F(NamedSegmentsWorldTest, CreationWithoutInodesReclaims) {
  EXPECT_TRUE(InOwnShm("size=8m,nr_inodes=3", [] {
    LeaveDead("dead", 4096);
    LeaveDead("dead", 4096);
    TENON_ASSERT_OK_AND_ASSIGN(const Segment made, CreateIn("new", 4096));
    EXPECT_THAT(ListShmNames("dead"), IsOkAndHolds(IsEmpty()));
  }));
}

TEST_F(NamedSegmentsWorldTest, AnImpossibleSizeReclaimsNothing) {
  EXPECT_TRUE(InOwnShm("size=8m", [] {
    LeaveDead("dead", kMiB);
    EXPECT_THAT(CreateIn("x", size_t{1} << 60),
                StatusIs(absl::StatusCode::kResourceExhausted));
    EXPECT_THAT(ListShmNames("dead"), IsOkAndHolds(SizeIs(1)));
  }));
}

TEST_F(NamedSegmentsWorldTest, ReadOnlyShmIsAnError) {
  EXPECT_TRUE(InOwnShm("size=8m", [] {
    LeaveDead("dead", 4096);
    LeaveDead("dead", 4096, "chosen");
    ASSERT_EQ(
        mount("none", "/dev/shm", nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0);
    for (const absl::Status& status :
         {ListNamedSegments().status(), ReclaimDeadNames().status()}) {
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kPermissionDenied,
                                   testing::HasSubstr("[EROFS]")));
    }
    // A chosen name without a holder does not exist, removed or not.
    EXPECT_THAT(Segment::Open("chosen", SegmentKind::kOwnerWritten),
                StatusIs(absl::StatusCode::kNotFound,
                         testing::AllOf(testing::HasSubstr("have ended"),
                                        testing::HasSubstr("[EROFS]"))));
  }));
}

TEST_F(NamedSegmentsWorldTest, ANameThatCannotBeRemovedDoesNotStopTheScan) {
  EXPECT_TRUE(InOwnShm("size=8m", [] {
    for (int i = 0; i < 3; ++i) LeaveDead("dead", 4096);
    TENON_ASSERT_OK_AND_ASSIGN(const auto names, ListShmNames("dead"));
    ASSERT_THAT(names, SizeIs(3));
    const std::string busy = "/dev/shm/" + names[1];
    // A file over which another one is mounted is busy.
    ASSERT_EQ(mount(busy.c_str(), busy.c_str(), nullptr, MS_BIND, nullptr), 0);
    EXPECT_THAT(ReclaimDeadNames(), IsOkAndHolds(SizeIs(2)));
    EXPECT_THAT(ListShmNames("dead"), IsOkAndHolds(ElementsAre(names[1])));
    const absl::Status alone = ReclaimDeadNames().status();
    EXPECT_THAT(std::string(alone.message()), testing::HasSubstr("[EBUSY]"));
    ASSERT_EQ(umount(busy.c_str()), 0);
    EXPECT_THAT(ReclaimDeadNames(), IsOkAndHolds(SizeIs(1)));
  }));
}

TEST_F(NamedSegmentsWorldTest, NoShmIsAnEmptyList) {
  EXPECT_TRUE(PassesInChild([] {
    ASSERT_TRUE(EnterOwnMountNamespace());
    ASSERT_TRUE(MountTmpfs("/dev", "size=1m"));
    EXPECT_THAT(ListNamedSegments(), IsOkAndHolds(IsEmpty()));
    EXPECT_THAT(ReclaimDeadNames(), IsOkAndHolds(IsEmpty()));
    EXPECT_THAT(ReclaimDeadName("x"), IsOkAndHolds(false));
  }));
}

// As two containers that share /dev/shm: no process of one is visible in the
// other, and their pids are the same numbers.
class PidNamespaceTest : public testing::TestWithParam<Proc> {
 protected:
  void SetUp() override {
    if (!CanEnterOwnPidNamespace()) GTEST_SKIP() << kNoPidNamespace;
  }
  const std::string prefix_ = UniqueTestPrefix();
};

TEST_P(PidNamespaceTest, TellsLiveFromDeadAcrossThem) {
  TENON_ASSERT_OK_AND_ASSIGN(const Segment outside, CreateIn(prefix_, 4096));
  LeaveDead(prefix_ + "-dead", 4096);
  EXPECT_TRUE(PassesInPidNamespace(GetParam(), [&] {
    EXPECT_THAT(ReclaimDeadName(outside.name()), IsOkAndHolds(false));
    TENON_ASSERT_OK_AND_ASSIGN(const auto dead,
                               ListShmNames(prefix_ + "-dead"));
    ASSERT_THAT(dead, SizeIs(1));
    EXPECT_THAT(ReclaimDeadName(dead[0]), IsOkAndHolds(true));
    LeaveDead(prefix_ + "-inside", 4096);
  }));
  EXPECT_THAT(Segment::Open(outside.name(), SegmentKind::kSharedWritable),
              IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const auto inside,
                             ListShmNames(prefix_ + "-inside"));
  ASSERT_THAT(inside, SizeIs(1));
  EXPECT_THAT(ReclaimDeadName(inside[0]), IsOkAndHolds(true));
}

TEST_P(PidNamespaceTest, AHolderInsideKeepsTheNameOfADeadCreator) {
  int made[2], opened[2], end[2];
  for (int* const ends : {made, opened, end}) ASSERT_EQ(pipe(ends), 0);
  const pid_t creator = fork();
  if (creator == 0) {
    const auto segment = CreateIn(prefix_, 4096);
    if (!segment.ok() || write(made[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  char byte;
  ASSERT_EQ(read(made[0], &byte, 1), 1);
  TENON_ASSERT_OK_AND_ASSIGN(const auto names, ListShmNames(prefix_));
  ASSERT_THAT(names, SizeIs(1));
  const pid_t opener = fork();
  if (opener == 0) {
    close(end[1]);
    const auto passed = PassesInPidNamespace(GetParam(), [&] {
      TENON_ASSERT_OK_AND_ASSIGN(
          const Segment segment,
          Segment::Open(names[0], SegmentKind::kSharedWritable));
      ASSERT_EQ(write(opened[1], "x", 1), 1);
      ASSERT_EQ(read(end[0], &byte, 1), 0);
    });
    _exit(passed ? 0 : 1);
  }
  ASSERT_EQ(read(opened[0], &byte, 1), 1);
  ASSERT_EQ(kill(creator, SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(waitpid(creator, &status, 0), creator);
  EXPECT_THAT(ReclaimDeadName(names[0]), IsOkAndHolds(false));
  close(end[1]);
  ASSERT_EQ(waitpid(opener, &status, 0), opener);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(ReclaimDeadName(names[0]), IsOkAndHolds(true));
  for (const int fd : {made[0], made[1], opened[0], opened[1], end[0]}) {
    close(fd);
  }
}

INSTANTIATE_TEST_SUITE_P(Procs, PidNamespaceTest,
                         testing::Values(Proc::kOuter, Proc::kOwn, Proc::kNone),
                         [](const auto& param) {
                           switch (param.param) {
                             case Proc::kOuter:
                               return "OuterProc";
                             case Proc::kOwn:
                               return "OwnProc";
                             default:
                               return "NoProc";
                           }
                         });

}  // namespace
}  // namespace tenon

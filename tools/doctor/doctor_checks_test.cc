// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Each check's finding for facts that a healthy machine does not have.

#include <errno.h>
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/process/process_identity.h"
#include "tenon/tools/cli/json.h"
#include "tenon/tools/doctor/core_checks.h"
#include "tenon/tools/doctor/finding.h"
#include "tenon/tools/doctor/kernel_checks.h"
#include "tenon/tools/doctor/limit_checks.h"
#include "tenon/tools/doctor/memory_checks.h"
#include "tenon/tools/doctor/system_files.h"

namespace tenon::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr uint64_t kMiB = uint64_t{1} << 20;

// A finding that is not OK names its cost and a fix; an OK finding has neither.
void ExpectComplete(const Finding& finding) {
  SCOPED_TRACE(finding.check);
  EXPECT_THAT(finding.check, Not(IsEmpty()));
  EXPECT_THAT(finding.found, Not(IsEmpty()));
  const bool ok = finding.level == Level::kOk;
  EXPECT_EQ(finding.cost.empty(), ok) << finding.cost;
  EXPECT_EQ(finding.fix.empty(), ok) << finding.fix;
}

void ExpectLevel(const Finding& finding, Level level) {
  EXPECT_EQ(finding.level, level) << finding.check << ": " << finding.found;
  ExpectComplete(finding);
}

// A folder that replaces the root of the file system.
class FakeRoot {
 public:
  FakeRoot()
      : root_(std::filesystem::path(testing::TempDir()) /
              absl::StrCat("root",
                           testing::UnitTest::GetInstance()->random_seed(),
                           testing::UnitTest::GetInstance()
                               ->current_test_info()
                               ->name())) {
    std::filesystem::remove_all(root_);
  }
  ~FakeRoot() { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) const {
    const std::filesystem::path full = root_.string() + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  std::string path() const { return root_.string(); }

 private:
  std::filesystem::path root_;
};

TEST(OpenFilesTest, SaysWhatASoftLimitCosts) {
  ExpectLevel(CheckOpenFiles({1 << 20, 1 << 20}), Level::kOk);
  const Finding usual = CheckOpenFiles({1024, 524288});
  ExpectLevel(usual, Level::kWarning);
  EXPECT_THAT(usual.cost, HasSubstr("at most 1024 at a time"));
  EXPECT_EQ(usual.fix, "ulimit -n 524288");
  EXPECT_EQ(CheckOpenFiles({1024, kNoLimit}).fix, "ulimit -n 65536");
  const Finding hard = CheckOpenFiles({1024, 1024});
  EXPECT_THAT(hard.fix, HasSubstr("as root: prlimit"));
  ExpectLevel(CheckOpenFiles({32, 32}), Level::kFailure);
}

TEST(LockedMemoryTest, OnlyWhatCannotBeLockedIsAWarning) {
  ExpectLevel(CheckLockedMemory({{64 << 10, 64 << 10}, 0}), Level::kOk);
  const Finding none = CheckLockedMemory({{0, 0}, ENOMEM});
  ExpectLevel(none, Level::kWarning);
  EXPECT_THAT(none.found, HasSubstr("Cannot allocate memory"));
}

TEST(MappingsTest, FewOrUnknownAreAWarning) {
  ExpectLevel(CheckMappings(65530), Level::kOk);
  ExpectLevel(CheckMappings(1000), Level::kWarning);
  ExpectLevel(CheckMappings(std::nullopt), Level::kWarning);
}

TEST(ProcessCountTest, TheCgroupTheUserAndTheMachine) {
  ExpectLevel(CheckProcessCount({.pid_max = 32768}), Level::kOk);
  ExpectLevel(CheckProcessCount({.cgroup_left = 10, .cgroup_path = "/x"}),
              Level::kWarning);
  const Finding none =
      CheckProcessCount({.cgroup_left = 0, .cgroup_path = "/x/pids.max"});
  ExpectLevel(none, Level::kFailure);
  EXPECT_THAT(none.fix, HasSubstr("echo max > /x/pids.max"));
  ExpectLevel(CheckProcessCount({.user_limit = 10}), Level::kWarning);
  ExpectLevel(CheckProcessCount({.pid_max = 301}), Level::kWarning);
}

TEST(ProcessCountTest, TakesTheNarrowestCgroupAround) {
  const FakeRoot root;
  root.Write("/proc/self/cgroup", "0::/outer/inner\n");
  root.Write("/sys/fs/cgroup/outer/pids.max", "100\n");
  root.Write("/sys/fs/cgroup/outer/pids.current", "93\n");
  root.Write("/sys/fs/cgroup/outer/inner/pids.max", "max\n");
  root.Write("/sys/fs/cgroup/outer/inner/pids.current", "5\n");
  root.Write("/proc/sys/kernel/pid_max", "4194304\n");
  const ProcessCountFacts facts = ProbeProcessCount(root.path());
  EXPECT_EQ(facts.cgroup_left, 7u);
  EXPECT_EQ(facts.cgroup_path, "/sys/fs/cgroup/outer/pids.max");
  EXPECT_EQ(facts.pid_max, 4194304u);
}

TEST(KernelTest, WhatIsMissingFails) {
  const absl::Status missing = PosixError(ENOSYS, "some_call", "x");
  for (const Finding& finding :
       {CheckPidFd(missing), CheckMemfd({.made = missing}), CheckSeals(missing),
        CheckControlMemory({.made = missing}),
        CheckPassingDescriptors(missing)}) {
    ExpectLevel(finding, Level::kFailure);
    EXPECT_THAT(finding.found, HasSubstr("some_call"));
  }
  for (const Finding& finding :
       {CheckPidFd(absl::OkStatus()), CheckMemfd({.noexec = 2}),
        CheckSeals(absl::OkStatus()), CheckControlMemory({.overcommit = 2}),
        CheckPassingDescriptors(absl::OkStatus()), CheckPeerPidFd(0),
        CheckLooking({.ptrace_scope = 3})}) {
    ExpectLevel(finding, Level::kOk);
  }
  ExpectLevel(CheckPeerPidFd(ENOPROTOOPT), Level::kWarning);
  ExpectLevel(CheckLooking({.error = EACCES}), Level::kWarning);
  ExpectLevel(CheckIdentity(SameProcess::kYes), Level::kOk);
  ExpectLevel(CheckIdentity(SameProcess::kUnknown), Level::kWarning);
  ExpectLevel(CheckIdentity(absl::NotFoundError("none")), Level::kWarning);
}

TEST(KernelTest, OldestSupportedKernel) {
  for (const char* release : {"6.1.0", "6.1", "6.18.44-fc", "7.0-rc1"}) {
    ExpectLevel(CheckKernel(release), Level::kOk);
  }
  for (const char* release : {"6.0.19-amd64", "5.10.0", "6", "x.y", ""}) {
    ExpectLevel(CheckKernel(release), Level::kWarning);
  }
}

TEST(ClockTest, ASlowOneIsAWarning) {
  ExpectLevel(CheckClock({25, "tsc"}), Level::kOk);
  ExpectLevel(CheckClock({2000, "hpet"}), Level::kWarning);
}

TEST(AvailableMemoryTest, LittleOrUnknownIsAWarning) {
  const std::string bound = "memory.max of x: 100 bytes; raise it: echo";
  const Finding much = CheckAvailableMemory({1024 * kMiB, bound});
  ExpectLevel(much, Level::kOk);
  EXPECT_THAT(much.found, Not(HasSubstr("raise it")));
  const Finding little = CheckAvailableMemory({kMiB, bound});
  ExpectLevel(little, Level::kWarning);
  EXPECT_THAT(little.found, HasSubstr("raise it"));
  ExpectLevel(
      CheckAvailableMemory({std::numeric_limits<uint64_t>::max(), "nothing"}),
      Level::kWarning);
}

TEST(DevShmTest, NamesWhatIsWrong) {
  const DevShmFacts good = {.exists = true,
                            .is_tmpfs = true,
                            .size = 1024 * kMiB,
                            .free = 1000 * kMiB};
  ExpectLevel(CheckDevShm(good), Level::kOk);
  DevShmFacts facts = good;
  facts.size = facts.free = 0;  // tmpfs without a limit.
  ExpectLevel(CheckDevShm(facts), Level::kOk);
  facts = good;
  facts.size = facts.free = 64 * kMiB;
  EXPECT_THAT(CheckDevShm(facts).fix, HasSubstr("--shm-size"));
  ExpectLevel(CheckDevShm(facts), Level::kWarning);
  facts = good;
  facts.free = kMiB;
  ExpectLevel(CheckDevShm(facts), Level::kWarning);
  facts = good;
  facts.is_tmpfs = false;
  ExpectLevel(CheckDevShm(facts), Level::kWarning);
  facts = good;
  facts.made = PosixError(EROFS, "shm_open", "/dev/shm/x");
  EXPECT_THAT(CheckDevShm(facts).fix, HasSubstr("remount,rw"));
  ExpectLevel(CheckDevShm(facts), Level::kWarning);
  ExpectLevel(CheckDevShm({}), Level::kWarning);
}

TEST(HugePagesTest, AnEmptyPoolIsNoWarning) {
  const absl::Status none = absl::ResourceExhaustedError("none");
  EXPECT_EQ(CheckHugePagePool({}).level, Level::kOk);
  const Finding empty = CheckHugePagePool({.pool = none});
  EXPECT_EQ(empty.level, Level::kOk);
  EXPECT_THAT(empty.found, HasSubstr("vm.nr_hugepages"));
  ExpectLevel(CheckJoinedHugePages({}), Level::kOk);
  ExpectLevel(CheckJoinedHugePages({.joined = none}), Level::kWarning);
}

TEST(ShmNamesTest, TheDeadAreAWarning) {
  ExpectLevel(CheckShmNames({.alive = 3}), Level::kOk);
  const Finding two =
      CheckShmNames({.alive = 1, .dead = 2, .dead_bytes = 2 * kMiB});
  ExpectLevel(two, Level::kWarning);
  EXPECT_EQ(two.found, "1 in use, 2 left by dead processes (2.0 MiB)");
  EXPECT_EQ(two.fix, "tenon shm gc");
  ExpectLevel(CheckShmNames({.found = absl::PermissionDeniedError("EROFS")}),
              Level::kWarning);
}

TEST(CoresTest, OneCoreOrAQuotaIsAWarning) {
  ExpectLevel(CheckCores({.online = 8, .allowed = 8}), Level::kOk);
  EXPECT_THAT(CheckCores({.online = 8, .allowed = 2}).found,
              HasSubstr("spin for some microseconds"));
  const Finding one = CheckCores({.online = 8, .allowed = 1});
  ExpectLevel(one, Level::kWarning);
  EXPECT_THAT(one.fix, HasSubstr("taskset -c 0-7"));
  ExpectLevel(CheckCores({.online = 1, .allowed = 1}), Level::kWarning);
  ExpectLevel(CheckCores({.online = 8, .allowed = 8, .quota = 8.0}),
              Level::kOk);
  const Finding quota = CheckCores(
      {.online = 8, .allowed = 8, .quota = 1.5, .quota_path = "/x/cpu.max"});
  ExpectLevel(quota, Level::kWarning);
  EXPECT_THAT(quota.found, HasSubstr("1.50 by the cgroup's quota"));
  EXPECT_THAT(quota.fix, HasSubstr("echo max > /x/cpu.max"));
}

TEST(CoresTest, ReadsTheQuotaOfBothVersions) {
  const FakeRoot root;
  root.Write("/proc/self/cgroup", "0::/a\n");
  root.Write("/sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  EXPECT_EQ(ProbeCores(root.path()).quota, 1.5);
  root.Write("/sys/fs/cgroup/a/cpu.max", "max 100000\n");
  EXPECT_EQ(ProbeCores(root.path()).quota, std::nullopt);
  root.Write("/proc/self/cgroup", "4:cpu,cpuacct:/b\n1:name=x:/c\n");
  root.Write("/sys/fs/cgroup/cpu/b/cpu.cfs_quota_us", "50000\n");
  root.Write("/sys/fs/cgroup/cpu/b/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(ProbeCores(root.path()).quota, 0.5);
  EXPECT_THAT(CheckCores(ProbeCores(root.path())).fix, HasSubstr("echo -1 >"));
  root.Write("/sys/fs/cgroup/cpu/b/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(ProbeCores(root.path()).quota, std::nullopt);
}

TEST(SystemFilesTest, NonsenseIsNoCgroup) {
  const FakeRoot root;
  for (const char* text : {"", "0", "0:", "0::", "0::x\n::\n", "a:b:c:d\n"}) {
    root.Write("/proc/self/cgroup", text);
    EXPECT_THAT(ReadCgroupFiles("cpu", "x", "x", root.path()), IsEmpty());
  }
}

TEST(FindingsTest, TextNamesCostAndFixOfWhatIsNotOk) {
  const std::vector<Finding> findings = {{.check = "a", .found = "fine"},
                                         {.check = "b",
                                          .level = Level::kWarning,
                                          .found = "so so \x1b",
                                          .cost = "time",
                                          .fix = "sleep 1"},
                                         {.check = "c",
                                          .level = Level::kFailure,
                                          .found = "bad",
                                          .cost = "all",
                                          .fix = "buy one, or two or more"}};
  EXPECT_EQ(FindingsText(findings),
            "OK    a                   fine\n"
            "WARN  b                   so so \\x1b\n"
            "      costs: time\n"
            "      fix:   sleep 1\n"
            "FAIL  c                   bad\n"
            "      costs: all\n"
            "      fix:   buy one, or two or more\n"
            "1 OK, 1 to know about, 1 that must be fixed\n");
  EXPECT_EQ(FindingsText(findings, 20),
            "OK    a\n"
            "    fine\n"
            "WARN  b\n"
            "    so so \\x1b\n"
            "      costs: time\n"
            "      fix:   sleep 1\n"
            "FAIL  c\n"
            "    bad\n"
            "      costs: all\n"
            "      fix:   buy one, or two or more\n"
            "1 OK,\n"
            "    1 to know about,\n"
            "    1 that must be\n"
            "    fixed\n");
  EXPECT_FALSE(AllWork(findings));
  EXPECT_TRUE(AllWork({findings[0], findings[1]}));
  const Json json = Json::parse(JsonText(FindingsJson(findings)));
  EXPECT_EQ(json["ok"], false);
  EXPECT_EQ(json["findings"][1]["level"], "WARN");
  EXPECT_EQ(json["findings"][1]["fix"], "sleep 1");
}

}  // namespace
}  // namespace tenon::tools

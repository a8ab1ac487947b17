// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// `tenon doctor` in environments that lack something: reports it, and a fix.

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <functional>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/linux_6_1_testing.h"
#include "tenon/shm/testing/mount_namespace_testing.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/seccomp_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/tools/cli/json.h"
#include "tenon/tools/tenon_tool.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77  // Linux 6.5.
#endif

namespace tenon::tools {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

struct Diagnosis {
  int exit_code = -1;
  Json json;

  // The finding of that check.
  Json Of(const std::string& check) const {
    for (const Json& finding : json["findings"]) {
      if (finding["check"] == check) return finding;
    }
    ADD_FAILURE() << "no check '" << check << "'";
    return {{"level", ""}, {"found", ""}, {"cost", ""}, {"fix", ""}};
  }
};

Diagnosis Diagnose() {
  std::ostringstream out, errors;
  Diagnosis diagnosis;
  diagnosis.exit_code = RunTenonTool({"doctor", "--json"}, out, errors);
  EXPECT_EQ(errors.str(), "");
  diagnosis.json = Json::parse(out.str());
  EXPECT_EQ(diagnosis.json["ok"], diagnosis.exit_code == 0);
  return diagnosis;
}

// Expects that the check reports `level` and mentions `found` after `spoil` was
// called, and reports OK here.
void ExpectNoticed(const std::string& check, const std::string& level,
                   const std::string& found,
                   const std::function<void()>& spoil) {
  EXPECT_EQ(Diagnose().Of(check)["level"], "OK");
  EXPECT_TRUE(PassesInChild([&] {
    spoil();
    const Diagnosis diagnosis = Diagnose();
    const Json finding = diagnosis.Of(check);
    EXPECT_EQ(finding["level"], level) << finding.dump();
    EXPECT_THAT(finding["found"].get<std::string>(), HasSubstr(found));
    EXPECT_NE(finding["cost"], "");
    EXPECT_NE(finding["fix"], "");
    if (level == "FAIL") {
      EXPECT_EQ(diagnosis.exit_code, 1);
    }
  }));
}

void Forbid(long number, int error, int argument = -1, uint32_t value = 0) {
  ASSERT_TRUE(FailSystemCall({.number = number,
                              .argument = argument,
                              .value = value,
                              .error = error}));
}

// The text form of a finding.
std::string TextOf() {
  std::ostringstream out, errors;
  RunTenonTool({"doctor"}, out, errors);
  return out.str();
}

TEST(DoctorEnvironmentTest, TenonWorksWhereTheseTestsRun) {
  const Census before = TakeCensus({.shm_prefix = "tenon-doctor"});
  const Diagnosis diagnosis = Diagnose();
  EXPECT_EQ(diagnosis.exit_code, 0) << TextOf();
  EXPECT_GE(diagnosis.json["findings"].size(), 20u);
  EXPECT_TRUE(ExpectSame(before, TakeCensus({.shm_prefix = "tenon-doctor"})));
}

TEST(DoctorEnvironmentTest, NoPidfdOpen) {
  ExpectNoticed("pidfd", "FAIL", "pidfd_open",
                [] { Forbid(SYS_pidfd_open, ENOSYS); });
  ExpectNoticed("pidfd", "FAIL", "pidfd_open",
                [] { Forbid(SYS_pidfd_open, EPERM); });
}

TEST(DoctorEnvironmentTest, NoPidfdSendSignal) {
  ExpectNoticed("pidfd", "FAIL", "pidfd_send_signal",
                [] { Forbid(SYS_pidfd_send_signal, EPERM); });
}

TEST(DoctorEnvironmentTest, NoMemfd) {
  ExpectNoticed("memfd", "FAIL", "memfd_create",
                [] { Forbid(SYS_memfd_create, EPERM); });
}

TEST(DoctorEnvironmentTest, NoSeals) {
  ExpectNoticed("seals", "FAIL", "F_ADD_SEALS",
                [] { Forbid(SYS_fcntl, EINVAL, 1, F_ADD_SEALS); });
}

TEST(DoctorEnvironmentTest, NoPeerPidFd) {
  if (Diagnose().Of("peer's pidfd")["level"] != "OK") {
    GTEST_SKIP() << "this kernel has no SO_PEERPIDFD";
  }
  ExpectNoticed("peer's pidfd", "WARN", "SO_PEERPIDFD",
                [] { Forbid(SYS_getsockopt, ENOPROTOOPT, 2, SO_PEERPIDFD); });
}

TEST(DoctorEnvironmentTest, NoPidFdsToCompare) {
  if (!CanEnterOwnMountNamespace()) GTEST_SKIP() << kNoMountNamespace;
  ExpectNoticed("process identity", "WARN", "no pidfs", [] {
    ASSERT_TRUE(EnterOwnMountNamespace());
    ASSERT_TRUE(MountTmpfs("/proc", "size=1m"));
    ASSERT_TRUE(HidePidFs());
  });
}

TEST(DoctorEnvironmentTest, NoDescriptorsThroughSockets) {
  ExpectNoticed("passing files", "FAIL", "sendmsg",
                [] { Forbid(SYS_sendmsg, EPERM); });
}

TEST(DoctorEnvironmentTest, FewAddresses) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs all addresses there are";
#endif
  ExpectNoticed("addresses", "FAIL", "mmap", [] {
    rlimit limit = {512 << 20, 512 << 20};
    ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  });
}

TEST(DoctorEnvironmentTest, SmallFiles) {
  ExpectNoticed("addresses", "FAIL", "ulimit -f", [] {
    rlimit limit = {64 << 20, 64 << 20};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  });
}

TEST(DoctorEnvironmentTest, FewOpenFiles) {
  const auto with_limit = [](rlim_t soft) {
    EXPECT_TRUE(PassesInChild([soft] {
      rlimit limit;
      ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
      limit.rlim_cur = soft;
      ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
      const Diagnosis diagnosis = Diagnose();
      const Json finding = diagnosis.Of("open files");
      EXPECT_EQ(finding["level"], soft < 64 ? "FAIL" : "WARN");
      EXPECT_THAT(finding["found"].get<std::string>(),
                  HasSubstr(absl::StrCat(soft, " for each process")));
      EXPECT_THAT(finding["fix"].get<std::string>(),
                  AnyOf(HasSubstr("ulimit -n"), HasSubstr("prlimit")));
    }));
  };
  with_limit(1024);
  with_limit(40);
  // Too few for any operation: still a diagnosis, not a crash.
  EXPECT_TRUE(PassesInChild([] {
    rlimit limit = {4, 4};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_EQ(Diagnose().exit_code, 1);
  }));
}

class DevShmEnvironmentTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!CanEnterOwnMountNamespace()) GTEST_SKIP() << kNoMountNamespace;
  }

  // Findings about /dev/shm after `mount` in a mount namespace.
  static void Expect(const std::function<void()>& mount,
                     const std::string& found, const std::string& fix) {
    EXPECT_TRUE(PassesInChild([&] {
      ASSERT_TRUE(EnterOwnMountNamespace());
      mount();
      const Diagnosis diagnosis = Diagnose();
      const Json finding = diagnosis.Of("/dev/shm");
      EXPECT_EQ(finding["level"], "WARN");
      EXPECT_THAT(finding["found"].get<std::string>(), HasSubstr(found));
      EXPECT_THAT(finding["fix"].get<std::string>(), HasSubstr(fix));
      EXPECT_THAT(finding["cost"].get<std::string>(),
                  HasSubstr("file_descriptor"));
      // The default strategy still works.
      EXPECT_EQ(diagnosis.exit_code, 0);
    }));
  }
};

TEST_F(DevShmEnvironmentTest, Small) {
  Expect([] { ASSERT_TRUE(MountTmpfs("/dev/shm", "size=1m")); },
         "tmpfs, 1.0 MiB, 1.0 MiB free", "--shm-size");
}

TEST_F(DevShmEnvironmentTest, Full) {
  Expect(
      [] {
        ASSERT_TRUE(MountTmpfs("/dev/shm", "size=1m"));
        const int fd = open("/dev/shm/full", O_RDWR | O_CREAT, 0600);
        ASSERT_EQ(posix_fallocate(fd, 0, 1 << 20), 0);
      },
      "0 B free", "remount,size");
}

TEST_F(DevShmEnvironmentTest, ReadOnly) {
  Expect([] { ASSERT_TRUE(MountTmpfs("/dev/shm", "size=1g", MS_RDONLY)); },
         "EROFS", "remount,rw");
}

TEST_F(DevShmEnvironmentTest, Absent) {
  Expect([] { ASSERT_TRUE(MountTmpfs("/dev", "size=1m")); }, "there is none",
         "mkdir -m 1777 /dev/shm");
}

TEST_F(DevShmEnvironmentTest, NoProc) {
  EXPECT_TRUE(PassesInChild([] {
    ASSERT_TRUE(EnterOwnMountNamespace());
    ASSERT_TRUE(MountTmpfs("/proc", "size=1m"));
    ASSERT_TRUE(MountTmpfs("/dev/shm", "size=1m"));
    const Diagnosis diagnosis = Diagnose();
    EXPECT_EQ(diagnosis.Of("looking in /proc")["level"], "WARN");
    EXPECT_EQ(diagnosis.Of("mappings")["level"], "WARN");
    // The kernel's locks tell which names are held; /proc does not matter.
    EXPECT_EQ(diagnosis.Of("names in /dev/shm")["level"], "OK");
  }));
}

TEST_F(DevShmEnvironmentTest, NamesOfTheDeadAreToldFromThoseInUse) {
  EXPECT_TRUE(PassesInChild([] {
    ASSERT_TRUE(EnterOwnMountNamespace());
    ASSERT_TRUE(MountTmpfs("/dev/shm", "size=100m"));
    const SegmentOptions options = {.strategy = SharingStrategy::kFileSystem,
                                    .name_prefix = "cam"};
    TENON_ASSERT_OK_AND_ASSIGN(const Segment alive,
                               Segment::CreateSharedWritable(8192, options));
    EXPECT_EQ(Diagnose().Of("names in /dev/shm")["found"],
              "1 in use, 0 left by dead processes");
    EXPECT_TRUE(PassesInChild([&] {
      TENON_ASSERT_OK_AND_ASSIGN(const Segment dies,
                                 Segment::CreateSharedWritable(4096, options));
      _exit(0);  // Without its destructor.
    }));
    const Json finding = Diagnose().Of("names in /dev/shm");
    EXPECT_EQ(finding["level"], "WARN");
    EXPECT_EQ(finding["found"], "1 in use, 1 left by dead processes (4.0 KiB)");
    EXPECT_EQ(finding["fix"], "tenon shm gc");
    // The fix works, and removes nothing else.
    std::ostringstream out;
    ASSERT_EQ(RunTenonTool({"shm", "gc"}, out, out), 0) << out.str();
    EXPECT_EQ(Diagnose().Of("names in /dev/shm")["found"],
              "1 in use, 0 left by dead processes");
    // A mapped segment is in use, also without a descriptor.
    TENON_ASSERT_OK_AND_ASSIGN(const auto mapping, alive.MapReadOnly());
    ASSERT_EQ(close(alive.fd()), 0);
    EXPECT_EQ(Diagnose().Of("names in /dev/shm")["found"],
              "1 in use, 0 left by dead processes");
    ASSERT_GE(open("/dev/null", O_RDONLY), 0);  // The segment will close it.
  }));
}

TEST(DoctorEnvironmentTest, OneCore) {
  EXPECT_TRUE(PassesInChild([] {
    cpu_set_t all, one;
    ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
      if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
    }
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    const Json finding = Diagnose().Of("cores");
    EXPECT_EQ(finding["level"], "WARN");
    EXPECT_THAT(finding["cost"].get<std::string>(), HasSubstr("spinning"));
  }));
}

TEST(DoctorEnvironmentTest, NothingCanBeLocked) {
  if (geteuid() == 0) {
    // The limit does not apply to root: drop that privilege with the user.
    if (!CanBecomeAnotherUser()) GTEST_SKIP() << kNoOtherUser;
  }
  EXPECT_TRUE(PassesInChild([] {
    rlimit limit = {0, 0};
    ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
    if (geteuid() == 0) {
      ASSERT_TRUE(BecomeAnotherUser());
    }
    EXPECT_EQ(Diagnose().Of("locked memory")["level"], "WARN");
  }));
}

}  // namespace
}  // namespace tenon::tools

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/trace/syscall_failer.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <iostream>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm/testing/trace/fault_report.h"
#include "tenon/shm/testing/trace/tracee.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;

class SyscallFailerTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const absl::Status can = CanTrace(); !can.ok()) GTEST_SKIP() << can;
    before_ = TakeCensus();
  }
  void TearDown() override {
    if (IsSkipped()) return;
    EXPECT_TRUE(ExpectSame(before_, TakeCensus()));
  }
  Census before_;
};

absl::Status Error(const char* call) { return PosixError(errno, call, "x"); }

// A correct body: two descriptors, each of a size.
absl::Status MakeTwoMemfds() {
  for (int i = 0; i < 2; ++i) {
    const UniqueFd fd(memfd_create("failer", MFD_CLOEXEC));
    if (!fd.valid()) return Error("memfd_create");
    if (RetryOnEintr([&] { return ftruncate(fd.get(), 4096); }) != 0) {
      return Error("ftruncate");
    }
  }
  return absl::OkStatus();
}

TEST_F(SyscallFailerTest, FailsEachCallWithEachErrno) {
  FaultScenario scenario;
  scenario.name = "two memfds";
  scenario.body = MakeTwoMemfds;
  scenario.check = [](const SyscallFault& fault, const absl::Status& outcome) {
    if (fault.error == EINTR) {
      EXPECT_THAT(outcome, IsOk());
    } else {
      EXPECT_THAT(outcome, StatusIs(absl::StatusCode::kResourceExhausted,
                                    HasSubstr(fault.call)));
    }
    return absl::OkStatus();
  };
  scenario.faults = {{.call = "memfd_create", .error = EMFILE},
                     {.call = "memfd_create", .error = ENFILE},
                     {.call = "ftruncate", .error = EINTR},
                     {.call = "ftruncate", .error = ENOSPC},
                     {.call = "fallocate", .error = ENOSPC}};
  TENON_ASSERT_OK_AND_ASSIGN(const FaultReport report,
                             FailSystemCalls(scenario));
  std::cout << report.ToString();
  EXPECT_TRUE(report.ok()) << report.ToString();
  ASSERT_EQ(report.rows.size(), 5u);
  EXPECT_EQ(report.rows[0].runs, 2u);
  EXPECT_THAT(report.rows[1].outcomes,
              ElementsAre(Pair("RESOURCE_EXHAUSTED", 2)));
  EXPECT_THAT(report.rows[2].outcomes, ElementsAre(Pair("OK", 2)));
  EXPECT_EQ(report.rows[4].runs, 0u);
  EXPECT_THAT(report.ToString(), HasSubstr("fallocate ENOSPC"));
  EXPECT_THAT(report.calls, ElementsAre(Pair("close", 2), Pair("ftruncate", 2),
                                        Pair("memfd_create", 2)));
  EXPECT_THAT(report.spared, ElementsAre("close"));
  // One without a fault, and for each fault one more than there are calls.
  EXPECT_EQ(report.runs, 1u + 4 * 3);
}

TEST_F(SyscallFailerTest, CatchesALeak) {
  FaultScenario scenario;
  scenario.body = [] {
    const int fd = memfd_create("leaky", MFD_CLOEXEC);
    if (fd < 0) return Error("memfd_create");
    if (ftruncate(fd, 4096) != 0) return Error("ftruncate");  // Not closed.
    close(fd);
    return absl::OkStatus();
  };
  scenario.faults = {{.call = "memfd_create", .error = EMFILE},
                     {.call = "ftruncate", .error = ENOSPC}};
  TENON_ASSERT_OK_AND_ASSIGN(const FaultReport report,
                             FailSystemCalls(scenario));
  EXPECT_FALSE(report.ok());
  for (const FaultReport::Failure& failure : report.failures) {
    EXPECT_EQ(failure.where, "ftruncate ENOSPC, call 1");
  }
  EXPECT_THAT(
      report.ToString(),
      HasSubstr("left by the fault: open memfd /memfd:leaky: 0 before"));
}

TEST_F(SyscallFailerTest, CatchesWhatFailsForEver) {
  FaultScenario scenario;
  scenario.body = [] {
    static bool failed = false;
    if (!failed) failed = chdir(".") != 0;
    return failed ? absl::InternalError("given up") : absl::OkStatus();
  };
  scenario.faults = {{.call = "chdir", .error = EINTR}};
  TENON_ASSERT_OK_AND_ASSIGN(const FaultReport report,
                             FailSystemCalls(scenario));
  ASSERT_EQ(report.failures.size(), 1u);
  EXPECT_THAT(report.failures[0].what, HasSubstr("the next try: INTERNAL"));
}

TEST_F(SyscallFailerTest, CatchesACrashAndAHang) {
  FaultScenario scenario;
  scenario.watchdog = absl::Milliseconds(200);
  scenario.body = [] {
    auto* byte =
        static_cast<volatile char*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    *byte = 1;  // Not checked for null.
    while (munmap(const_cast<char*>(byte), 4096) != 0) {
    }
    return absl::OkStatus();
  };
  scenario.faults = {{.call = "mmap", .error = ENOMEM},
                     {.call = "munmap", .error = EINVAL, .persistent = true}};
  TENON_ASSERT_OK_AND_ASSIGN(const FaultReport report,
                             FailSystemCalls(scenario));
  ASSERT_EQ(report.failures.size(), 2u) << report.ToString();
  EXPECT_THAT(report.failures[0].what, HasSubstr("SIGSEGV"));
  EXPECT_THAT(report.failures[1].what, HasSubstr("watchdog"));
}

TEST_F(SyscallFailerTest, ExecutesAndStillSaysThatItFailed) {
  FaultScenario scenario;
  scenario.body = [] {
    const int fd = memfd_create("executed", MFD_CLOEXEC);
    // Linux has closed it also on EINTR.
    return close(fd) == 0 ? absl::OkStatus() : Error("close");
  };
  scenario.faults = {{.call = "close", .error = EINTR, .executed = true}};
  TENON_ASSERT_OK_AND_ASSIGN(FaultReport report, FailSystemCalls(scenario));
  EXPECT_TRUE(report.ok()) << report.ToString();
  EXPECT_EQ(report.rows[0].runs, 1u);
  EXPECT_THAT(report.rows[0].outcomes, Not(Contains(Key("OK"))));
  // If not executed, it is a leak, and is reported as one.
  scenario.faults = {{.call = "close", .error = EINTR}};
  TENON_ASSERT_OK_AND_ASSIGN(report, FailSystemCalls(scenario));
  EXPECT_FALSE(report.ok());
}

TEST_F(SyscallFailerTest, FailsAllFromTheNthOn) {
  FaultScenario scenario;
  scenario.body = [] {
    int failed = 0;
    for (int i = 0; i < 4; ++i) failed += chdir(".") != 0;
    switch (failed) {
      case 0:
        return absl::OkStatus();
      case 4:
        return absl::DataLossError("all");
      default:
        return absl::UnknownError("some");
    }
  };
  scenario.faults = {{.call = "chdir", .error = EACCES},
                     {.call = "chdir", .error = EACCES, .persistent = true}};
  TENON_ASSERT_OK_AND_ASSIGN(const FaultReport report,
                             FailSystemCalls(scenario));
  EXPECT_THAT(report.rows[0].outcomes, ElementsAre(Pair("UNKNOWN", 4)));
  EXPECT_THAT(report.rows[1].outcomes,
              ElementsAre(Pair("DATA_LOSS", 1), Pair("UNKNOWN", 3)));
}

TEST_F(SyscallFailerTest, Delays) {
  FaultScenario scenario;
  scenario.body = [] {
    const absl::Time began = absl::Now();
    getppid();
    return absl::Now() - began < absl::Milliseconds(20)
               ? absl::OkStatus()
               : absl::DeadlineExceededError("it took long");
  };
  scenario.faults = {{.call = "getppid", .delay = absl::Milliseconds(20)}};
  TENON_ASSERT_OK_AND_ASSIGN(const FaultReport report,
                             FailSystemCalls(scenario));
  EXPECT_THAT(report.rows[0].outcomes,
              ElementsAre(Pair("DEADLINE_EXCEEDED", 1)));
}

TEST_F(SyscallFailerTest, RefusesAnUnknownCall) {
  FaultScenario scenario;
  scenario.body = [] { return absl::OkStatus(); };
  scenario.faults = {{.call = "opneat", .error = ENOENT}};
  EXPECT_THAT(
      FailSystemCalls(scenario),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'opneat'")));
}

TEST_F(SyscallFailerTest, NoFaultIsNoProof) {
  FaultScenario scenario;
  scenario.body = [] { return absl::OkStatus(); };
  scenario.faults = {{.call = "openat", .error = ENOENT}};
  TENON_ASSERT_OK_AND_ASSIGN(FaultReport report, FailSystemCalls(scenario));
  EXPECT_THAT(report.failures, IsEmpty());
  EXPECT_FALSE(report.ok());
  scenario.body = [] { return absl::InternalError("broken anyhow"); };
  TENON_ASSERT_OK_AND_ASSIGN(report, FailSystemCalls(scenario));
  EXPECT_THAT(report.ToString(),
              AllOf(HasSubstr("no fault"), HasSubstr("broken anyhow")));
}

TEST_F(SyscallFailerTest, CountsSystemCalls) {
  EXPECT_THAT(
      CountSyscalls([] {
        for (int i = 0; i < 3; ++i) getppid();
        MakeTwoMemfds().IgnoreError();
      }),
      IsOkAndHolds(ElementsAre(Pair("close", 2), Pair("ftruncate", 2),
                               Pair("getppid", 3), Pair("memfd_create", 2))));
  EXPECT_THAT(CountSyscalls([] {}), IsOkAndHolds(IsEmpty()));
  EXPECT_THAT(CountSyscalls([] { _exit(3); }),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("code 3")));
}

}  // namespace
}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/trace/tracee.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/kill/pin_to_one_core.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm/testing/trace/region.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;
using How = Tracee::How;
using Stop = Tracee::Stop;

class TraceeTest : public testing::Test {
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

// Steps to the end of the region; returns how many steps that took.
uint64_t CountSteps(Tracee& child) {
  uint64_t steps = 0;
  while (!child.region_ended()) {
    EXPECT_THAT(child.Resume(How::kStep), IsOkAndHolds(Stop::kStep));
    if (child.ended() || testing::Test::HasFailure()) break;
    ++steps;
  }
  return steps;
}

uint64_t StepsOf(const std::function<void()>& body) {
  absl::StatusOr<Tracee> child = Tracee::Start({}, [&](const Reporter&) {
    BeginRegion();
    body();
    EndRegion();
  });
  EXPECT_THAT(child, IsOk());
  EXPECT_THAT(child->RunToRegion(), IsOk());
  const uint64_t steps = CountSteps(*child);
  EXPECT_THAT(child->RunToEnd(), IsOk());
  EXPECT_TRUE(child->end().success()) << child->end().ToString();
  return steps;
}

TEST_F(TraceeTest, StepsThroughARegion) {
  const uint64_t empty = StepsOf([] {});
  EXPECT_GT(empty, 3u);
  EXPECT_LT(empty, 60u);  // Calls of std::function, and EndRegion().
#if defined(__x86_64__)
  const uint64_t three = StepsOf([] { asm volatile("nop; nop; nop"); });
  EXPECT_EQ(three, empty + 3);
#endif
}

TEST_F(TraceeTest, ACallOfTheVdsoIsOneStep) {
  const uint64_t vdso = getauxval(AT_SYSINFO_EHDR);
  if (vdso == 0) GTEST_SKIP() << "this kernel has no vDSO";
  TENON_ASSERT_OK_AND_ASSIGN(
      Tracee child, Tracee::Start({}, [](const Reporter&) {
        timespec now = {};
        BeginRegion();
        const int failed = clock_gettime(CLOCK_MONOTONIC, &now);
        EndRegion();
        EXPECT_EQ(failed, 0);
        EXPECT_GT(now.tv_sec + now.tv_nsec, 0);
      }));
  ASSERT_THAT(child.RunToRegion(), IsOk());
  while (!child.region_ended()) {
    ASSERT_THAT(child.Resume(How::kStep), IsOkAndHolds(Stop::kStep));
    TENON_ASSERT_OK_AND_ASSIGN(const uint64_t at, child.InstructionPointer());
    EXPECT_FALSE(at >= vdso && at < vdso + 0x2000) << std::hex << at;
  }
  ASSERT_THAT(child.RunToEnd(), IsOk());
  EXPECT_TRUE(child.end().success()) << child.end().ToString();
}

#if defined(__x86_64__)
TEST_F(TraceeTest, CountsEachRoundOfARepeatedInstruction) {
  const auto copy = [](uint64_t count) {
    return [count] {
      char from[64] = {}, to[64];
      const char* source = from;
      char* target = to;
      uint64_t left = count;
      asm volatile("rep movsb"
                   : "+S"(source), "+D"(target), "+c"(left)
                   :
                   : "memory");
    };
  };
  EXPECT_EQ(StepsOf(copy(40)), StepsOf(copy(10)) + 30);
}

#define TENON_GETPPID_ "mov %0, %%eax; syscall;"
TEST_F(TraceeTest, CountsASystemCallAsOne) {
  const uint64_t one = StepsOf([] {
    asm volatile(TENON_GETPPID_
                 :
                 : "i"(SYS_getppid)
                 : "rax", "rcx", "r11", "memory");
  });
  const uint64_t three = StepsOf([] {
    asm volatile(TENON_GETPPID_ TENON_GETPPID_ TENON_GETPPID_
                 :
                 : "i"(SYS_getppid)
                 : "rax", "rcx", "r11", "memory");
  });
  EXPECT_EQ(three, one + 2 * 2);
}

extern "C" const char tenon_tracee_test_round[];

[[gnu::noinline]] void Round(std::atomic<int>& rounds) {
  rounds.fetch_add(1);
  asm volatile(
      ".globl tenon_tracee_test_round\n"
      "tenon_tracee_test_round: nop"
      :
      :
      : "memory");
}

TEST_F(TraceeTest, StopsAtABreakpointAtEachArrival) {
  SharedObject<std::atomic<int>> rounds;
  TENON_ASSERT_OK_AND_ASSIGN(Tracee child,
                             Tracee::Start({}, [&](const Reporter&) {
                               BeginRegion();
                               for (int i = 0; i < 5; ++i) Round(*rounds);
                               EndRegion();
                             }));
  ASSERT_THAT(child.RunToRegion(), IsOk());
  const auto address = reinterpret_cast<uint64_t>(tenon_tracee_test_round);
  ASSERT_THAT(child.SetBreakpoint(address), IsOk());
  for (int round = 1; round <= 3; ++round) {
    EXPECT_THAT(child.Resume(How::kRun), IsOkAndHolds(Stop::kBreakpoint));
    EXPECT_THAT(child.InstructionPointer(), IsOkAndHolds(address));
    EXPECT_EQ(*rounds, round);
  }
  ASSERT_THAT(child.SetBreakpoint(0), IsOk());
  EXPECT_THAT(child.Resume(How::kRun), IsOkAndHolds(Stop::kEnded));
  EXPECT_EQ(*rounds, 5);
}
#endif

std::atomic<int> handled{0};
void Handle(int) { handled.fetch_add(1); }

TEST_F(TraceeTest, DeliversSignals) {
  EXPECT_GT(StepsOf([] {
              signal(SIGUSR1, Handle);
              raise(SIGUSR1);
              // SIGTRAP too, which looks like a step.
              signal(SIGTRAP, Handle);
              raise(SIGTRAP);
              EXPECT_EQ(handled, 2);
              raise(SIGSTOP);  // Dropped: no process would resume it.
            }),
            100u);
}

TEST_F(TraceeTest, SeesTheVictimDieByItself) {
  TENON_ASSERT_OK_AND_ASSIGN(Tracee child,
                             Tracee::Start({}, [](const Reporter&) {
                               BeginRegion();
                               signal(SIGSEGV, SIG_DFL);
                               raise(SIGSEGV);
                               EndRegion();
                             }));
  ASSERT_THAT(child.RunToRegion(), IsOk());
  for (int i = 0; i < 100000 && !child.ended(); ++i) {
    ASSERT_THAT(child.Resume(How::kStep), IsOk());
  }
  EXPECT_TRUE(child.ended());
  EXPECT_FALSE(child.region_ended());
  EXPECT_EQ(child.end().signal, SIGSEGV);
}

TEST_F(TraceeTest, TellsThatThereIsNoRegion) {
  TENON_ASSERT_OK_AND_ASSIGN(Tracee child,
                             Tracee::Start({}, [](const Reporter& reporter) {
                               reporter.Fail("forgot it");
                             }));
  EXPECT_THAT(
      child.RunToRegion(),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("forgot it")));
}

TEST_F(TraceeTest, WatchdogEndsABlockedVictim) {
  TENON_ASSERT_OK_AND_ASSIGN(
      Tracee child,
      Tracee::Start({.watchdog = absl::Milliseconds(50)}, [](const Reporter&) {
        BeginRegion();
        for (;;) pause();
      }));
  ASSERT_THAT(child.RunToRegion(), IsOk());
  for (int i = 0; i < 100000 && !child.ended(); ++i) {
    ASSERT_THAT(child.Resume(How::kStep), IsOk());
  }
  EXPECT_TRUE(child.ended());
  EXPECT_THAT(child.child().Describe(child.end()), HasSubstr("watchdog"));
}

TEST_F(TraceeTest, TellsTheEndOfWhatIsKilledWhileItIsStopped) {
  TENON_ASSERT_OK_AND_ASSIGN(
      Tracee child, Tracee::Start({}, [](const Reporter&) { BeginRegion(); }));
  ASSERT_THAT(child.RunToRegion(), IsOk());
  ASSERT_THAT(child.child().pid_fd().SendSignal(SIGKILL), IsOk());
  ASSERT_THAT(
      child.child().pid_fd().WaitForEnd(Deadline::After(absl::Seconds(20))),
      IsOk());
  EXPECT_THAT(child.InstructionPointer(), IsOkAndHolds(Tracee::kGone));
  EXPECT_THAT(child.SetSyscallError(EIO), IsOk());
  EXPECT_FALSE(child.AtSyscall());
  EXPECT_THAT(child.Resume(How::kStep), IsOkAndHolds(Stop::kEnded));
  EXPECT_EQ(child.end().signal, SIGKILL);
}

TEST_F(TraceeTest, SkipsAndFailsSystemCalls) {
  SharedObject<std::atomic<int>> error;
  TENON_ASSERT_OK_AND_ASSIGN(Tracee child,
                             Tracee::Start({}, [&](const Reporter&) {
                               BeginRegion();
                               *error = chdir("/") == 0 ? 0 : errno;
                               EndRegion();
                             }));
  ASSERT_THAT(child.RunToRegion(), IsOk());
  ASSERT_THAT(child.Resume(How::kSyscall), IsOkAndHolds(Stop::kSyscallStop));
  EXPECT_THAT(child.SyscallNumber(), IsOkAndHolds(uint64_t{SYS_chdir}));
  ASSERT_THAT(child.SkipSyscall(), IsOk());
  ASSERT_THAT(child.Resume(How::kSyscall), IsOkAndHolds(Stop::kSyscallStop));
  ASSERT_THAT(child.SetSyscallError(ENFILE), IsOk());
  ASSERT_THAT(child.RunToEnd(), IsOk());
  EXPECT_TRUE(child.end().success());
  EXPECT_EQ(*error, ENFILE);
}

TEST_F(TraceeTest, KillsBeforeTheNextInstruction) {
  SharedObject<std::atomic<int>> stored;
  TENON_ASSERT_OK_AND_ASSIGN(Tracee child,
                             Tracee::Start({}, [&](const Reporter&) {
                               BeginRegion();
                               *stored = 1;
                               EndRegion();
                             }));
  ASSERT_THAT(child.RunToRegion(), IsOk());
  child.Kill();
  EXPECT_TRUE(child.ended());
  EXPECT_EQ(child.end().signal, SIGKILL);
  EXPECT_EQ(*stored, 0);
}

// A tracer's death kills its tracee, also a stopped one.
TEST_F(TraceeTest, DiesWithItsTracer) {
  SharedObject<std::atomic<pid_t>> pid;
  TENON_ASSERT_OK_AND_ASSIGN(
      ForkedChild tracer, ForkedChild::Fork({}, [&](const Reporter&) {
        absl::StatusOr<Tracee> child =
            Tracee::Start({}, [](const Reporter&) { BeginRegion(); });
        if (!child->RunToRegion().ok()) _exit(1);
        *pid = child->child().pid();
        kill(getpid(), SIGKILL);
      }));
  TENON_ASSERT_OK_AND_ASSIGN(const ExitStatus end,
                             tracer.Wait(Deadline::After(absl::Seconds(20))));
  EXPECT_EQ(end.signal, SIGKILL);
  ASSERT_GT(pid->load(), 0);
  const Deadline deadline = Deadline::After(absl::Seconds(20));
  while (ProcessState(*pid) != 0 && ProcessState(*pid) != 'Z' &&
         !deadline.has_passed()) {
    usleep(1000);
  }
  EXPECT_FALSE(deadline.has_passed());
}

TEST(RegionTest, DoesNothingWithoutATracer) {
  BeginRegion();
  EndRegion();
}

TEST(PinToOneCoreTest, IsRestored) {
  cpu_set_t before, within, after;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  {
    const PinToOneCore pinned;
    ASSERT_EQ(sched_getaffinity(0, sizeof(within), &within), 0);
    EXPECT_EQ(CPU_COUNT(&within), 1);
  }
  ASSERT_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

}  // namespace
}  // namespace tenon

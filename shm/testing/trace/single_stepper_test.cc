// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/trace/single_stepper.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <iostream>
#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/kill/two_word_record.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm/testing/trace/region.h"
#include "tenon/shm/testing/trace/step_report.h"
#include "tenon/shm/testing/trace/tracee.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SingleStepperTest : public testing::Test {
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

// Overwrites a record that has been written before.
template <typename Record>
StepScenario Write(SharedObject<Record>& record) {
  StepScenario scenario;
  scenario.prepare = [&] {
    record.Reset();
    record->Write(1);
  };
  scenario.victim = [&](const Reporter&) {
    BeginRegion();
    record->Write(2);
    EndRegion();
  };
  scenario.check = [&](const StepPosition&) { return record->Check(); };
  scenario.max_failures = 1000;
  return scenario;
}

TEST_F(SingleStepperTest, CatchesTheBrokenRecordBetweenTheStores) {
  SharedObject<BrokenRecord> record;
  StepScenario scenario = Write(record);
  scenario.name = "broken record";
  std::map<uint64_t, uint64_t> addresses;  // By position.
  scenario.check = [&](const StepPosition& position) {
    addresses[position.index] = position.address;
    return record->Check();
  };
  TENON_ASSERT_OK_AND_ASSIGN(const StepReport report,
                             KillAtEveryInstruction(scenario));
  std::cout << report.ToString();
  EXPECT_FALSE(report.ok());
  EXPECT_EQ(report.positions, report.instructions + 1);
  ASSERT_FALSE(report.failures.empty());
  // All positions from after the first store until before the second one, and
  // no other.
  const uint64_t first = report.failures.front().index;
  EXPECT_EQ(addresses.at(first - 1), BrokenRecord::FirstStore());
  EXPECT_EQ(report.failures.back().address, BrokenRecord::SecondStore());
  for (size_t i = 0; i < report.failures.size(); ++i) {
    EXPECT_EQ(report.failures[i].index, first + i);
    EXPECT_THAT(report.failures[i].what, HasSubstr("the words are 2 and 1"));
  }
  EXPECT_THAT(report.failures.front().where,
              HasSubstr("tenon::BrokenRecord::Write"));
}

TEST_F(SingleStepperTest, FindsTheSameByStepsAlone) {
  SharedObject<BrokenRecord> record;
  StepScenario scenario = Write(record);
  TENON_ASSERT_OK_AND_ASSIGN(const StepReport fast,
                             KillAtEveryInstruction(scenario));
  scenario.use_breakpoints = false;
  TENON_ASSERT_OK_AND_ASSIGN(const StepReport slow,
                             KillAtEveryInstruction(scenario));
  EXPECT_EQ(fast.instructions, slow.instructions);
  ASSERT_EQ(fast.failures.size(), slow.failures.size());
  for (size_t i = 0; i < fast.failures.size(); ++i) {
    EXPECT_EQ(fast.failures[i].index, slow.failures[i].index);
    EXPECT_EQ(fast.failures[i].address, slow.failures[i].address);
  }
  EXPECT_EQ(slow.stops, slow.instructions * (slow.instructions + 1) / 2 +
                            scenario.first_runs * slow.instructions);
  EXPECT_LT(fast.stops, slow.stops);
}

TEST_F(SingleStepperTest, PassesTheRepairedRecord) {
  SharedObject<RepairedRecord> record;
  StepScenario scenario = Write(record);
  scenario.name = "repaired record";
  TENON_ASSERT_OK_AND_ASSIGN(const StepReport report,
                             KillAtEveryInstruction(scenario));
  std::cout << report.ToString();
  EXPECT_TRUE(report.ok()) << report.ToString();
  EXPECT_EQ(report.positions, report.instructions + 1);
  EXPECT_EQ(report.diverged, 0u);
}

TEST_F(SingleStepperTest, PausedWritersShowWhatOthersMeet) {
  SharedObject<BrokenRecord> broken;
  StepScenario scenario = Write(broken);
  scenario.fate = StepFate::kPause;
  TENON_ASSERT_OK_AND_ASSIGN(StepReport report,
                             KillAtEveryInstruction(scenario));
  ASSERT_FALSE(report.failures.empty());
  EXPECT_EQ(report.failures.back().address, BrokenRecord::SecondStore());
  SharedObject<RepairedRecord> repaired;
  scenario = Write(repaired);
  scenario.name = "repaired record, paused";
  scenario.fate = StepFate::kPause;
  TENON_ASSERT_OK_AND_ASSIGN(report, KillAtEveryInstruction(scenario));
  EXPECT_TRUE(report.ok()) << report.ToString();
}

// A store after each of 300 rounds: killed at position i, the stored count is
// never ahead of, nor far behind, the executed instructions.
TEST_F(SingleStepperTest, KillsWhereItSays) {
  SharedObject<std::atomic<uint64_t>> count;
  StepScenario scenario;
  scenario.name = "loop";
  scenario.prepare = [&] { count.Reset(); };
  scenario.victim = [&](const Reporter&) {
    BeginRegion();
    for (int i = 0; i < 20; ++i) count->fetch_add(1);
    EndRegion();
  };
  uint64_t last = 0;
  std::set<uint64_t> seen;
  scenario.check = [&](const StepPosition& position) {
    if (position.moment == StepMoment::kEnded) return absl::OkStatus();
    EXPECT_EQ(position.moment, StepMoment::kKilled);
    EXPECT_TRUE(position.victim->HasEnded());
    EXPECT_GE(count->load(), last);
    last = count->load();
    seen.insert(last);
    return absl::OkStatus();
  };
  TENON_ASSERT_OK_AND_ASSIGN(const StepReport report,
                             KillAtEveryInstruction(scenario));
  EXPECT_TRUE(report.ok()) << report.ToString();
  EXPECT_EQ(report.diverged, 0u);
  EXPECT_EQ(seen.size(), 21u);
  EXPECT_GE(report.instructions, 40u);
}

#if defined(__x86_64__)
TEST_F(SingleStepperTest, KillsBetweenRoundsOfARepeatedInstruction) {
  struct Target {
    char bytes[16] = {};
  };
  SharedObject<Target> target;
  StepScenario scenario;
  scenario.prepare = [&] { target.Reset(); };
  scenario.victim = [&](const Reporter&) {
    char* to = target->bytes;
    uint64_t left = sizeof(target->bytes);
    BeginRegion();
    asm volatile("rep stosb" : "+D"(to), "+c"(left) : "a"('x') : "memory");
    EndRegion();
  };
  std::set<uint64_t> lengths;
  scenario.check = [&](const StepPosition&) {
    lengths.insert(std::string(target->bytes, 16).find('\0'));
    return absl::OkStatus();
  };
  TENON_ASSERT_OK_AND_ASSIGN(const StepReport report,
                             KillAtEveryInstruction(scenario));
  EXPECT_TRUE(report.ok()) << report.ToString();
  EXPECT_EQ(lengths.size(), 17u);
}
#endif

StepScenario SystemCalls(const std::string& name) {
  StepScenario scenario;
  scenario.name = "system calls";
  scenario.victim = [name](const Reporter&) {
    BeginRegion();
    const int fd = shm_open(name.c_str(), O_CREAT | O_RDWR, 0600);
    for (int i = 0; i < 100; ++i) asm volatile("" : : : "memory");
    shm_unlink(name.c_str());
    close(fd);
    EndRegion();
  };
  scenario.max_failures = 100000;
  return scenario;
}

// The kernel's code in the process is one position, that of the C library not.
TEST_F(SingleStepperTest, StepsAroundTheVdso) {
  StepScenario scenario;
  scenario.name = "clock_gettime";
  scenario.victim = [](const Reporter&) {
    timespec now;
    BeginRegion();
    clock_gettime(CLOCK_MONOTONIC, &now);
    EndRegion();
  };
  TENON_ASSERT_OK_AND_ASSIGN(const StepReport report,
                             KillAtEveryInstruction(scenario));
  EXPECT_TRUE(report.failures.empty()) << report.ToString();
  EXPECT_GT(report.positions, 10u);
}

TEST_F(SingleStepperTest, ReportsNamesThatAreLeftAndRemovesThem) {
  const std::string prefix = UniqueShmPrefix();
  StepScenario scenario = SystemCalls(absl::StrCat("/", prefix, "-left"));
  scenario.shm_prefix = prefix;
  scenario.stride = 0;
  scenario.around_syscalls = true;
  TENON_ASSERT_OK_AND_ASSIGN(const StepReport report,
                             KillAtEveryInstruction(scenario));
  std::cout << report.ToString();
  EXPECT_GE(report.syscalls, 3u);
  EXPECT_LE(report.positions, 2 * report.syscalls);
  // After it was created, and before it was removed.
  EXPECT_EQ(report.failures.size(), 2u) << report.ToString();
  for (const StepFailure& failure : report.failures) {
    EXPECT_THAT(failure.what, HasSubstr(prefix));
  }
  EXPECT_EQ(TakeCensus({.shm_prefix = prefix}).Count("name"), 0u);
}

TEST_F(SingleStepperTest, SelectsPositions) {
  const std::string prefix = UniqueShmPrefix();
  const ShmNamesGuard names(prefix);
  StepScenario scenario = SystemCalls(absl::StrCat("/", prefix, "-x"));
  scenario.stride = 50;
  TENON_ASSERT_OK_AND_ASSIGN(StepReport report,
                             KillAtEveryInstruction(scenario));
  EXPECT_EQ(report.positions, report.instructions / 50 + 1);
  EXPECT_THAT(report.ToString(), HasSubstr("one position in 50"));
  scenario.stride = 0;
  scenario.random = 10;
  scenario.seed = 7;
  TENON_ASSERT_OK_AND_ASSIGN(report, KillAtEveryInstruction(scenario));
  EXPECT_EQ(report.positions, 10u);
  EXPECT_THAT(report.ToString(), HasSubstr("10 random positions, seed 7"));
}

TEST_F(SingleStepperTest, LeavesOutWhatIsFar) {
  SharedObject<RepairedRecord> record;
  StepScenario scenario = Write(record);
  scenario.use_breakpoints = false;
  scenario.max_stops = 5;
  TENON_ASSERT_OK_AND_ASSIGN(const StepReport report,
                             KillAtEveryInstruction(scenario));
  EXPECT_TRUE(report.ok()) << report.ToString();
  EXPECT_EQ(report.positions, 6u);
  EXPECT_THAT(report.selection, HasSubstr("more than 5 stops away"));
}

TEST_F(SingleStepperTest, ReportsAVictimThatDiesByItself) {
  StepScenario scenario;
  scenario.victim = [](const Reporter&) {
    BeginRegion();
    raise(SIGTERM);
    EndRegion();
  };
  EXPECT_THAT(KillAtEveryInstruction(scenario),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("SIGTERM")));
}

TEST_F(SingleStepperTest, ReportsWhatTheVictimFindsBroken) {
  StepScenario scenario;
  scenario.victim = [](const Reporter& reporter) {
    BeginRegion();
    EndRegion();
    reporter.Fail("no luck");
  };
  TENON_ASSERT_OK_AND_ASSIGN(const StepReport report,
                             KillAtEveryInstruction(scenario));
  EXPECT_FALSE(report.ok());
  EXPECT_THAT(report.ToString(), HasSubstr("the victim: no luck"));
}

TEST_F(SingleStepperTest, StepsToWhatAnotherPathHides) {
  // All runs but the first one have fewer iterations.
  StepScenario scenario;
  int runs = 0;
  scenario.prepare = [&] { ++runs; };
  scenario.victim = [&](const Reporter&) {
    BeginRegion();
    for (int i = runs == 1 ? 0 : 20; i < 30; ++i)
      asm volatile("" : : : "memory");
    EndRegion();
  };
  // Of two recordings the shorter one counts.
  TENON_ASSERT_OK_AND_ASSIGN(const StepReport usual,
                             KillAtEveryInstruction(scenario));
  EXPECT_EQ(usual.diverged, 0u);
  EXPECT_TRUE(usual.ok()) << usual.ToString();

  runs = 0;
  scenario.first_runs = 1;
  TENON_ASSERT_OK_AND_ASSIGN(const StepReport report,
                             KillAtEveryInstruction(scenario));
  EXPECT_GT(report.diverged, 0u);
  EXPECT_GT(report.missed, 0u);
  EXPECT_EQ(report.positions + report.missed, report.instructions + 1);
  EXPECT_FALSE(report.ok());
  EXPECT_THAT(report.ToString(),
              AllOf(HasSubstr("took another path"), HasSubstr("MISSED")));
}

TEST_F(SingleStepperTest, StepsFromTheLastPositionOfTheSamePath) {
  StepScenario scenario;
  int runs = 0;
  scenario.prepare = [&] { ++runs; };
  scenario.victim = [&](const Reporter&) {
    BeginRegion();
    for (int i = 0; i < 1000; ++i) asm volatile("" : : : "memory");
    if (runs == 1) {
      asm volatile("nop; nop; nop; nop; nop; nop; nop; nop; nop; nop");
    } else {
      asm volatile("nop; nop; nop; nop; nop; nop; nop; nop; nop; nop;");
    }
    EndRegion();
  };
  scenario.first_runs = 1;
  scenario.max_stops = 10;
  TENON_ASSERT_OK_AND_ASSIGN(const StepReport report,
                             KillAtEveryInstruction(scenario));
  EXPECT_GE(report.diverged, 10u);
  // Each from the start would take the stops of a recording.
  EXPECT_LT(report.stops, 2 * report.instructions);
  EXPECT_TRUE(report.ok()) << report.ToString();
}

TEST_F(SingleStepperTest, GivesUpWhenItTakesTooLong) {
  SharedObject<RepairedRecord> record;
  StepScenario scenario = Write(record);
  scenario.budget = absl::ZeroDuration();
  TENON_ASSERT_OK_AND_ASSIGN(const StepReport report,
                             KillAtEveryInstruction(scenario));
  EXPECT_TRUE(report.given_up);
  EXPECT_FALSE(report.ok());
}

TEST_F(SingleStepperTest, ReportsALeakOfTheCheck) {
  StepScenario scenario;
  scenario.victim = [](const Reporter&) {
    BeginRegion();
    EndRegion();
  };
  scenario.stride = 1000;
  int fd = -1;
  scenario.check = [&](const StepPosition& position) {
    if (position.moment == StepMoment::kKilled) {
      fd = memfd_create("leak", MFD_CLOEXEC);
    }
    return absl::OkStatus();
  };
  TENON_ASSERT_OK_AND_ASSIGN(const StepReport report,
                             KillAtEveryInstruction(scenario));
  EXPECT_FALSE(report.ok());
  EXPECT_THAT(report.ToString(),
              AllOf(HasSubstr("left in the test"), HasSubstr("/memfd:leak")));
  close(fd);
}

}  // namespace
}  // namespace tenon

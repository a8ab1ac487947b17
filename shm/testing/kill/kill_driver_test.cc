// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/kill/kill_driver.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/kill/kill_report.h"
#include "tenon/shm/testing/kill/kill_scenario.h"
#include "tenon/shm/testing/kill/peer.h"
#include "tenon/shm/testing/kill/two_word_record.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

class KillDriverTest : public testing::Test {
 protected:
  KillDriverTest() : before_(TakeCensus()) {}
  ~KillDriverTest() override { EXPECT_TRUE(ExpectSame(before_, TakeCensus())); }
  const Census before_;
};

// A writer writes two values; a reader checks after each, and so does a later
// process when all have ended.
template <typename Record>
KillScenario WriterAndReader(SharedObject<Record>& record) {
  KillScenario scenario;
  scenario.prepare = [&] { record.Reset(); };
  scenario.roles = {{"writer",
                     [&](Peer& self) {
                       for (uint64_t value : {1, 2}) {
                         record->Write(value);
                         self.Step("written");
                       }
                     }},
                    {"reader", [&](Peer& self) {
                       for (int i = 0; i < 2; ++i) {
                         // The writer may have been killed.
                         self.Await("writer", "written").IgnoreError();
                         EXPECT_THAT(record->Check(), IsOk());
                       }
                     }}};
  scenario.check = [&](const Reporter&, const std::vector<KillOrder>&) {
    EXPECT_THAT(record->Check(), IsOk());
  };
  return scenario;
}

TEST_F(KillDriverTest, CatchesTheBrokenRecordAtTheGuiltyPoint) {
  SharedObject<BrokenRecord> record;
  KillScenario scenario = WriterAndReader(record);
  scenario.name = "broken record";
  scenario.points = "broken_record.";
  const KillReport report = RunKillMatrix(scenario);
  std::cout << report.ToString();
  EXPECT_FALSE(report.ok());
  EXPECT_FALSE(report.failures.empty());
  for (const KillFailure& failure : report.failures) {
    EXPECT_EQ(failure.role, "writer");
    EXPECT_EQ(failure.point, "broken_record.first_stored");
    EXPECT_THAT(failure.what, HasSubstr("the words are"));
  }
  // Both passings of it, and no other.
  EXPECT_EQ(report.table.at("broken_record.begun").at("writer").failures, 0u);
  EXPECT_EQ(report.table.at("broken_record.first_stored").at("writer").failures,
            2u);
  EXPECT_EQ(
      report.table.at("broken_record.second_stored").at("writer").failures, 0u);
  EXPECT_EQ(report.kills, 6u);
}

TEST_F(KillDriverTest, PassesTheRepairedRecord) {
  SharedObject<RepairedRecord> record;
  KillScenario scenario = WriterAndReader(record);
  scenario.name = "repaired record";
  scenario.points = "repaired_record.";
  const KillReport report = RunKillMatrix(scenario);
  std::cout << report.ToString();
  EXPECT_TRUE(report.ok()) << report.ToString();
  EXPECT_EQ(report.kills, 8u);  // 4 points, 2 passings.
  // And for each point one without a kill, and the first one.
  EXPECT_EQ(report.runs, 8u + 4u + 1u);
}

TEST_F(KillDriverTest, PassesTheRepairedRecordWithAStoppedWriter) {
  SharedObject<RepairedRecord> record;
  KillScenario scenario = WriterAndReader(record);
  scenario.name = "repaired record, stopped";
  scenario.points = "repaired_record.";
  scenario.method = KillMethod::kStop;
  scenario.stop_for = absl::Milliseconds(2);
  // It continues after a while: now the reader must get both.
  scenario.roles[1].body = [&](Peer& self) {
    for (int i = 0; i < 2; ++i) {
      EXPECT_THAT(self.Await("writer", "written"), IsOk());
      EXPECT_THAT(record->Check(), IsOk());
    }
  };
  const KillReport report = RunKillMatrix(scenario);
  EXPECT_TRUE(report.ok()) << report.ToString();
  EXPECT_EQ(report.kills, 8u);
}

void Passes(const char* which) {
  if (which[0] == 'a') TENON_CRASH_POINT("kill_driver_test.a");
  if (which[0] == 'b') TENON_CRASH_POINT("kill_driver_test.b");
  if (which[0] == 'c') TENON_CRASH_POINT("kill_driver_test.c");
}

// Two roles; "one" passes a and b.
KillScenario TwoRoles() {
  KillScenario scenario;
  scenario.name = "two roles";
  scenario.points = "kill_driver_test.";
  scenario.roles = {{"one",
                     [](Peer&) {
                       Passes("a");
                       Passes("b");
                     }},
                    {"two", [](Peer&) {}}};
  return scenario;
}

TEST_F(KillDriverTest, ReportsAPointThatNoRunReached) {
  const KillReport report = RunKillMatrix(TwoRoles());
  EXPECT_FALSE(report.ok());
  EXPECT_THAT(report.failures, IsEmpty());
  EXPECT_THAT(report.unreached, ElementsAre("kill_driver_test.c"));
  EXPECT_THAT(report.ToString(), HasSubstr("NOT REACHED: kill_driver_test.c"));
}

TEST_F(KillDriverTest, ReachesPointsInRecoveryAndCheck) {
  KillScenario scenario = TwoRoles();
  scenario.roles[1].body = [](Peer& self) {
    if (self.Await("one", "never").ok()) self.Fail("what?");
  };
  scenario.check = [](const Reporter&, const std::vector<KillOrder>& fired) {
    if (!fired.empty() && fired[0].point == "kill_driver_test.b") Passes("c");
  };
  const KillReport report = RunKillMatrix(scenario);
  EXPECT_TRUE(report.ok()) << report.ToString();
  EXPECT_THAT(report.unreached, IsEmpty());
}

TEST_F(KillDriverTest, NothingKilledIsNothingProven) {
  KillScenario scenario = TwoRoles();
  scenario.points = "kill_driver_test.nothing";
  const KillReport report = RunKillMatrix(scenario);
  EXPECT_THAT(report.unreached, IsEmpty());
  EXPECT_FALSE(report.ok());
  EXPECT_THAT(report.ToString(), HasSubstr("NO KILL"));
}

// The second role reclaims the state that the first one leaves, and is killed
// meanwhile.
TEST_F(KillDriverTest, KillsPairs) {
  KillScenario scenario = TwoRoles();
  scenario.victims = 2;
  scenario.roles[1].body = [](Peer& self) {
    // Either the step arrived, or the role was killed.
    if (!self.Await("one", "done").ok()) Passes("c");
  };
  scenario.roles[0].body = [](Peer& self) {
    Passes("a");
    Passes("b");
    self.Step("done");
  };
  SharedObject<std::atomic<int>> pairs;
  scenario.check = [&](const Reporter&, const std::vector<KillOrder>& fired) {
    if (fired.size() == 2) ++*pairs;
  };
  const KillReport report = RunKillMatrix(scenario);
  EXPECT_TRUE(report.ok()) << report.ToString();
  EXPECT_EQ(*pairs, 2);  // {a, c} and {b, c}.
  EXPECT_EQ(report.kills, 4u);
}

TEST_F(KillDriverTest, KillsAGrandchildThatPasses) {
  KillScenario scenario = TwoRoles();
  scenario.roles = {{"one", [](Peer& self) {
                       Passes("a");
                       const pid_t pid = fork();
                       if (pid == 0) {
                         Passes("b");
                         Passes("c");
                         _exit(0);
                       }
                       int status;
                       if (waitpid(pid, &status, 0) != pid) self.Fail("wait");
                       self.Note(WIFSIGNALED(status) ? "killed" : "lived");
                     }}};
  const KillReport report = RunKillMatrix(scenario);
  EXPECT_TRUE(report.ok()) << report.ToString();
  EXPECT_THAT(report.notes,
              UnorderedElementsAre(Pair("killed", 2), Pair("lived", 1 + 3)));
}

TEST_F(KillDriverTest, ReportsWhatIsLeftAndRemovesIt) {
  KillScenario scenario = TwoRoles();
  scenario.shm_prefix = UniqueShmPrefix();
  const std::string name = absl::StrCat("/", scenario.shm_prefix, "-left");
  scenario.roles[0].body = [&](Peer&) {
    close(shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600));
    Passes("a");
    shm_unlink(name.c_str());
    Passes("b");
    Passes("c");
  };
  const KillReport report = RunKillMatrix(scenario);
  ASSERT_EQ(report.failures.size(), 1u) << report.ToString();
  EXPECT_EQ(report.failures[0].point, "kill_driver_test.a");
  EXPECT_THAT(report.failures[0].what,
              AllOf(HasSubstr("left behind"), HasSubstr(name.substr(1))));
  EXPECT_EQ(TakeCensus({.shm_prefix = scenario.shm_prefix}).Count("name"), 0u);
}

TEST_F(KillDriverTest, ReportsAndEndsAProcessThatIsLeft) {
  KillScenario scenario = TwoRoles();
  scenario.max_failures = 1;
  scenario.roles[0].body = [](Peer&) {
    if (fork() == 0) {
      signal(SIGTERM, SIG_IGN);
      for (;;) pause();
    }
  };
  const KillReport report = RunKillMatrix(scenario);
  ASSERT_EQ(report.failures.size(), 1u) << report.ToString();
  EXPECT_THAT(report.failures[0].what, HasSubstr("was left"));
  EXPECT_TRUE(report.given_up || report.kills == 0);
}

TEST_F(KillDriverTest, ReportsWhoHangsAndWhoCrashes) {
  KillScenario scenario = TwoRoles();
  scenario.watchdog = absl::Milliseconds(100);
  scenario.roles[0].body = [](Peer&) { pause(); };
  scenario.roles[1].body = [](Peer&) { raise(SIGTERM); };
  const KillReport report = RunKillMatrix(scenario);
  std::vector<std::string> what;
  for (const KillFailure& failure : report.failures) {
    what.push_back(failure.what);
  }
  EXPECT_THAT(what, ElementsAre(HasSubstr("one was killed by its watchdog"),
                                AllOf(HasSubstr("two"), HasSubstr("SIGTERM"))));
}

TEST_F(KillDriverTest, GivesUpWhenAllIsBroken) {
  KillScenario scenario = TwoRoles();
  scenario.max_failures = 2;
  scenario.check = [](const Reporter& reporter, const std::vector<KillOrder>&) {
    reporter.Fail("bad");
  };
  const KillReport report = RunKillMatrix(scenario);
  EXPECT_TRUE(report.given_up);
  EXPECT_EQ(report.runs, 2u);
  EXPECT_THAT(report.ToString(), HasSubstr("GIVEN UP"));
}

TEST_F(KillDriverTest, RepeatsEachRun) {
  KillScenario scenario = TwoRoles();
  scenario.repeat = 3;
  SharedObject<std::atomic<int>> prepared;
  scenario.prepare = [&] { ++*prepared; };
  const KillReport report = RunKillMatrix(scenario);
  EXPECT_EQ(report.kills, 6u);
  EXPECT_EQ(report.runs, static_cast<size_t>(prepared->load()));
}

}  // namespace
}  // namespace tenon

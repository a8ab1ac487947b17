// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/settings/inherited_setting.h"

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/fork_server/fork_server.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/settings/start_method.h"
#include "tenon/spawn/testing/child_testing.h"

namespace tenon::spawn {
namespace {

using ::testing::HasSubstr;

// Like a log library's: a variable that is set by flags and calls.
int log_level = 0;

std::string SaveLogLevel() { return absl::StrCat(log_level); }
absl::Status SetLogLevel(absl::string_view saved) {
  if (absl::SimpleAtoi(saved, &log_level) && log_level < 100) {
    return absl::OkStatus();
  }
  return absl::OutOfRangeError("no such level");
}
TENON_SPAWN_INHERIT("log level", SaveLogLevel, SetLogLevel);

std::string ballast;
std::string SaveBallast() { return ballast; }
absl::Status SetBallast(absl::string_view saved) {
  ballast = std::string(saved);
  return absl::OkStatus();
}
TENON_SPAWN_INHERIT("ballast", SaveBallast, SetBallast);

class InheritedSettingTest : public ChildTest {
 protected:
  void TearDown() override {
    log_level = 0;
    ballast.clear();
    StopForkServer();
    ChildTest::TearDown();
  }
};

absl::Status TellSettings(Child& child) {
  return Say(child, absl::StrCat(log_level, " ", ballast.size()));
}
TENON_SPAWN_ENTRY("tell-settings", TellSettings);

TEST_F(InheritedSettingTest, ChildHasWhatItsParentHasAtItsStart) {
  for (const StartMethod method : AllStartMethods()) {
    for (const int level : {3, 5}) {
      log_level = level;
      ballast = std::string(1000, '\0');
      EXPECT_THAT(AnswerOf({.entry = "tell-settings", .method = method}),
                  IsOkAndHolds(absl::StrCat(level, " 1000")))
          << StartMethodName(method);
    }
  }
}

absl::Status PassOn(Child& child) {
  ++log_level;
  TENON_ASSIGN_OR_RETURN(const std::string said,
                         AnswerOf({.entry = "tell-settings"}));
  return Say(child, said);
}
TENON_SPAWN_ENTRY("pass-on", PassOn);

TEST_F(InheritedSettingTest, GrandchildHasItFromItsParent) {
  log_level = 7;
  EXPECT_THAT(AnswerOf({.entry = "pass-on"}), IsOkAndHolds("8 0"));
}

TEST_F(InheritedSettingTest, OneThatCannotBeSetEndsTheChildAndSaysSo) {
  log_level = 100;
  TENON_ASSERT_OK_AND_ASSIGN(Process one,
                             Process::Start({.entry = "tell-settings"}));
  EXPECT_THAT(one.Join(Watchdog()),
              StatusIs(absl::StatusCode::kOutOfRange,
                       HasSubstr("'log level': no such level")));
}

TEST_F(InheritedSettingTest, TooMuchIsAnErrorAtTheStart) {
  ballast = std::string(70'000, 'x');
  EXPECT_THAT(Process::Start({.entry = "tell-settings"}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("inherited settings")));
}

TEST_F(InheritedSettingTest, BytesThatAreCutOffAreRefused) {
  log_level = 4;
  const std::string whole = SaveInheritedSettings();
  EXPECT_THAT(ApplyInheritedSettings(whole), IsOk());
  EXPECT_THAT(ApplyInheritedSettings(""), IsOk());
  for (size_t size = 1; size < whole.size(); ++size) {
    EXPECT_THAT(
        ApplyInheritedSettings(absl::string_view(whole).substr(0, size)),
        StatusIs(absl::StatusCode::kDataLoss))
        << size;
  }
  EXPECT_THAT(ApplyInheritedSettings(whole + "x"),
              StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(InheritedSettingTest, UnknownOneIsLeftOut) {
  log_level = 4;
  std::string saved = SaveInheritedSettings();
  const size_t name = saved.find("log level");
  ASSERT_NE(name, std::string::npos);
  saved.replace(name, 9, "log lavel");
  log_level = 1;
  EXPECT_THAT(ApplyInheritedSettings(saved), IsOk());
  EXPECT_EQ(log_level, 1);
}

using InheritedSettingDeathTest = InheritedSettingTest;

TEST_F(InheritedSettingDeathTest, NameThatIsTakenEndsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(RegisterInheritedSetting("log level", SaveLogLevel, SetLogLevel),
               "log level.*already registered");
}

}  // namespace
}  // namespace tenon::spawn

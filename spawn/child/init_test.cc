// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Programs that are started in a wrong way.

#include "tenon/spawn/child/init.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/supervisor/program.h"

namespace tenon::spawn {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Outcome {
  std::string output;
  int exit_code;
};

// Runs a shell command; the output is that of both streams.
Outcome RunInShell(const std::string& command) {
  fflush(nullptr);
  FILE* pipe = popen(absl::StrCat("exec 2>&1; ", command).c_str(), "re");
  if (pipe == nullptr) return {"popen fails", -1};
  std::string output;
  char part[1024];
  for (size_t size; (size = fread(part, 1, sizeof(part), pipe)) > 0;) {
    output.append(part, size);
  }
  const int status = pclose(pipe);
  return {output, WIFEXITED(status) ? WEXITSTATUS(status) : -1};
}

// A program in the same directory.
std::string Neighbour(const std::string& name) {
  const std::string& self = ProgramName();
  return absl::StrCat("'", self.substr(0, self.rfind('/') + 1), name, "'");
}

// Runs in a child of program_without_init.
absl::Status Answer(Child& child) {
  return absl::DataLossError(
      absl::StrCat(child.index(), " ", child.argument(), ", ", ProgramName()));
}
TENON_SPAWN_ENTRY("answer", Answer);

Outcome StartFromAProgramWithoutInit(const std::string& program,
                                     const std::string& entry) {
  return RunInShell(absl::StrCat(Neighbour("program_without_init"), " '",
                                 program, "' '", entry, "'"));
}

TEST(InitTest, AProgramWithoutInitStartsOneByPath) {
  EXPECT_THAT(StartFromAProgramWithoutInit(ProgramName(), "answer").output,
              AllOf(HasSubstr("DATA_LOSS: worker 7 (entry 'answer', pid "),
                    HasSubstr(absl::StrCat("): 7 of another program, ",
                                           ProgramName(), " "))));
  EXPECT_THAT(StartFromAProgramWithoutInit(ProgramName(), "none").output,
              AllOf(HasSubstr("NOT_FOUND: worker 7 (entry 'none'"),
                    HasSubstr("registered: answer")));
}

TEST(InitTest, AProgramThatCannotBeExecutedIsNamed) {
  EXPECT_THAT(
      StartFromAProgramWithoutInit("/nowhere/program", "answer").output,
      AllOf(HasSubstr("NOT_FOUND: cannot start worker 7 (entry 'answer')"),
            HasSubstr("open(/nowhere/program)")));
  EXPECT_THAT(StartFromAProgramWithoutInit("/etc/passwd", "answer").output,
              AllOf(HasSubstr("PERMISSION_DENIED: cannot start worker 7"),
                    HasSubstr("execve(/etc/passwd)")));
  // One that does not call Init().
  EXPECT_THAT(StartFromAProgramWithoutInit("/bin/false", "answer").output,
              ContainsRegex("worker 7 .entry 'answer', pid [0-9]+. exited "
                            "with code 1"));
}

// Else each would start the next one, without end.
TEST(InitTest, AProgramWithoutInitThatStartsItselfStartsOne) {
  const std::string self = Neighbour("program_without_init");
  const std::string output =
      RunInShell(absl::StrCat(self, " ", self, " nothing")).output;
  EXPECT_THAT(
      output,
      AllOf(StartsWith("a child\nFAILED_PRECONDITION: cannot start worker 7 "
                       "(entry 'nothing')"),
            HasSubstr("this process is a child itself, whose program has not "
                      "called tenon::spawn::Init()"),
            Not(HasSubstr("a child\na child"))));
}

TEST(InitTest, ProgramWithoutInitSaysSoAndStartsNothing) {
  const Outcome outcome = RunInShell(Neighbour("program_without_init"));
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(
      outcome.output,
      AllOf(HasSubstr("arguments: 0\nchildren: 0\nFAILED_PRECONDITION: cannot "
                      "start worker 0 (entry 'nothing')"),
            HasSubstr("add `tenon::spawn::Init(argc, argv);` as the first line "
                      "of main()")));
}

TEST(InitTest, FlagOfAChildIsNotForUsers) {
  const std::string child = absl::StrCat("'", ProgramName(), "' ", kChildFlag);
  for (const std::string descriptor :
       {"3<&-", "3</dev/null", "3<&0 </dev/null"}) {
    const Outcome outcome = RunInShell(absl::StrCat(child, " ", descriptor));
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_THAT(
        outcome.output,
        AllOf(HasSubstr(
                  "is reserved for children that tenon::spawn::Process starts"),
              HasSubstr("file descriptor 3")));
  }
}

TEST(InitTest, FlagAmongOthersIsTheUsers) {
  const Outcome outcome = RunInShell(absl::StrCat(
      "'", ProgramName(), "' ", kChildFlag, " --gtest_list_tests"));
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.output, HasSubstr("FlagAmongOthersIsTheUsers"));
}

TEST(InitTest, IsRemembered) { EXPECT_TRUE(IsInitialized()); }

}  // namespace
}  // namespace tenon::spawn

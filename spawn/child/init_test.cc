// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Programs that are started in a wrong way.

#include "tenon/spawn/child/init.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/spawn/supervisor/program.h"

namespace tenon::spawn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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

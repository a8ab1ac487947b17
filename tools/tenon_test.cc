// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The program itself: its exit code and its streams, without other processes.

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tenon::tools {
namespace {

using ::testing::HasSubstr;

// Runs tools/tenon with these arguments, with its output in the file `out` and
// its errors in `errors`. Returns its exit code.
int Tenon(std::vector<std::string> words, const char* out = "/dev/null",
          const char* errors = "/dev/null") {
  words.insert(words.begin(), "tools/tenon");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 1, out, O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&files, 2, errors, O_WRONLY | O_TRUNC, 0);
  pid_t pid;
  const int error =
      posix_spawn(&pid, argv[0], &files, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  EXPECT_EQ(error, 0);
  int status = -1;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(TenonTest, ExitCodesAreThoseOfTheHelp) {
  EXPECT_EQ(Tenon({"help"}), 0);
  EXPECT_EQ(Tenon({"ps"}), 0);
  EXPECT_EQ(Tenon({"mem", "--json"}), 0);
  EXPECT_EQ(Tenon({"doctor"}), 0);
  EXPECT_EQ(Tenon({}), 2);
  EXPECT_EQ(Tenon({"nonsense"}), 2);
  EXPECT_EQ(Tenon({"ps", "--nonsense"}), 2);
}

// The words that bash offers behind these.
std::string Completed(const std::string& words) {
  const std::string script =
      "source <(tools/tenon completion); COMP_WORDS=(tenon " + words +
      "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _tenon; "
      "echo \"${COMPREPLY[@]}\"";
  std::string text;
  FILE* const bash = popen(("bash -c '" + script + "'").c_str(), "r");
  EXPECT_NE(bash, nullptr);
  for (int c; (c = fgetc(bash)) != EOF;) text += static_cast<char>(c);
  EXPECT_EQ(pclose(bash), 0);
  return text;
}

TEST(TenonTest, BashCompletesCommandsAndFlags) {
  EXPECT_EQ(Completed("me"), "mem metrics\n");
  EXPECT_EQ(Completed("shm g"), "gc\n");
  EXPECT_EQ(Completed("mem --p"), "--pid\n");
  EXPECT_EQ(Completed("shm list --"), "--help --json\n");
  EXPECT_EQ(Completed("mem --pid 4711 --w"), "--watch\n");
  EXPECT_EQ(Completed("help doc"), "doctor\n");
}

// What it logs.
std::string LogOf(std::vector<std::string> words, int code,
                  const char* out = "/dev/null") {
  std::string path = testing::TempDir() + "/tenon_log_XXXXXX";
  close(mkstemp(path.data()));
  EXPECT_EQ(Tenon(std::move(words), out, path.c_str()), code);
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  unlink(path.c_str());
  return text;
}

TEST(TenonTest, IsQuietAndHasTheFlagsOfGlog) {
  EXPECT_EQ(LogOf({"shm", "gc", "--dry-run"}, 0), "");
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"--v=1"},
        {"-v=1"},
        {"--v", "1"},
        {"--vmodule=tenon_tool=1", "--minloglevel=0"}}) {
    std::vector<std::string> words = {"shm"};
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), {"gc", "--dry-run"});
    EXPECT_THAT(LogOf(words, 0), HasSubstr("examined the names"));
  }
  EXPECT_EQ(LogOf({"shm", "gc", "--dry-run", "--v=1", "--minloglevel=1"}, 0),
            "");
  EXPECT_THAT(LogOf({"shm", "gc", "--v=much"}, 2),
              HasSubstr("--v cannot be 'much'"));
  EXPECT_THAT(LogOf({"shm", "gc", "--v"}, 2), HasSubstr("--v needs a value"));
  EXPECT_THAT(LogOf({"shm", "gc", "--nonsense"}, 2), HasSubstr("--nonsense"));
}

TEST(TenonTest, OutputThatCannotBeWrittenIsAFailure) {
  EXPECT_THAT(LogOf({"help"}, 1, "/dev/full"),
              HasSubstr("stdout cannot be written"));
  EXPECT_EQ(Tenon({"mem", "--watch", "0.1"}, "/dev/full"), 1);
}

}  // namespace
}  // namespace tenon::tools

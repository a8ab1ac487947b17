// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The program itself: its exit code and its streams, without other processes.

#include <fcntl.h>
#include <spawn.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace tenon::tools {
namespace {

// Runs tools/tenon with these arguments, with its output in the file `out`.
// Returns its exit code.
int Tenon(std::vector<std::string> words, const char* out = "/dev/null") {
  words.insert(words.begin(), "tools/tenon");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 1, out, O_WRONLY, 0);
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

TEST(TenonTest, OutputThatCannotBeWrittenIsAFailure) {
  EXPECT_EQ(Tenon({"help"}, "/dev/full"), 1);
  EXPECT_EQ(Tenon({"mem", "--watch", "0.1"}, "/dev/full"), 1);
}

}  // namespace
}  // namespace tenon::tools

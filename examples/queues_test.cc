// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The queue examples: their output, and that they leave nothing behind.

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/examples/testing/program.h"

namespace tenon {
namespace {

using testing::MatchesRegex;

void Prints(const std::string& name, const std::string& output) {
  Program program({"examples/" + name});
  const ExitStatus end = program.Wait();
  EXPECT_EQ(end.exit_code, 0) << program.output();
  EXPECT_THAT(program.output(), MatchesRegex(output));
  EXPECT_TRUE(program.GroupIsGone());
}

TEST(QueuesTest, HelloTensor) {
  Prints("hello_tensor",
         "waiting: [0-9.]+ us, [0-9]\\.[0-9]+ system calls\n"
         "spinning: [0-9.]+ us, [0-9]\\.[0-9]+ system calls\n");
}

TEST(QueuesTest, Forward) {
  Prints("forward", "C has 0 over B\nC has 1 over B\nC has 2 over B\n");
}

TEST(QueuesTest, EventLoop) {
  Prints("event_loop",
         "got 0\ngot 1\ngot 2\n"
         "the end\n");
}

}  // namespace
}  // namespace tenon

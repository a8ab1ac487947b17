// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The small examples: their output, and that they leave nothing behind.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/examples/testing/program.h"

namespace tenon {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

// The output of a program that ends well.
std::string OutputOf(const std::vector<std::string>& arguments) {
  Program program(arguments);
  EXPECT_EQ(program.Wait().exit_code, 0) << program.output();
  EXPECT_TRUE(program.GroupIsGone());
  return program.output();
}

TEST(ProgramsTest, Broadcast) {
  const std::string output = OutputOf({"examples/broadcast"});
  for (const int reader : {0, 1, 2}) {
    EXPECT_THAT(output,
                HasSubstr(absl::StrCat("reader ", reader,
                                       ": the last of 1000 numbers is 0.5\n")));
  }
}

TEST(ProgramsTest, Counter) {
  const std::string output = OutputOf({"examples/counter"});
  // Three processes count to the end; one is killed at its 50,001st.
  EXPECT_THAT(output, HasSubstr("count 350001\n"));
  EXPECT_THAT(output, HasSubstr("has the lock of a process that died\n"));
  EXPECT_THAT(output, HasSubstr("SIGKILL"));
}

TEST(ProgramsTest, EventLoop) {
  const char kMessage[] = " of 16 bytes, [0-9]+ us after it was sent\n";
  EXPECT_THAT(OutputOf({"examples/event_loop"}),
              MatchesRegex(absl::StrCat(
                  "message 0", kMessage, "message 1", kMessage, "message 2",
                  kMessage, "the end, after ticks of the timer\n")));
}

TEST(ProgramsTest, First) {
  EXPECT_THAT(
      OutputOf({"examples/first"}),
      MatchesRegex("process [0-9]+ read 42.0 from 38.5 MB of process [0-9]+ "
                   "after [0-9]+ us\n"
                   "a copy of it takes [0-9]+ us\n"
                   "process [0-9]+ reads 43.0, which the child has written\n"));
}

TEST(ProgramsTest, Forward) {
  EXPECT_EQ(OutputOf({"examples/forward"}),
            "C has 0 over B\nC has 1 over B\nC has 2 over B\n");
}

TEST(ProgramsTest, Futures) {
  EXPECT_EQ(OutputOf({"examples/futures"}),
            "a half: 5\na half: 10\na half: 15\n"
            "a quarter of 20: 5\n"
            "a quarter of 10: INVALID_ARGUMENT: an odd number\n");
}

TEST(ProgramsTest, HelloTensor) {
  EXPECT_THAT(
      OutputOf({"examples/hello_tensor"}),
      MatchesRegex("sleeping: [0-9.]+ us, [0-9]\\.[0-9]+ system calls\n"
                   "spinning: [0-9.]+ us, [0-9]\\.[0-9]+ system calls\n"
                   "a round trip of float32.3, 480, 640., against one copy: "
                   "[0-9.]+ us\n"));
}

TEST(ProgramsTest, NamedMemory) {
  // Tests in other sandboxes have the same pids.
  const std::string name =
      absl::StrCat("tenon.test.numbers.", absl::ToUnixNanos(absl::Now()));
  const std::vector<std::string> command = {"examples/named_memory", name};
  Program first(command);  // Its stdin is at its end: it does not wait.
  EXPECT_EQ(first.Wait().exit_code, 0);
  EXPECT_EQ(first.output(),
            absl::StrCat("created ", name, "; Enter ends this\n"));
  Program both(
      {"/bin/sh", "-c", absl::StrCat("sleep 100 | ", command[0], " ", name)});
  ASSERT_TRUE(both.WaitForOutput("Enter"));
  EXPECT_EQ(OutputOf(command), "sum 500\n");
  both.SignalGroup(SIGTERM);
  both.Wait();
  EXPECT_TRUE(both.GroupIsGone());
  // The name that the killed process has left is as good as none.
  EXPECT_EQ(OutputOf(command),
            absl::StrCat("created ", name, "; Enter ends this\n"));
}

TEST(ProgramsTest, Pool) {
  EXPECT_EQ(OutputOf({"examples/pool"}),
            "1229 primes\n9592 primes\n78498 primes\n");
}

TEST(ProgramsTest, ProducerExits) {
  EXPECT_THAT(OutputOf({"examples/producer_exits"}),
              MatchesRegex("the producer has ended\n"
                           "its tensor: float32\\[1000000\\] at byte 64 "
                           "\\{(1, )+.*\n"));
}

TEST(ProgramsTest, SmallDataset) {
  EXPECT_THAT(OutputOf({"examples/small_dataset"}),
              MatchesRegex("32 batches of 3 MB: [0-9.]+m?s\n"
                           "mean of their first pixels 0\\.[0-9]+\n"));
}

TEST(ProgramsTest, TwoConsumers) {
  const std::string output = OutputOf({"examples/two_consumers"});
  for (const int consumer : {0, 1}) {
    EXPECT_THAT(output, HasSubstr(absl::StrCat("consumer ", consumer, ": ")));
  }
  EXPECT_THAT(output,
              HasSubstr("a frame of 3.7 MB, of 1000, to one of them: "));
}

}  // namespace
}  // namespace tenon

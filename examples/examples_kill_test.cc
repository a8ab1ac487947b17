// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Kills one process of each example at a system call: the other processes end
// by themselves, in order, and none is left. TENON_CALL_STRIDE=1 in the
// environment covers each call of all processes.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/examples/testing/call_killer.h"
#include "tenon/shm/testing/trace/tracee.h"

namespace tenon {
namespace {

using ::testing::IsEmpty;

struct Example {
  std::string name;
  std::vector<std::string> arguments;
  // Multiplies the stride: for examples in which survivors wait for a deadline.
  uint64_t factor = 1;
  // A run makes from a fifteenth to all of the calls of another one.
  bool spins = false;
};

void PrintTo(const Example& example, std::ostream* out) {
  *out << example.name;
}

uint64_t Stride() {
  const char* const given = std::getenv("TENON_CALL_STRIDE");
  uint64_t stride = 67;
  if (given != nullptr && !absl::SimpleAtoi(given, &stride)) stride = 67;
  return std::max<uint64_t>(stride, 1);
}

class ExamplesKillTest : public testing::TestWithParam<Example> {};

TEST_P(ExamplesKillTest, OneProcessAtACall) {
  if (const absl::Status can = CanTrace(); !can.ok()) GTEST_SKIP() << can;
  CallKillOptions options;
  options.stride = Stride() * GetParam().factor;
  const CallKillReport report = KillAtEachCall(GetParam().arguments, options);
  std::printf("%s: %s\n", GetParam().name.c_str(), report.ToString().c_str());
  EXPECT_THAT(report.failures, IsEmpty());
  EXPECT_GE(report.runs, 3u);
  EXPECT_GE(report.kills * 4, report.runs * (GetParam().spins ? 1 : 3));
}

// Both programs, and the shell between them.
constexpr char kUnrelated[] =
    "examples/unrelated_server 10 | { read hint; read command; read wait;"
    " examples/unrelated_client ${command##* }; cat; }";

INSTANTIATE_TEST_SUITE_P(
    All, ExamplesKillTest,
    testing::Values(Example{"Broadcast", {"examples/broadcast"}},
                    Example{"Counter", {"examples/counter"}},
                    Example{"First", {"examples/first"}},
                    Example{"Pool", {"examples/pool"}},
                    Example{"ProducerExits", {"examples/producer_exits"}},
                    Example{"SmallDataset", {"examples/small_dataset"}},
                    Example{
                        "TwoConsumers", {"examples/two_consumers"}, 10, true},
                    Example{"HelloTensor", {"examples/hello_tensor"}, 10, true},
                    Example{"Forward", {"examples/forward"}, 5},
                    Example{"EventLoop", {"examples/event_loop"}, 5},
                    Example{"Unrelated", {"/bin/sh", "-c", kUnrelated}, 3}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace tenon

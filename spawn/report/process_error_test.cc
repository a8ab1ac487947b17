// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/report/process_error.h"

#include <signal.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/spawn/testing/mutate_testing.h"

namespace tenon::spawn {
namespace {

using ::testing::HasSubstr;

TEST(ProcessErrorTest, RaisedTravelsInAStatus) {
  absl::Status status = absl::NotFoundError("worker 3: no image");
  SetProcessError(ProcessRaised{.index = 3,
                                .pid = 4711,
                                .status = absl::NotFoundError("no image"),
                                .stack = "#0 in Decode()"},
                  status);
  const absl::Status copy = status;
  const auto raised = GetProcessRaised(copy);
  ASSERT_TRUE(raised.has_value());
  EXPECT_EQ(raised->index, 3);
  EXPECT_EQ(raised->pid, 4711);
  EXPECT_EQ(raised->status, absl::NotFoundError("no image"));
  EXPECT_EQ(raised->stack, "#0 in Decode()");
  EXPECT_FALSE(GetProcessExited(copy).has_value());
}

TEST(ProcessErrorTest, ExitedTravelsInAStatusAndReplacesTheOther) {
  absl::Status status = absl::AbortedError("worker 3 was killed");
  SetProcessError(ProcessRaised{}, status);
  SetProcessError(ProcessExited{.index = 3,
                                .pid = 4711,
                                .exit_code = -1,
                                .signal = SIGKILL,
                                .signal_name = "SIGKILL",
                                .stderr_tail = "last words",
                                .stack = "#0",
                                .killed_for_memory = true,
                                .peak_rss_bytes = int64_t{5} << 30},
                  status);
  EXPECT_FALSE(GetProcessRaised(status).has_value());
  const auto exited = GetProcessExited(status);
  ASSERT_TRUE(exited.has_value());
  EXPECT_EQ(exited->index, 3);
  EXPECT_EQ(exited->pid, 4711);
  EXPECT_EQ(exited->exit_code, -1);
  EXPECT_EQ(exited->signal, SIGKILL);
  EXPECT_EQ(exited->signal_name, "SIGKILL");
  EXPECT_EQ(exited->stderr_tail, "last words");
  EXPECT_EQ(exited->stack, "#0");
  EXPECT_TRUE(exited->killed_for_memory);
  EXPECT_EQ(exited->peak_rss_bytes, int64_t{5} << 30);
}

TEST(ProcessErrorTest, OtherStatusesAndGarbageCarryNone) {
  EXPECT_FALSE(GetProcessRaised(absl::OkStatus()).has_value());
  absl::Status status = absl::InternalError("x");
  EXPECT_FALSE(GetProcessExited(status).has_value());
  SetProcessError(ProcessExited{}, status);
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    absl::Status cut = absl::InternalError("x");
    cut.SetPayload(url, payload.Subcord(0, payload.size() - 1));
    EXPECT_FALSE(GetProcessExited(cut).has_value());
  });
}

TEST(ProcessErrorTest, ToStringShowsAllOnce) {
  const std::string stack = "#0 0x1 in Decode(int)+0x12\n#1 0x2 in main\n";
  const std::string tail(1000, '\x01');  // Binary.
  absl::Status status = absl::AbortedError(
      absl::StrCat("worker 3: killed by SIGSEGV\n", stack, tail));
  SetProcessError(ProcessExited{.index = 3,
                                .pid = 4711,
                                .signal = SIGSEGV,
                                .signal_name = "SIGSEGV",
                                .stderr_tail = tail,
                                .stack = stack},
                  status);
  const std::string shown = status.ToString();
  EXPECT_THAT(shown, HasSubstr("='index=3 pid=4711 exit_code=-1 signal=11 "));
  EXPECT_THAT(shown, HasSubstr("signal_name={SIGSEGV} stack=message["));
  EXPECT_EQ(shown.find("Decode"), shown.rfind("Decode"));
  EXPECT_LT(shown.size(), status.message().size() + 300);

  // Another layer adds text on both sides.
  absl::Status wrapped = absl::AbortedError(
      absl::StrCat("epoch 2: ", status.message(), "; 3 batches were lost"));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    wrapped.SetPayload(url, payload);
  });
  const auto exited = GetProcessExited(wrapped);
  ASSERT_TRUE(exited.has_value());
  EXPECT_EQ(exited->stack, stack);
  EXPECT_EQ(exited->stderr_tail, tail);

  // And one drops the message.
  absl::Status other = absl::AbortedError("something else");
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    other.SetPayload(url, payload);
  });
  ASSERT_TRUE(GetProcessExited(other).has_value());
  EXPECT_EQ(GetProcessExited(other)->signal_name, "SIGSEGV");
  EXPECT_EQ(GetProcessExited(other)->stack, "");
}

TEST(ProcessErrorTest, TextsMayHaveAnyBytes) {
  absl::Status status = absl::AbortedError("x");
  const std::string odd("{a} 'b' \"c\" \\ =\0\n\xff stack={}", 27);
  SetProcessError(
      ProcessRaised{.status = absl::InternalError(odd), .stack = odd}, status);
  const auto raised = GetProcessRaised(status);
  ASSERT_TRUE(raised.has_value());
  EXPECT_EQ(raised->status, absl::InternalError(odd));
  EXPECT_EQ(raised->stack, odd);
}

TEST(ProcessErrorTest, CodesThatAreNoneAreGarbage) {
  absl::Status status = absl::InternalError("x");
  SetProcessError(ProcessRaised{.status = status}, status);
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    for (const char* code : {"code=17", "code=-1", "code=4294967309"}) {
      const std::string bytes =
          absl::StrReplaceAll(std::string(payload), {{"code=13", code}});
      EXPECT_NE(bytes, std::string(payload));
      absl::Status other = absl::InternalError("x");
      other.SetPayload(url, absl::Cord(bytes));
      EXPECT_FALSE(GetProcessRaised(other).has_value());
    }
  });
  EXPECT_TRUE(GetProcessRaised(status).has_value());
}

TEST(ProcessErrorFuzzTest, APayloadIsNoneOrMeansItself) {
  absl::Status status = absl::InternalError("x");
  SetProcessError(ProcessExited{.index = 3,
                                .signal = SIGKILL,
                                .signal_name = "SIGKILL",
                                .stderr_tail = "last words",
                                .killed_for_memory = true},
                  status);
  std::string url;
  std::string whole;
  status.ForEachPayload([&](absl::string_view name, const absl::Cord& payload) {
    url = std::string(name);
    whole = std::string(payload);
  });
  Mutator mutator(20261122);
  int accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::string bytes = mutator.Mutate(whole);
    absl::Status mutated = absl::InternalError("x");
    mutated.SetPayload(url, absl::Cord(bytes));
    const auto exited = GetProcessExited(mutated);
    if (!exited) continue;
    ++accepted;
    absl::Status again = absl::InternalError("x");
    SetProcessError(*exited, again);
    ASSERT_EQ(again.GetPayload(url), absl::Cord(bytes));
  }
  EXPECT_GT(accepted, 100) << "the mutations hardly reach the last field";
  EXPECT_LT(accepted, 19'900) << "the mutations hardly break anything";
}

TEST(ProcessErrorTest, NamesOfSignals) {
  EXPECT_EQ(SignalName(SIGSEGV), "SIGSEGV");
  EXPECT_EQ(SignalName(SIGRTMIN + 1), "signal 35");
}

}  // namespace
}  // namespace tenon::spawn

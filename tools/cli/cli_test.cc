// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/tools/cli/command_line.h"
#include "tenon/tools/cli/json.h"
#include "tenon/tools/cli/quantity.h"
#include "tenon/tools/cli/table.h"
#include "tenon/tools/cli/terminal_text.h"

namespace tenon::tools {
namespace {

using ::testing::HasSubstr;

const std::vector<FlagSpec>& Specs() {
  static const auto& specs = *new std::vector<FlagSpec>{
      {.name = "json"}, {.name = "pid", .value = "N"}};
  return specs;
}

std::string ErrorOf(const std::vector<std::string>& words) {
  const auto line = CommandLine::Parse(Specs(), words);
  EXPECT_EQ(line.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(line.status().message());
}

TEST(TerminalTextTest, LeavesNothingThatATerminalObeys) {
  EXPECT_EQ(TerminalText("a b"), "a b");
  EXPECT_EQ(TerminalText("\x1b[2J\r\n\t\x7f\x9b"),
            "\\x1b[2J\\x0d\\x0a\\x09\\x7f\\x9b");
  EXPECT_EQ(TerminalText("\\x1b"), "\\x5cx1b");
  EXPECT_EQ(TerminalText(std::string(1, '\0')), "\\x00");
}

TEST(QuantityTest, BytesAreCutNotRounded) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1024), "1.0 KiB");
  EXPECT_EQ(FormatBytes((1 << 20) - 1), "1023.9 KiB");
  EXPECT_EQ(FormatBytes(1 << 20), "1.0 MiB");
  EXPECT_EQ(FormatBytes(3 * (uint64_t{1} << 29)), "1.5 GiB");
  EXPECT_EQ(FormatBytes(~uint64_t{0}), "16383.9 PiB");
}

TEST(QuantityTest, AgesHaveAtMostTwoUnits) {
  EXPECT_EQ(FormatAge(-absl::Seconds(1)), "0.0s");
  EXPECT_EQ(FormatAge(absl::Milliseconds(345)), "0.3s");
  EXPECT_EQ(FormatAge(absl::Seconds(10)), "10s");
  EXPECT_EQ(FormatAge(absl::Seconds(200)), "3m 20s");
  EXPECT_EQ(FormatAge(absl::Minutes(302)), "5h 2m");
  EXPECT_EQ(FormatAge(absl::Hours(76)), "3d 4h");
}

TEST(TableTest, AlignsColumnsAndEndsNoLineInSpace) {
  Table table({"A", ">BB", "C"});
  EXPECT_TRUE(table.empty());
  table.AddRow({"long", "1", "x", "one too many"});
  table.AddRow({"\x1b", "123"});
  EXPECT_EQ(table.ToText(),
            "A      BB  C\n"
            "long    1  x\n"
            "\\x1b  123\n");
  EXPECT_THAT(table.ToText(2), HasSubstr("\n  long"));
}

TEST(TableTest, FitsTheWidthOfATerminal) {
  Table table({">PID", "NAME", "?>UP", "?>ARENAS"});
  table.AddRow({"4711", "a-program-with-a-long-name", "12s", "3"});
  const std::string whole =
      " PID  NAME                         UP  ARENAS\n"
      "4711  a-program-with-a-long-name  12s       3\n";
  EXPECT_EQ(table.ToText(), whole);
  EXPECT_EQ(table.ToText(0, 45), whole);
  EXPECT_EQ(table.ToText(0, 44),
            " PID  NAME                         UP\n"
            "4711  a-program-with-a-long-name  12s\n");
  EXPECT_EQ(table.ToText(0, 33),
            " PID  NAME\n"
            "4711  a-program-with-a-long-name\n");
  EXPECT_EQ(table.ToText(2, 20),
            "   PID  NAME\n"
            "  4711  a-program-w~\n");
  // No narrower than can be read.
  EXPECT_EQ(table.ToText(0, 3),
            " PID  NAME\n"
            "4711  a-progr~\n");
}

TEST(TableTest, LongLinesAreFoldedAfterCommas) {
  const std::string text = "  blocks: in use 2, lent 1, free 3\nshort\n";
  EXPECT_EQ(FoldLines(text, 0), text);
  EXPECT_EQ(FoldLines(text, 40), text);
  EXPECT_EQ(FoldLines(text, 20),
            "  blocks: in use 2,\n    lent 1, free 3\nshort\n");
  EXPECT_EQ(FoldLines("nowhere-to-break\n", 5), "nowhere-to-break\n");
  EXPECT_EQ(FoldLines("  - more workers help\n", 14),
            "  - more\n    workers\n    help\n");
  EXPECT_EQ(FoldLines("  nowhere-to-break\n", 5), "  nowhere-to-break\n");
  EXPECT_EQ(FoldLines("a nowhere-to-break b c d\n", 8),
            "a\n    nowhere-to-break\n    b c\n    d\n");
  EXPECT_EQ(FoldLines("OK    cores         16\n", 14), "OK    cores\n    16\n");
  EXPECT_EQ(FoldLines("a b c d e f\n", 3), "a b\n    c d e f\n");
}

TEST(JsonTest, WhatIsNoUtf8IsStillJson) {
  Json json;
  json["name"] = "a\xff\x1b\"";
  const std::string text = JsonText(json);
  EXPECT_THAT(text, HasSubstr("a\\ufffd\\u001b\\\""));
  EXPECT_EQ(Json::parse(text)["name"], "a\xef\xbf\xbd\x1b\"");
}

TEST(CommandLineTest, TakesBothWaysToGiveAValue) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--pid=12", "--json"},
        std::vector<std::string>{"--json", "--pid", "12"}}) {
    TENON_ASSERT_OK_AND_ASSIGN(const CommandLine line,
                               CommandLine::Parse(Specs(), words));
    EXPECT_TRUE(line.Has("json"));
    TENON_ASSERT_OK_AND_ASSIGN(const double pid, line.Number("pid", 0, 1, 100));
    EXPECT_EQ(pid, 12);
    TENON_ASSERT_OK_AND_ASSIGN(const double other,
                               line.Number("watch", 7, 1, 2));
    EXPECT_EQ(other, 7);
  }
}

TEST(CommandLineTest, SaysWhatIsWrong) {
  EXPECT_EQ(ErrorOf({"--jsom"}),
            "unknown flag '--jsom'; did you mean '--json'?");
  EXPECT_EQ(ErrorOf({"--nothing-like-it"}), "unknown flag '--nothing-like-it'");
  EXPECT_EQ(ErrorOf({"\x1b"}), "unexpected argument '\\x1b'");
  EXPECT_EQ(ErrorOf({"--"}), "unexpected argument '--'");
  EXPECT_EQ(ErrorOf({"--json=1"}), "--json takes no value");
  EXPECT_EQ(ErrorOf({"--pid"}), "--pid needs a value: N");
  EXPECT_EQ(ErrorOf({"--pid", "1", "--pid=2"}), "--pid is given twice");
}

TEST(CommandLineTest, NumbersOutOfRangeAreRefused) {
  for (const std::string value : {"0", "101", "x", "", "nan", "1e999"}) {
    TENON_ASSERT_OK_AND_ASSIGN(const CommandLine line,
                               CommandLine::Parse(Specs(), {"--pid", value}));
    const auto number = line.Number("pid", 1, 1, 100);
    EXPECT_THAT(number, StatusIs(absl::StatusCode::kInvalidArgument)) << value;
  }
}

TEST(SuggestionTest, OnlyWhatIsNear) {
  EXPECT_EQ(Suggestion("men", {"ps", "mem"}), "; did you mean 'mem'?");
  EXPECT_EQ(Suggestion("docter", {"doctor"}), "; did you mean 'doctor'?");
  EXPECT_EQ(Suggestion("xy", {"ps", "mem"}), "");
  EXPECT_EQ(Suggestion(std::string(100000, 'm'), {"mem"}), "");
}

}  // namespace
}  // namespace tenon::tools

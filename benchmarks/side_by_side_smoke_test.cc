// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Runs all rows of //benchmarks:side_by_side for a moment, and checks the shape
// of the report. Figures are not checked: the machine may be busy.

#include <stdlib.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace {

using Json = nlohmann::json;
using testing::ElementsAre;

int RunProgram(const std::string& flags) {
  const int status =
      system(absl::StrCat("benchmarks/side_by_side ", flags).c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string ReportPath() { return testing::TempDir() + "/rows.json"; }

std::string Text(const Json& json, const char* member) {
  return json.at(member).get<std::string>();
}

std::vector<std::string> NamesIn(const Json& list) {
  std::vector<std::string> names;
  for (const Json& each : list) names.push_back(Text(each, "name"));
  return names;
}

size_t CountOf(const Json& row, const char* group) {
  return row.at("turns").at(group).at("count").get<size_t>();
}

void CheckQuartiles(const Json& json) {
  EXPECT_LE(json.at("lower_quartile").get<double>(),
            json.at("median").get<double>());
  EXPECT_LE(json.at("median").get<double>(),
            json.at("upper_quartile").get<double>());
}

// A measured subject has figures for each group that has turns.
void CheckSubject(const Json& row, const Json& subject) {
  for (const char* group : {"near", "far", "any"}) {
    if (!row.at("turns").contains(group)) continue;
    const Json& figures = subject.at(group);
    const size_t turns = CountOf(row, group);
    ASSERT_EQ(figures.is_null(), turns == 0);
    if (turns == 0) continue;
    EXPECT_EQ(figures.at("turns").get<size_t>(), turns);
    CheckQuartiles(figures.at("ns"));
    CheckQuartiles(figures.at("over_limit"));
    if (Text(subject, "name") != Text(row, "limit")) continue;
    EXPECT_EQ(figures.at("over_limit").at("median").get<double>(), 1);
  }
}

void CheckSleeps(const Json& row) {
  for (const char* group : {"near", "far"}) {
    if (CountOf(row, group) == 0) continue;
    const Json& slept = row.at("turns").at(group).at("slept");
    EXPECT_GE(slept.at("lower_quartile").get<double>(), 0.9);
  }
  EXPECT_GT(CountOf(row, "near") + CountOf(row, "far"), 0u);
}

void CheckMeasured(const Json& row) {
  std::set<std::string> measured;
  for (const Json& subject : row.at("subjects")) {
    if (Text(subject, "status") == "measured") {
      measured.insert(Text(subject, "name"));
      CheckSubject(row, subject);
    } else {
      EXPECT_EQ(Text(subject, "status"), "missing");
      EXPECT_NE(Text(subject, "reason"), "");
    }
  }
  const bool is_future = absl::StartsWith(Text(row, "name"), "future.");
  EXPECT_EQ(measured.contains("tenon.future"), is_future);
  const bool hands_over =
      std::any_of(measured.begin(), measured.end(), [](const auto& name) {
        return absl::StartsWith(name, "tenon.") && name != "tenon.future";
      });
  EXPECT_EQ(hands_over, !is_future);
  EXPECT_TRUE(measured.contains(Text(row, "limit")));
  if (row.at("asleep").get<bool>()) CheckSleeps(row);
}

void CheckRow(const Json& row) {
  SCOPED_TRACE(Text(row, "name"));
  EXPECT_EQ(Text(row, "unit"), "ns");
  if (Text(row, "status") == "measured") return CheckMeasured(row);
  EXPECT_NE(Text(row, "reason"), "");
  if (Text(row, "status") == "skipped") return;
  // The distance of the cores may change in each of a few turns; on a busy
  // machine a process comes too late to sleep for a third of its messages.
  EXPECT_EQ(Text(row, "status"), "failed");
  EXPECT_GT(CountOf(row, "mixed") + CountOf(row, "awake"), 0u);
  if (CountOf(row, "awake") == 0) return;
  EXPECT_TRUE(row.at("asleep").get<bool>());
  const Json& slept = row.at("turns").at("awake").at("slept");
  EXPECT_GE(slept.at("median").get<double>(), 0.1) << "it never sleeps";
}

TEST(SideBySideSmokeTest, MeasuresEachRow) {
  unsetenv("TENON_PEERS");
  const int end = RunProgram(absl::StrCat(
      "--seconds=0.3 --turns=3 --most_in_a_turn=32 --commit=abc --json=",
      ReportPath()));
  EXPECT_TRUE(end == 0 || end == 1) << end;
  std::ifstream file(ReportPath());
  const Json report = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(report.is_object());
  EXPECT_EQ(report.at("schema").get<int>(), 1);
  EXPECT_EQ(Text(report, "commit"), "abc");
  EXPECT_GE(report.at("machine").at("usable_cores").get<int>(), 1);
  EXPECT_THAT(
      NamesIn(report.at("rows")),
      ElementsAre("handover.4k.forwarded.spin", "handover.4k.new.spin",
                  "arena.4k.receipted.spin", "handover.4k.stream_filled.spin",
                  "handover.1k.stream_filled.spin", "handover.4k.filled.spin",
                  "handover.1m.filled.spin", "handover.16m.filled.spin",
                  "handover.4k.forwarded.asleep", "put.4k.one_thread",
                  "get.4k.one_thread", "create.4k.one_thread",
                  "own.16m.from_bytes.one_thread", "future.set_wait",
                  "future.then", "future.chain_1000", "future.collect_1000",
                  "size.64.there_back.spin", "size.64.stream.spin",
                  "size.1k.there_back.spin", "size.1k.stream.spin",
                  "size.4k.there_back.spin", "size.4k.stream.spin",
                  "size.64k.there_back.spin", "size.64k.stream.spin",
                  "size.1m.there_back.spin", "size.1m.stream.spin",
                  "size.16m.there_back.spin", "size.16m.stream.spin",
                  "size.64m.there_back.spin", "size.64m.stream.spin"));
  const bool two_cores = report.at("machine").at("usable_cores").get<int>() > 1;
  for (const Json& row : report.at("rows")) {
    CheckRow(row);
    // Rows of one thread do not depend on the distance of the cores.
    const std::string name = Text(row, "name");
    if (two_cores && (absl::EndsWith(name, ".one_thread") ||
                      absl::StartsWith(name, "future."))) {
      EXPECT_EQ(Text(row, "status"), "measured");
    }
  }
}

TEST(SideBySideSmokeTest, ChoosesRows) {
  EXPECT_EQ(RunProgram("--only='^put[.]' --list | grep -qx put.4k.one_thread"),
            0);
  EXPECT_EQ(RunProgram("--only='^no such row$' 2> /dev/null"), 2);
  EXPECT_EQ(RunProgram("--only='(' 2> /dev/null"), 2);
  EXPECT_EQ(RunProgram("surplus 2> /dev/null"), 2);
}

}  // namespace

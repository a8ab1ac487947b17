// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/benchmarks/harness/report.h"

#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/benchmarks/harness/run_row.h"
#include "tenon/benchmarks/harness/turns.h"

namespace tenon::benchmarks {
namespace {

using testing::HasSubstr;
using testing::Not;

// A row of a limit and a queue, with one turn near.
RowResult Measured(double limit_ns, double queue_ns) {
  RowResult result = {.subjects = {{.name = "limit"}, {.name = "queue"}}};
  result.row.name = "row";
  result.row.limit = "limit";
  result.turns.Add(
      {.line_ns = {100, 100, 100}, .ns = {limit_ns, queue_ns}, .slept = 1});
  return result;
}

std::string LineOf(const std::string& table, const std::string& subject) {
  const size_t begin = table.find("  " + subject);
  return table.substr(begin, table.find('\n', begin) - begin);
}

nlohmann::json SubjectIn(RowResult result, size_t subject) {
  Report report;
  report.rows.push_back(std::move(result));
  return nlohmann::json::parse(JsonOf(report))
      .at("rows")
      .at(0)
      .at("subjects")
      .at(subject);
}

TEST(ReportTest, ARatioIsThatToTheLimit) {
  EXPECT_THAT(LineOf(TableOf(Measured(20, 50), {}), "queue"),
              HasSubstr("2.50"));
  const auto near = SubjectIn(Measured(20, 50), 1).at("near");
  EXPECT_EQ(near.at("over_limit").at("median"), 2.5);
}

TEST(ReportTest, WithoutTheLimitThereIsNoRatio) {
  const std::string line = LineOf(TableOf(Measured(NAN, 50), {}), "queue");
  EXPECT_THAT(line, HasSubstr("50.0"));
  EXPECT_THAT(line, Not(HasSubstr("0.00")));
  const auto near = SubjectIn(Measured(NAN, 50), 1).at("near");
  EXPECT_EQ(near.at("ns").at("median"), 50);
  EXPECT_FALSE(near.contains("over_limit"));
}

TEST(ReportTest, ASubjectWithoutFiguresHasAReason) {
  RowResult result = Measured(20, NAN);
  result.subjects[1].missing = "no folder of peers";
  EXPECT_THAT(LineOf(TableOf(result, {}), "queue"),
              HasSubstr("no folder of peers"));
  const auto subject = SubjectIn(result, 1);
  EXPECT_EQ(subject.at("status"), "missing");
  EXPECT_EQ(subject.at("reason"), "no folder of peers");
  EXPECT_TRUE(subject.at("near").is_null());
}

}  // namespace
}  // namespace tenon::benchmarks

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Compares ways of handing tensors over, and futures, with their limits and
// with peers, in turns: see README.md.
//
//   ./bazelw run -c opt //benchmarks:side_by_side -- --only=handover --json=rows.json
//
// Exits with 1 if a row could not be measured, and 2 for a bad flag.

#include <regex.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tenon/benchmarks/futures/future_rows.h"
#include "tenon/benchmarks/handover/handover_rows.h"
#include "tenon/benchmarks/handover/size_rows.h"
#include "tenon/benchmarks/harness/machine.h"
#include "tenon/benchmarks/harness/peer_program.h"
#include "tenon/benchmarks/harness/report.h"
#include "tenon/benchmarks/harness/run_row.h"
#include "tenon/benchmarks/harness/subject.h"
#include "tenon/shm/testing/two_cores.h"

ABSL_FLAG(std::string, only, "", "Only rows whose names match this regex.");
ABSL_FLAG(
    double, seconds, 10,
    "The longest time for each row; ten times as long while no turn of it "
    "was kept.");
ABSL_FLAG(size_t, turns, 51, "Enough turns for each distance of a row.");
ABSL_FLAG(int, most_in_a_turn, std::numeric_limits<int>::max(),
          "Fewer hand-overs in a turn than the row has: for a short run, whose "
          "figures mean nothing.");
ABSL_FLAG(double, near_below_ns, 250,
          "Cores are near if a cache line there and back takes less.");
ABSL_FLAG(std::string, json, "", "The report is written to this file.");
ABSL_FLAG(std::string, commit, "",
          "For the report. Empty: of the checkout of `bazel run`.");
ABSL_FLAG(std::string, peers, "",
          "Where tools/install_peers put the peers. Empty: $TENON_PEERS.");
ABSL_FLAG(bool, list, false, "Prints the names of the rows, and ends.");

namespace tenon::benchmarks {
namespace {

constexpr double kBusy = 0.5;  // A load average.

// A relative path is relative to where `bazel run` was called.
std::string PathOf(const std::string& path) {
  const char* const folder = getenv("BUILD_WORKING_DIRECTORY");
  if (folder == nullptr || path.empty() || path[0] == '/') return path;
  return absl::StrCat(folder, "/", path);
}

PeerPlace Peers(const TwoCores& cores) {
  std::string folder = absl::GetFlag(FLAGS_peers);
  const char* const environment = getenv("TENON_PEERS");
  if (folder.empty() && environment != nullptr) folder = environment;
  return {.folder = PathOf(folder), .cores = cores};
}

std::vector<Row> AllRows(const PeerPlace& peers) {
  std::vector<Row> rows = HandoverRows(peers);
  for (Row& row : FutureRows(peers)) rows.push_back(std::move(row));
  for (Row& row : SizeRows()) rows.push_back(std::move(row));
  return rows;
}

// The rows that --only names. False if it is no regular expression.
bool Choose(std::vector<Row>& rows) {
  const std::string only = absl::GetFlag(FLAGS_only);
  if (only.empty()) return true;
  regex_t regex;
  if (regcomp(&regex, only.c_str(), REG_EXTENDED | REG_NOSUB) != 0) {
    return false;
  }
  std::erase_if(rows, [&](const Row& row) {
    return regexec(&regex, row.name.c_str(), 0, nullptr, 0) != 0;
  });
  regfree(&regex);
  return true;
}

void PrintHead(const Report& report) {
  const MachineFacts& machine = report.machine;
  std::printf("%s, %d cores, %s, commit %s\n", machine.processor.c_str(),
              machine.usable_cores, machine.kernel.c_str(),
              report.commit.c_str());
  if (machine.share_a_core) std::printf("The two processes share a core.\n");
  if (!machine.optimised) std::printf("NOT OPTIMISED: build with -c opt.\n");
  if (machine.load_1m > kBusy) {
    std::printf("NOT IDLE: the load average is %.1f.\n", machine.load_1m);
  }
}

int Write(const Report& report) {
  const std::string path = PathOf(absl::GetFlag(FLAGS_json));
  if (path.empty()) return 0;
  std::ofstream file(path);
  file << JsonOf(report) << std::flush;
  if (file.good()) return 0;
  std::fprintf(stderr, "side_by_side: '%s' cannot be written\n", path.c_str());
  return 1;
}

int Compare() {
  const TwoCores cores;
  std::vector<Row> rows = AllRows(Peers(cores));
  if (!Choose(rows) || rows.empty()) {
    std::fprintf(stderr, "side_by_side: no row matches --only=%s; see --list\n",
                 absl::GetFlag(FLAGS_only).c_str());
    return 2;
  }
  if (absl::GetFlag(FLAGS_list)) {
    for (const Row& row : rows) std::printf("%s\n", row.name.c_str());
    return 0;
  }
  Report report = {
      .commit = absl::GetFlag(FLAGS_commit),
      .machine = FactsOfThisMachine(cores),
      .options = {.time = absl::Seconds(absl::GetFlag(FLAGS_seconds)),
                  .turns = absl::GetFlag(FLAGS_turns),
                  .most_in_a_turn = absl::GetFlag(FLAGS_most_in_a_turn),
                  .near_below_ns = absl::GetFlag(FLAGS_near_below_ns)}};
  if (report.commit.empty()) report.commit = CommitOfThisBuild();
  PrintHead(report);
  int failures = 0;
  for (const Row& row : rows) {
    report.rows.push_back(RunRow(row, cores, report.options));
    const RowResult& result = report.rows.back();
    failures += result.status == RowResult::kFailed;
    std::printf("\n%s", TableOf(result, report.options).c_str());
    std::fflush(stdout);
  }
  failures += Write(report);
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tenon::benchmarks

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "compares hand-overs of tensors, and futures, with limits and peers");
  const std::vector<char*> rest = absl::ParseCommandLine(argc, argv);
  if (rest.size() > 1) {
    std::fprintf(stderr, "side_by_side: unexpected argument '%s'\n", rest[1]);
    return 2;
  }
  return tenon::benchmarks::Compare();
}

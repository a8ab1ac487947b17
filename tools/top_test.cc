// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// `tenon top` and `tenon metrics` beside a loader of this process.

#include "tenon/tools/live/top.h"

#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/queue/queue.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/dataset_registry.h"
#include "tenon/loader/loader.h"
#include "tenon/loader/stats/loader_stats.h"
#include "tenon/loader/stats/stats_layout.h"
#include "tenon/loader/stats/stats_query.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/segment/control_memory.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/tools/cli/json.h"
#include "tenon/tools/tenon_tool.h"

namespace tenon::tools {
namespace {

using loader::Batch;
using loader::EpochRange;
using loader::Loader;
using loader::LoaderStats;
using loader::Stage;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class Slow : public loader::Dataset {
 public:
  explicit Slow(int64_t ms) : ms_(ms) {}
  int64_t size() const override { return 10'000; }
  loader::SampleSpec spec() const override {
    return loader::SampleSpec().Add<int64_t>("value");
  }
  absl::Status Get(int64_t index, loader::SampleRandom&,
                   loader::Sample& sample) override {
    absl::SleepFor(absl::Milliseconds(ms_));
    return sample.Set("value", index);
  }

 private:
  int64_t ms_;
};
TENON_LOADER_DATASET(Slow(int64_t));

struct Output {
  int exit_code;
  std::string out;
  std::string errors;
};

Output Tenon(const std::vector<std::string>& words) {
  std::ostringstream out, errors;
  const int exit_code = RunTenonTool(words, out, errors);
  return {exit_code, out.str(), errors.str()};
}

void Take(EpochRange& epoch, int batches) {
  for (int i = 0; i < batches; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(const auto batch,
                               epoch.Next(Deadline::After(absl::Minutes(1))));
    ASSERT_TRUE(batch.has_value());
  }
}

// The loader of this process; other tests may have some, too.
const LoaderStats* OwnOf(const loader::LoaderQuery& query) {
  for (const LoaderStats& stats : query.loaders) {
    if (stats.consumer.pid == getpid()) return &stats;
  }
  return nullptr;
}

class TopTest : public ::testing::TestWithParam<loader::WorkerKind> {
 protected:
  std::unique_ptr<Loader> Make() const {
    return *Loader::Create<Slow>(
        {.batch_size = 4, .workers = 2, .worker_kind = GetParam()}, int64_t{2});
  }
};

TEST_P(TopTest, AStrangerFindsTheLoaderAndItsWorkers) {
  {
    const auto loader = Make();
    EpochRange epoch = loader->Epoch(3);
    Take(epoch, 10);
    TENON_ASSERT_OK_AND_ASSIGN(const auto query, loader::QueryLoaders());
    const LoaderStats* const found = OwnOf(query);
    ASSERT_NE(found, nullptr);
    const LoaderStats own = loader->Stats();
    EXPECT_EQ(found->consumer.loader, own.consumer.loader);
    EXPECT_EQ(found->consumer.dataset, "Slow");
    EXPECT_EQ(found->consumer.batches, 10u);
    EXPECT_EQ(found->workers_configured, 2);
    ASSERT_EQ(found->workers.size(), 2u);
    const std::vector<pid_t> pids = loader->worker_pids();
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(found->workers[i].worker, static_cast<int>(i));
      EXPECT_EQ(found->workers[i].pid, pids.empty() ? getpid() : pids[i]);
      EXPECT_GE(found->workers[i].batches, 4u);
    }
  }
  TENON_ASSERT_OK_AND_ASSIGN(const auto query, loader::QueryLoaders());
  EXPECT_EQ(OwnOf(query), nullptr);
}

// What `tenon ps` says of a loader's processes.
TEST_P(TopTest, PsTellsWorkersAndTheirSupervisors) {
  const auto loader = Make();
  EpochRange epoch = loader->Epoch(0);
  Take(epoch, 2);
  const Output output = Tenon({"ps", "--json"});
  ASSERT_EQ(output.exit_code, 0) << output.errors;
  int workers = 0;
  int supervisors = 0;
  const Json parsed = Json::parse(output.out);
  for (const Json& process : parsed["processes"]) {
    const Json& role = process["role"];
    if (role.is_null() || role["parent_pid"] != getpid()) continue;
    if (role["kind"] == "child") {
      ++workers;
    } else {
      ++supervisors;
      EXPECT_EQ(process["segments"], 0) << process;
    }
  }
  const bool has_processes = GetParam() == loader::WorkerKind::kProcess;
  EXPECT_EQ(workers, has_processes ? 2 : 0) << output.out;
  EXPECT_EQ(supervisors >= 1, has_processes) << output.out;
  EXPECT_EQ(Tenon({"ps"}).out.find(absl::StrCat("supervisor of ", getpid())) !=
                std::string::npos,
            has_processes);
}

TEST_P(TopTest, PlainLinesShowStagesAndBlocks) {
  const auto loader = Make();
  EpochRange epoch = loader->Epoch(0);
  Take(epoch, 20);
  const Output output = Tenon({"top", "--interval", "0.1"});
  EXPECT_EQ(output.exit_code, 0) << output.errors;
  EXPECT_THAT(
      output.out,
      AllOf(HasSubstr(absl::StrCat("loader of Slow, process ", getpid(), ": ")),
            HasSubstr("2 workers, prefetch 2"),
            HasSubstr("The loader is the bottleneck"), HasSubstr("worker 1")));
  const Output json = Tenon({"top", "--interval", "0.1", "--json"});
  ASSERT_EQ(json.exit_code, 0) << json.errors;
  const Json parsed = Json::parse(json.out);
  bool found = false;
  for (const Json& one : parsed["loaders"]) {
    if (one["consumer"]["pid"] != getpid()) continue;
    found = true;
    EXPECT_EQ(one["dataset"], "Slow");
    ASSERT_EQ(one["workers"].size(), 2u);
    // Two batches of each wait, in blocks of their own.
    EXPECT_GE(one["workers"][0]["blocks"], 1);
  }
  EXPECT_TRUE(found) << json.out;
}

TEST_P(TopTest, MetricsHaveLoadersAndArenas) {
  const auto loader = Make();
  EpochRange epoch = loader->Epoch(0);
  Take(epoch, 5);
  const std::string name = absl::StrCat("top-test-", getpid());
  auto queue = Queue<int64_t>::Create({.name = name, .capacity = 1});
  ASSERT_TRUE(queue.ok());
  const auto a_moment = [] { return Deadline::After(absl::Milliseconds(200)); };
  EXPECT_FALSE(queue->Get(a_moment()).ok());
  auto arena = Arena::Create({.name = name, .quota_bytes = 4096});
  ASSERT_TRUE(arena.ok());
  const auto all = (*arena)->TryAllocate(4096);
  ASSERT_TRUE(all.ok());
  EXPECT_FALSE((*arena)->Allocate(4096, a_moment()).ok());
  const Output output = Tenon({"metrics"});
  EXPECT_EQ(output.exit_code, 0) << output.errors;
  EXPECT_THAT(output.out, EndsWith("\n# EOF\n"));
  EXPECT_THAT(
      output.out,
      AllOf(HasSubstr(absl::StrCat("tenon_loader_batches_total{pid=\"",
                                   getpid(), "\"")),
            HasSubstr("name=\"loader-worker-1\",state=\"in use\"}"),
            HasSubstr("# TYPE tenon_queue_items gauge\n"),
            HasSubstr("# TYPE tenon_queue_put_wait_seconds "
                      "histogram\n"),
            HasSubstr(absl::StrCat("name=\"", name, "\",slot=\"0\"} 1\n")),
            HasSubstr(absl::StrCat("name=\"", name, "\"} 1\n"))));
  EXPECT_THAT(output.out,
              HasSubstr(absl::StrCat("tenon_arena_wait_seconds_count{pid=\"",
                                     getpid(), "\"")));
  EXPECT_THAT(output.out,
              HasSubstr("tenon_queue_get_wait_seconds_count{queue=\""));
}

INSTANTIATE_TEST_SUITE_P(Kinds, TopTest,
                         ::testing::Values(loader::WorkerKind::kProcess,
                                           loader::WorkerKind::kThread),
                         [](const auto& test) {
                           return test.param == loader::WorkerKind::kThread
                                      ? "threads"
                                      : "processes";
                         });

// Memory as a loader's, with `value` in every word that can have any.
ControlMemory Garbage(const char* label, uint64_t worker, uint64_t value) {
  constexpr size_t kWords = loader::StatsWords(0);
  ControlMemory memory =
      *ControlMemory::Create(kWords * sizeof(uint64_t), label);
  auto* const words = reinterpret_cast<uint64_t*>(memory.data());
  std::fill(words, words + kWords, value);
  words[loader::StatsWord::kMagic] = loader::StatsWord::kMagicValue;
  words[loader::StatsWord::kLoaderHigh] = 7;
  words[loader::StatsWord::kLoaderLow] = 7;
  words[loader::StatsWord::kEvents] = 0;
  words[loader::StatsWord::kWorker] = worker;
  return memory;
}

TEST(TopOfAHostileProcessTest, ShowsAnyFiguresAndEnds) {
  for (const uint64_t value : {UINT64_MAX, uint64_t{1} << 63}) {
    const ControlMemory consumer =
        Garbage(loader::kConsumerStatsLabel, 0, value);
    const ControlMemory worker = Garbage(loader::kWorkerStatsLabel, 1, value);
    const Output text = Tenon({"top", "--interval", "0.1"});
    EXPECT_EQ(text.exit_code, 0) << text.errors;
    EXPECT_THAT(text.out, HasSubstr(absl::StrCat("process ", getpid())));
    const Output json = Tenon({"top", "--interval", "0.1", "--json"});
    EXPECT_EQ(json.exit_code, 0) << json.errors;
    EXPECT_TRUE(Json::accept(json.out)) << json.out;
    EXPECT_EQ(Tenon({"metrics"}).exit_code, 0);
  }
}

TEST(TopOfAHostileProcessTest, OfTwoWorkersOfANumberTheLaterOneIsShown) {
  const ControlMemory consumer = Garbage(loader::kConsumerStatsLabel, 0, 1);
  // In whatever order they are found.
  for (const uint64_t later : {0, 1}) {
    const ControlMemory one =
        Garbage(loader::kWorkerStatsLabel, 1, 100 + later);
    const ControlMemory other =
        Garbage(loader::kWorkerStatsLabel, 1, 101 - later);
    TENON_ASSERT_OK_AND_ASSIGN(const auto query, loader::QueryLoaders());
    const LoaderStats* const found = OwnOf(query);
    ASSERT_NE(found, nullptr);
    ASSERT_EQ(found->workers.size(), 1u);
    EXPECT_EQ(found->workers[0].batches, 101u);
  }
}

// Two readings of a loader, without processes.
TopReading Reading(uint64_t batches, int64_t now_ns) {
  LoaderStats stats = {
      .workers_configured = 1, .prefetch = 2, .taken_at_ns = now_ns};
  stats.consumer.loader = {1, 2};
  stats.consumer.pid = 4711;
  stats.consumer.dataset = "Photos\x1b[31m";
  stats.consumer.batches = batches;
  stats.consumer.stage = Stage::kWait;
  stats.consumer.since_ns = 1'000'000'000;
  loader::ProcessStats worker;
  worker.worker = 0;
  worker.pid = 4712;
  worker.stage = Stage::kLoad;
  worker.since_ns = 1'000'000'000;
  worker.epoch = 1;
  worker.batch = 7;
  stats.workers.push_back(worker);
  stats.ready_now.push_back(1);
  TopReading reading;
  reading.loaders.loaders.push_back(stats);
  ArenaReport arena = {.name = "loader-worker-0", .owner = 4712};
  arena.in_use = {.blocks = 2, .bytes = 8192};
  arena.lent = {.blocks = 1, .bytes = 4096};
  reading.ledger.arenas.push_back(arena);
  return reading;
}

TEST(TopTextTest, AHungSampleIsSeenWhileItHangs) {
  const TopReading added =
      TopSince(Reading(30, 62'000'000'000), Reading(20, 60'000'000'000));
  const std::string text = TopText(added, 2);
  EXPECT_THAT(text, StartsWith("loader of Photos\\x1b[31m, process 4711: 5.0 "
                               "batches/s"));
  EXPECT_THAT(text, HasSubstr("worker 0  4712  load  1m 1s    1:7"));
  EXPECT_THAT(text, HasSubstr("100%"));
  EXPECT_THAT(text, HasSubstr("3  12.0 KiB"));
  EXPECT_EQ(added.loaders.loaders[0].workers[0].of(Stage::kLoad).total_ns,
            2'000'000'000u);
  EXPECT_EQ(TopText(TopReading(), 1), "no process of this user has a loader\n");
}

TEST(TopTextTest, FitsTheWidthOfATerminal) {
  const TopReading added =
      TopSince(Reading(30, 62'000'000'000), Reading(20, 60'000'000'000));
  const std::string wide = TopText(added, 2);
  const std::string narrow = TopText(added, 2, 72);
  for (const absl::string_view line : absl::StrSplit(narrow, '\n')) {
    EXPECT_LE(line.size(), 72u) << line;
  }
  EXPECT_THAT(wide, HasSubstr("BLOCKS"));
  EXPECT_THAT(narrow, Not(HasSubstr("BLOCKS")));
  EXPECT_THAT(narrow, HasSubstr("worker 0  4712  load  1m 1s"));
}

TEST(TopCommandTest, FlagsAreChecked) {
  EXPECT_EQ(Tenon({"top", "--interval", "0"}).exit_code, 2);
  EXPECT_EQ(Tenon({"top", "--count", "0"}).exit_code, 2);
  EXPECT_THAT(Tenon({"help", "top"}).out, HasSubstr("--interval"));
}

// In a terminal of its own: the screen is drawn, and restored after q.
TEST(TopScreenTest, DrawsAndEnds) {
  int terminal = -1;
  winsize size = {.ws_row = 24, .ws_col = 80};
  const pid_t pid = forkpty(&terminal, nullptr, nullptr, &size);
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    setenv("TERM", "xterm", 1);
    execl("tools/tenon", "tenon", "top", "--interval", "0.2", nullptr);
    _exit(127);
  }
  ASSERT_EQ(fcntl(terminal, F_SETFL, O_NONBLOCK), 0);
  std::string drawn;
  const absl::Time watchdog = absl::Now() + absl::Seconds(60);
  const auto read_until = [&](const std::string& text) {
    while (drawn.find(text) == std::string::npos && absl::Now() < watchdog) {
      char bytes[4096];
      const ssize_t got = read(terminal, bytes, sizeof(bytes));
      if (got > 0) drawn.append(bytes, static_cast<size_t>(got));
      if (got == 0) break;
      if (got < 0) absl::SleepFor(absl::Milliseconds(5));
    }
    return drawn.find(text) != std::string::npos;
  };
  // The other screen of the terminal, and back.
  EXPECT_TRUE(read_until("\x1b[?1049h")) << drawn;
  EXPECT_TRUE(read_until("q ends")) << drawn;
  ASSERT_EQ(write(terminal, "q", 1), 1);
  EXPECT_TRUE(read_until("\x1b[?1049l")) << drawn;
  int status = -1;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  close(terminal);
}

// In a session that outlives its terminal (nohup, a server of sessions) the end
// of the terminal is no signal.
TEST(TopScreenTest, EndsWithItsTerminal) {
  int terminal = -1;
  winsize size = {.ws_row = 24, .ws_col = 80};
  const pid_t pid = forkpty(&terminal, nullptr, nullptr, &size);
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    signal(SIGHUP, SIG_IGN);
    setenv("TERM", "xterm", 1);
    execl("tools/tenon", "tenon", "top", "--interval", "0.2", nullptr);
    _exit(127);
  }
  char first;
  ASSERT_EQ(read(terminal, &first, 1), 1);
  close(terminal);
  int status = -1;
  EXPECT_TRUE(Becomes([&] { return waitpid(pid, &status, WNOHANG) == pid; }));
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << status;
  if (!WIFEXITED(status)) kill(pid, SIGKILL);
}

// What a command of tenon prints on a terminal of `columns`; 0: it does not
// know its size, and $COLUMNS says 60.
std::string OnTerminal(const char* command, unsigned short columns) {
  int terminal = -1;
  winsize size = {.ws_row = 24, .ws_col = columns};
  const pid_t pid = forkpty(&terminal, nullptr, nullptr, &size);
  if (pid == 0) {
    setenv("COLUMNS", "60", 1);
    execl("tools/tenon", "tenon", command, nullptr);
    _exit(127);
  }
  std::string shown;
  char bytes[4096];
  for (ssize_t got; (got = read(terminal, bytes, sizeof(bytes))) > 0;) {
    shown.append(bytes, static_cast<size_t>(got));
  }
  int status = -1;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  // The doctor may find a failure.
  const int worst = absl::string_view(command) == "doctor" ? 1 : 0;
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) <= worst) << status;
  close(terminal);
  return shown;
}

TEST(TerminalTest, TablesFitItsWidth) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto arena, Arena::Create({}));
  EXPECT_THAT(OnTerminal("ps", 200), HasSubstr("SEGMENTS"));
  EXPECT_THAT(Tenon({"ps"}).out, HasSubstr("SEGMENTS"));
  for (const unsigned short columns : {50, 0}) {
    const std::string shown = OnTerminal("ps", columns);
    EXPECT_THAT(shown, HasSubstr("PID  NAME"));
    EXPECT_THAT(shown, Not(HasSubstr("SEGMENTS")));
    for (const absl::string_view line : absl::StrSplit(shown, "\r\n")) {
      EXPECT_LE(line.size(), columns == 0 ? 60u : columns) << line;
    }
  }
}

TEST(TerminalTest, TheDoctorFitsItsWidth) {
  const std::string shown = OnTerminal("doctor", 20);
  EXPECT_THAT(shown, HasSubstr("that must be\r\n    fixed"));
  for (const absl::string_view line : absl::StrSplit(shown, "\r\n")) {
    // A long word, such as a path, stays whole; so does a command.
    const absl::string_view text = absl::StripLeadingAsciiWhitespace(line);
    if (absl::StrContains(text, ' ') && !absl::StartsWith(text, "fix:")) {
      EXPECT_LE(line.size(), 20u) << line;
    }
  }
}

}  // namespace
}  // namespace tenon::tools

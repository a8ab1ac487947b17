// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/tools/tenon_tool.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <limits>
#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "glog/logging.h"
#include "tenon/ipc/queue/queue_query.h"
#include "tenon/loader/stats/stats_query.h"
#include "tenon/shm/arena/query/ledger_query.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/version.h"
#include "tenon/shm/pages/shown_memfd.h"
#include "tenon/shm/segment/named_segments.h"
#include "tenon/shm_manager/manager_client.h"
#include "tenon/shm_manager/manager_stats.h"
#include "tenon/tools/cli/command_line.h"
#include "tenon/tools/cli/json.h"
#include "tenon/tools/cli/table.h"
#include "tenon/tools/cli/terminal_text.h"
#include "tenon/tools/doctor/doctor.h"
#include "tenon/tools/doctor/finding.h"
#include "tenon/tools/live/mem.h"
#include "tenon/tools/live/process_scan.h"
#include "tenon/tools/live/ps.h"
#include "tenon/tools/live/screen.h"
#include "tenon/tools/live/segments.h"
#include "tenon/tools/live/shm.h"
#include "tenon/tools/live/top.h"

namespace tenon::tools {
namespace {

// Returns the exit code. Errors: kInvalidArgument becomes 2, others 1.
using Run = absl::StatusOr<int> (*)(const CommandLine& line, std::ostream& out);

struct Subcommand {
  std::string name;
  std::string summary;
  std::string details;
  std::vector<FlagSpec> flags;
  std::string examples;
  Run run;
};

FlagSpec JsonFlag() {
  return {.name = "json", .help = "print JSON, with exact bytes"};
}

// The columns of the terminal that `out` is, or $COLUMNS where the kernel does
// not know them, as of a serial line; 0: it is none.
size_t WidthOf(const std::ostream& out) {
  if (&out != &std::cout || isatty(STDOUT_FILENO) == 0) return 0;
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    return size.ws_col;
  }
  const char* const columns = getenv("COLUMNS");
  uint32_t width = 0;
  return columns != nullptr && absl::SimpleAtoi(columns, &width) ? width : 0;
}

absl::StatusOr<ProcessScan> ScanAll() {
  // Without those in a /dev/shm that cannot be read.
  const auto named = ListNamedSegments();
  return ScanProcesses(named.ok() ? ChosenNamesOf(*named) : ChosenNames());
}

absl::StatusOr<int> RunPs(const CommandLine& line, std::ostream& out) {
  TENON_ASSIGN_OR_RETURN(const LedgerReport report, QueryLedger());
  TENON_ASSIGN_OR_RETURN(const ProcessScan scan, ScanAll());
  const std::vector<PsRow> rows = PsRows(scan, report);
  out << (line.Has("json") ? JsonText(PsJson(rows, scan.hidden, absl::Now()))
                           : PsText(rows, scan.hidden, WidthOf(out)));
  return 0;
}

absl::StatusOr<MemView> ReadMem() {
  MemView view;
  TENON_ASSIGN_OR_RETURN(view.ledger, QueryLedger());
  TENON_ASSIGN_OR_RETURN(view.queues, QueryQueues());
  TENON_ASSIGN_OR_RETURN(view.loaders, loader::QueryLoaders());
  TENON_ASSIGN_OR_RETURN(const ProcessScan scan, ScanAll());
  TENON_ASSIGN_OR_RETURN(view.segments, SegmentRows(scan, view.ledger.arenas));
  return view;
}

absl::Status NothingOf(pid_t pid) {
  const std::string process = absl::StrCat("process ", pid);
  if (kill(pid, 0) != 0 && errno == ESRCH) {
    return absl::NotFoundError(
        absl::StrCat("--pid: there is no ", process, "; see: tenon ps"));
  }
  if (!IsOfThisUser(pid)) {
    return absl::NotFoundError(absl::StrCat(
        "--pid: ", process, " is of another user; run tenon as that user"));
  }
  return absl::NotFoundError(absl::StrCat(
      "--pid: ", process, " has no memory of Tenon open; see: tenon ps"));
}

absl::StatusOr<int> RunMem(const CommandLine& line, std::ostream& out) {
  constexpr double kMaxPid = std::numeric_limits<pid_t>::max();
  TENON_ASSIGN_OR_RETURN(const double number,
                         line.Number("pid", 0, 1, kMaxPid));
  TENON_ASSIGN_OR_RETURN(const double pause,
                         line.Number("watch", 0, 0.1, 86400));
  const auto pid = static_cast<pid_t>(number);
  if (pid != number) {
    return absl::InvalidArgumentError("--pid must be a whole number");
  }
  for (;;) {
    TENON_ASSIGN_OR_RETURN(MemView view, ReadMem());
    if (pid != 0) {
      view = OnlyOf(pid, view);
      if (IsEmpty(view)) return NothingOf(pid);
    }
    out << (line.Has("json") ? JsonText(MemJson(view))
                             : MemText(view, WidthOf(out)));
    out.flush();
    if (!line.Has("watch") || !out) return 0;
    absl::SleepFor(absl::Seconds(pause));
    if (!line.Has("json")) out << "\n";
  }
}

struct LastTop {
  TopReading reading;
  absl::Time at = absl::Now();
};

// What has been added since `last`, after a pause.
absl::StatusOr<std::string> NextTop(absl::Duration pause, bool json,
                                    size_t width, LastTop& last) {
  absl::SleepFor(pause);
  LastTop now;
  TENON_ASSIGN_OR_RETURN(now.reading, ReadTop());
  const TopReading added = TopSince(now.reading, last.reading);
  const double seconds = absl::ToDoubleSeconds(now.at - last.at);
  last = std::move(now);
  return json ? JsonText(TopJson(added, seconds))
              : TopText(added, seconds, width);
}

absl::StatusOr<int> RunTop(const CommandLine& line, std::ostream& out) {
  TENON_ASSIGN_OR_RETURN(const double seconds,
                         line.Number("interval", 1, 0.05, 86400));
  TENON_ASSIGN_OR_RETURN(const double count, line.Number("count", 1, 1, 1e9));
  const absl::Duration pause = absl::Seconds(seconds);
  LastTop last;
  TENON_ASSIGN_OR_RETURN(last.reading, ReadTop());
  if (&out == &std::cout && isatty(STDOUT_FILENO) != 0 && !line.Has("json") &&
      !line.Has("count") && !line.Has("plain")) {
    bool is_first = true;
    const absl::Status shown = ShowOnScreen(
        [&]() -> absl::StatusOr<std::string> {
          // At once, and then after each pause, in which keys are read.
          TENON_ASSIGN_OR_RETURN(
              std::string text,
              NextTop(is_first ? std::min(pause, absl::Seconds(0.2))
                               : absl::ZeroDuration(),
                      false, WidthOf(out), last));
          is_first = false;
          return "tenon top   q ends, arrows scroll\n" + text;
        },
        pause);
    // Without a terminal that can be drawn on: lines.
    if (!absl::IsFailedPrecondition(shown)) {
      TENON_RETURN_IF_ERROR(shown);
      return 0;
    }
    LOG(WARNING) << shown.message();
  }
  for (double i = 0; i < count && out; ++i) {
    if (i > 0 && !line.Has("json")) out << "\n";
    TENON_ASSIGN_OR_RETURN(
        const std::string text,
        NextTop(pause, line.Has("json"), WidthOf(out), last));
    out << text;
    out.flush();
  }
  return 0;
}

absl::StatusOr<int> RunMetrics(const CommandLine& /*line*/, std::ostream& out) {
  TENON_ASSIGN_OR_RETURN(const std::string text, MetricsText());
  out << text;
  return 0;
}

absl::StatusOr<int> RunShmList(const CommandLine& line, std::ostream& out) {
  // In this order: a process that opens a segment after the scan is not shown
  // as its holder, but none is shown that never held it.
  TENON_ASSIGN_OR_RETURN(const auto segments, ListNamedSegments());
  const absl::StatusOr<ProcessScan> scan =
      ScanProcesses(ChosenNamesOf(segments));
  // Without /proc the states are still exact; only holders are not shown.
  if (!scan.ok()) LOG(WARNING) << "no holders: " << scan.status().message();
  const std::vector<ShmRow> rows =
      ShmRows(segments, scan.ok() ? *scan : ProcessScan());
  out << (line.Has("json") ? JsonText(ShmJson(rows))
                           : ShmText(rows, absl::Now(), WidthOf(out)));
  return 0;
}

absl::StatusOr<int> RunShmGc(const CommandLine& line, std::ostream& out) {
  const bool remove = !line.Has("dry-run");
  TENON_ASSIGN_OR_RETURN(std::vector<NamedSegment> dead,
                         remove ? ReclaimDeadNames() : ListNamedSegments());
  VLOG(1) << "examined the names in /dev/shm";
  std::erase_if(dead, [](const NamedSegment& name) { return name.is_held; });
  for (const NamedSegment& name : dead) {
    if (remove) LOG(INFO) << "removed '" << name.name << "'";
  }
  out << (line.Has("json") ? JsonText(ShmGcJson(dead, remove))
                           : ShmGcText(dead, remove));
  return 0;
}

absl::StatusOr<int> RunShmStats(const CommandLine& line, std::ostream& out) {
  const Deadline deadline = Deadline::After(absl::Seconds(10));
  TENON_ASSIGN_OR_RETURN(std::string path,
                         ManagerPath(line.Text("group", "default")));
  VLOG(1) << "attaching at " << path;
  TENON_ASSIGN_OR_RETURN(
      ManagerClient client,
      ManagerClient::Attach({.path = std::move(path)}, deadline));
  VLOG(1) << "attached to process " << client.daemon().pid;
  TENON_ASSIGN_OR_RETURN(const ManagerStats stats, client.QueryStats(deadline));
  out << (line.Has("json") ? JsonText(ShmStatsJson(stats))
                           : ShmStatsText(stats));
  return 0;
}

absl::StatusOr<int> RunDoctor(const CommandLine& line, std::ostream& out) {
  const std::vector<Finding> findings = Examine();
  out << (line.Has("json") ? JsonText(FindingsJson(findings))
                           : FindingsText(findings, WidthOf(out)));
  return AllWork(findings) ? 0 : 1;
}

absl::StatusOr<int> RunCompletion(const CommandLine& line, std::ostream& out);

const std::vector<Subcommand>& Subcommands() {
  static const auto& all = *new std::vector<Subcommand>{
      {.name = "ps",
       .summary = "the processes of this user that use Tenon",
       .details =
           "ROLE: entry point, index and parent of a child of //spawn, or\n"
           "supervisor and the process whose children it supervises.\n"
           "ARENAS and OWNED: arenas the process allocates from, and their\n"
           "segments' bytes. ATTACHED and HELD: peers' arenas, and blocks it\n"
           "holds there. SEGMENTS and BYTES: all segments that it has open\n"
           "or mapped, including arenas'; two processes that share one both\n"
           "list it. Memfds are known by their label: those created with a\n"
           "name_prefix that does not begin with \"tenon\" are not counted.\n",
       .flags = {JsonFlag()},
       .examples =
           "  tenon ps\n"
           "  tenon ps --json | jq '.processes[] | select(.bytes_held > "
           "0)'\n",
       .run = RunPs},
      {.name = "mem",
       .summary = "arenas and the holders of their blocks; queues, segments",
       .details =
           "Blocks in use: held by the owner. Lent: released by the owner,\n"
           "held by peers. Resting: held by no process, and reclaimed when\n"
           "memory is needed. OLDEST: age of the oldest block held. Processes\n"
           "are neither asked nor stopped: the figures come from the shared\n"
           "memory that they use themselves.\n"
           "Queues: items not taken yet, capacity per participant, current\n"
           "and maximum participants, and processes that have them open.\n"
           "Loaders: batches taken, samples of each, workers. Segments, the\n"
           "largest first: of arenas, with the arena's name; values and\n"
           "arrays, locks, rings, loaders' counters; memory of its own, such\n"
           "as tensors; and the processes that have them open or mapped.\n"
           "With --pid of a process without any of these: exit code 1.\n",
       .flags = {{.name = "pid",
                  .value = "N",
                  .help = "only arenas that process N owns or holds blocks of, "
                          "and what it has open"},
                 JsonFlag(),
                 {.name = "watch",
                  .value = "SECONDS",
                  .help = "repeat until Ctrl-C"}},
       .examples = "  tenon mem\n"
                   "  tenon mem --pid 4711 --watch 1\n"
                   "  tenon mem --json | jq '.arenas[].holders[] | "
                   "select(.state == \"stopped\")'\n"
                   "  tenon mem --json | jq '.queues[] | {name, items}'\n",
       .run = RunMem},
      {.name = "top",
       .summary = "loaders: what they wait for, by worker and stage",
       .details =
           "What was added in the last interval, or since the loader's\n"
           "beginning in the verdict, if there were too few batches. DOES and\n"
           "FOR: the current stage, and since when; BATCH: its epoch and\n"
           "number. READY: batches that are made and not taken. START to USE:\n"
           "shares of the time (docs/loader_time.md). BLOCKS: batches in\n"
           "memory. On a terminal: the whole screen, until q is typed.\n",
       .flags = {{.name = "interval",
                  .value = "SECONDS",
                  .help = "of each picture, else 1"},
                 {.name = "count",
                  .value = "N",
                  .help = "so many pictures, as lines; else 1, if piped"},
                 {.name = "plain", .help = "lines on a terminal, too"},
                 JsonFlag()},
       .examples = "  tenon top\n"
                   "  tenon top --interval 10 --count 6 >> stages.txt\n"
                   "  tenon top --json | jq '.loaders[] | {dataset, "
                   "bottleneck, advice}'\n",
       .run = RunTop},
      {.name = "metrics",
       .summary = "loaders, arenas and queues as OpenMetrics text",
       .details =
           "For Prometheus and other readers of OpenMetrics 1.0, such as by a\n"
           "file that node_exporter's textfile collector reads. Counters of a\n"
           "loader begin with it and end with it.\n",
       .flags = {},
       .examples = "  tenon metrics > /var/lib/node_exporter/tenon.prom\n",
       .run = RunMetrics},
      {.name = "shm list",
       .summary = "named segments in /dev/shm and their holders",
       .details =
           "STATE: held by a living process, dead, or being created. It is\n"
           "exact, in containers too: each holder has a lock of the kernel on\n"
           "the file. HOLDERS: the processes of this user that have it open\n"
           "or mapped, as far as /proc shows them here. MEMORY: allocated\n"
           "pages. AGE: since the segment was complete.\n",
       .flags = {JsonFlag()},
       .examples = "  tenon shm list\n"
                   "  tenon shm list --json | jq '.segments[] | select(.state "
                   "== \"dead\") | .name'\n",
       .run = RunShmList},
      {.name = "shm gc",
       .summary = "removes names in /dev/shm that dead processes left",
       .details =
           "Removes the names of this user's segments that no living process\n"
           "holds, and thereby frees their memory. Names in use, also by\n"
           "processes in other containers, and names that are not Tenon's are\n"
           "never touched. Safe at any time. A process that creates a named\n"
           "segment and finds /dev/shm full does the same by itself.\n",
       .flags = {{.name = "dry-run", .help = "only list them"}, JsonFlag()},
       .examples = "  tenon shm gc --dry-run\n"
                   "  tenon shm gc --json | jq .bytes\n",
       .run = RunShmGc},
      {.name = "shm stats",
       .summary = "counts of the daemon that removes names of dead processes",
       .details =
           "Attaches to the daemon for a moment, so it counts itself as a\n"
           "client. Names kept: names in flight that the daemon holds.\n"
           "Connections refused: over a quota, or of another user. Starts no\n"
           "daemon: without one the exit code is 1.\n",
       .flags = {{.name = "group",
                  .value = "NAME",
                  .help = "the daemon's group, else \"default\""},
                 JsonFlag()},
       .examples = "  tenon shm stats\n"
                   "  tenon shm stats --group training --json | jq "
                   ".removed_bytes\n",
       .run = RunShmStats},
      {.name = "doctor",
       .summary = "whether Tenon works here, at which cost, and how to fix it",
       .details =
           "Every check makes the calls that Tenon makes. WARN: Tenon works,\n"
           "without an option or slower. FAIL: most of it does not; the exit\n"
           "code is 1 then. Run it as the user, and in the container, that\n"
           "Tenon will run in.\n",
       .flags = {JsonFlag()},
       .examples = "  tenon doctor\n"
                   "  docker run IMAGE tenon doctor --json | jq '.findings[] | "
                   "select(.level != \"OK\")'\n",
       .run = RunDoctor},
      {.name = "completion",
       .summary = "a script that completes commands and flags in bash",
       .details = "For the current shell, or for each in ~/.bashrc.\n",
       .flags = {},
       .examples = "  source <(tenon completion)\n"
                   "  tenon completion >> ~/.bashrc\n",
       .run = RunCompletion},
  };
  return all;
}

// Of each command its flags; of the first word of a pair (shm) the second ones.
absl::StatusOr<int> RunCompletion(const CommandLine& /*line*/,
                                  std::ostream& out) {
  std::map<std::string, std::string> after = {{"", "help --help --version"}};
  for (const Subcommand& subcommand : Subcommands()) {
    std::string flags = "--help";
    for (const FlagSpec& flag : subcommand.flags) {
      absl::StrAppend(&flags, " --", flag.name);
    }
    after[subcommand.name] = flags;
    const std::vector<std::string> words = absl::StrSplit(subcommand.name, ' ');
    for (size_t i = 0; i < words.size(); ++i) {
      std::string& list = after[i == 0 ? "" : words[0]];
      if (absl::StrContains(absl::StrCat(" ", list, " "),
                            absl::StrCat(" ", words[i], " "))) {
        continue;
      }
      absl::StrAppend(&list, list.empty() ? "" : " ", words[i]);
    }
  }
  after["help"] = after[""];
  out << "_tenon() {\n"
         "  local words='' key=${COMP_WORDS[*]:1:COMP_CWORD-1}\n"
         "  key=${key%% -*}\n"
         "  case $key in\n";
  for (const auto& [words, next] : after) {
    out << "    '" << words << "') words='" << next << "' ;;\n";
  }
  out << "  esac\n"
         "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- "
         "\"${COMP_WORDS[COMP_CWORD]}\")\n"
         "}\n"
         "complete -F _tenon tenon\n";
  return 0;
}

std::string HelpText() {
  Table table({"Commands:", ""});
  for (const Subcommand& subcommand : Subcommands()) {
    table.AddRow({"  " + subcommand.name, subcommand.summary});
  }
  table.AddRow({"  help", "how to use one of them: tenon help mem"});
  table.AddRow({"  --version", "the version of Tenon"});
  return absl::StrCat(
      "tenon: shows Tenon's processes and memory on this machine\n\n"
      "Usage: tenon COMMAND [FLAGS]\n\n",
      table.ToText(),
      "\nExit codes: 0 success; 1 failure; 2 bad command or flag.\n"
      "Log: to stderr, only problems; --v=1, --minloglevel=0, --log_dir=DIR "
      "and "
      "the\nother flags of glog change that.\n");
}

std::string HelpText(const Subcommand& subcommand) {
  Table flags({"Flags:", ""});
  for (const FlagSpec& flag : subcommand.flags) {
    flags.AddRow({absl::StrCat("  --", flag.name, flag.value.empty() ? "" : " ",
                               flag.value),
                  flag.help});
  }
  flags.AddRow({"  --help", "print this"});
  return absl::StrCat("tenon ", subcommand.name, ": ", subcommand.summary,
                      "\n\n", subcommand.details, "\n", flags.ToText(),
                      "\nExamples:\n", subcommand.examples);
}

const Subcommand* Find(const std::string& name) {
  for (const Subcommand& subcommand : Subcommands()) {
    if (subcommand.name == name) return &subcommand;
  }
  return nullptr;
}

bool IsHelp(const std::string& word) {
  return word == "help" || word == "--help" || word == "-h";
}

int Misused(const std::string& what, const std::string& where,
            std::ostream& errors) {
  errors << "tenon: " << what << "\nsee: tenon help" << where << "\n";
  return 2;
}

int UnknownCommand(const std::string& word, std::ostream& errors) {
  std::vector<std::string> names = {"help"};
  for (const Subcommand& subcommand : Subcommands()) {
    names.push_back(subcommand.name);
  }
  return Misused(absl::StrCat("unknown command '", TerminalText(word), "'",
                              Suggestion(word, names)),
                 "", errors);
}

// Joins the two words of `shm list` at `index`, so that it is found as one.
std::vector<std::string> JoinCommand(std::vector<std::string> words,
                                     size_t index) {
  if (words.size() > index + 1 && words[index] == "shm" &&
      !IsHelp(words[index + 1])) {
    words[index] = absl::StrCat("shm ", words[index + 1]);
    words.erase(words.begin() + static_cast<ptrdiff_t>(index) + 1);
  }
  return words;
}

// `tenon help [COMMAND]`.
int Help(const std::vector<std::string>& given, std::ostream& out,
         std::ostream& errors) {
  const std::vector<std::string> words = JoinCommand(given, 1);
  if (words.size() < 2 || IsHelp(words[1])) {
    out << HelpText();
    return 0;
  }
  const Subcommand* subcommand = Find(words[1]);
  if (subcommand == nullptr) return UnknownCommand(words[1], errors);
  out << HelpText(*subcommand);
  return 0;
}

}  // namespace

int RunTenonTool(const std::vector<std::string>& given, std::ostream& out,
                 std::ostream& errors) {
  const std::vector<std::string> words = JoinCommand(given, 0);
  if (words.empty()) return Misused("no command", "", errors);
  if (IsHelp(words[0])) return Help(words, out, errors);
  if (words.size() == 1 && words[0] == "--version") {
    out << "tenon " << kVersion << "\n";
    return 0;
  }
  const Subcommand* subcommand = Find(words[0]);
  if (subcommand == nullptr) return UnknownCommand(words[0], errors);
  const std::vector<std::string> rest(words.begin() + 1, words.end());
  if (std::any_of(rest.begin(), rest.end(), IsHelp)) {
    out << HelpText(*subcommand);
    return 0;
  }
  const std::string where = " " + subcommand->name;
  const auto line = CommandLine::Parse(subcommand->flags, rest);
  if (!line.ok()) {
    return Misused(std::string(line.status().message()), where, errors);
  }
  const absl::StatusOr<int> code = subcommand->run(*line, out);
  if (code.ok()) return *code;
  const std::string message(code.status().message());
  if (absl::IsInvalidArgument(code.status())) {
    return Misused(message, where, errors);
  }
  errors << "tenon " << subcommand->name << ": " << TerminalText(message)
         << "\n";
  return 1;
}

}  // namespace tenon::tools

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/benchmarks/harness/machine.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tenon/shm/testing/two_cores.h"

namespace tenon::benchmarks {
namespace {

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string Processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    absl::string_view rest = line;
    if (!absl::ConsumePrefix(&rest, "model name")) continue;
    const size_t colon = rest.find(':');
    if (colon == absl::string_view::npos) break;
    return std::string(absl::StripAsciiWhitespace(rest.substr(colon + 1)));
  }
  return "unknown";
}

std::string Kernel() {
  utsname names;
  if (uname(&names) != 0) return "unknown";
  return absl::StrCat(names.sysname, " ", names.release, " ", names.machine);
}

int UsableCores() {
  cpu_set_t may;
  CPU_ZERO(&may);
  return sched_getaffinity(0, sizeof(may), &may) == 0 ? CPU_COUNT(&may) : 0;
}

std::string SiblingsOf(int core) {
  return FirstLine(absl::StrCat("/sys/devices/system/cpu/cpu", core,
                                "/topology/thread_siblings_list"));
}

bool ShareACore(const TwoCores& cores) {
  if (!cores.are_there()) return false;
  const std::string siblings = SiblingsOf(cores[0]);
  return !siblings.empty() && siblings == SiblingsOf(cores[1]);
}

double Load() {
  double load;
  return getloadavg(&load, 1) == 1 ? load : 0;
}

std::string OutputOf(const std::string& command) {
  FILE* const pipe = popen(command.c_str(), "re");
  if (pipe == nullptr) return "";
  char line[256] = "";
  const bool has_line = fgets(line, sizeof(line), pipe) != nullptr;
  const bool succeeded = pclose(pipe) == 0;
  if (!has_line || !succeeded) return "";
  return std::string(absl::StripAsciiWhitespace(line));
}

}  // namespace

MachineFacts FactsOfThisMachine(const TwoCores& cores) {
  MachineFacts facts = {
      .processor = Processor(),
      .kernel = Kernel(),
      .compiler = __VERSION__,
      .usable_cores = UsableCores(),
      .memory_bytes = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                      static_cast<uint64_t>(sysconf(_SC_PAGESIZE)),
      .share_a_core = ShareACore(cores),
      .load_1m = Load(),
      .begun_at = absl::FormatTime(absl::RFC3339_sec, absl::Now(),
                                   absl::UTCTimeZone())};
#ifdef NDEBUG
  facts.optimised = true;
#endif
  if (cores.are_there()) facts.cores = {cores[0], cores[1]};
  return facts;
}

std::string CommitOfThisBuild() {
  const char* const checkout = getenv("BUILD_WORKSPACE_DIRECTORY");
  if (checkout == nullptr || absl::StrContains(checkout, '\'')) {
    return "unknown";
  }
  const std::string commit = OutputOf(absl::StrCat(
      "git -C '", checkout,
      "' describe --always --dirty --abbrev=40 --exclude='*' 2> /dev/null"));
  return commit.empty() ? "unknown" : commit;
}

}  // namespace tenon::benchmarks

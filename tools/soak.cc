// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/tools/soak.h"

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tenon/shm/testing/kill/census.h"

namespace tenon {
namespace {

const char* volatile watched = "";

// Async-signal-safe.
void EndHung(int) {
  const auto say = [](const char* text) {
    if (write(STDERR_FILENO, text, strlen(text)) < 0) _exit(4);
  };
  say("BROKEN: hangs while ");
  say(watched);
  say("\n");
  _exit(3);
}

}  // namespace

std::string Holdings::ToString() const {
  return absl::StrCat(rss_kb, " KiB resident, ", fds, " descriptors, ",
                      census.mappings, " mappings");
}

std::vector<SessionProcess> OthersOfThisSession(pid_t except) {
  std::vector<SessionProcess> others;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc", error)) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &pid)) continue;
    std::ifstream file(entry.path() / "stat");
    std::string line;
    if (!std::getline(file, line)) continue;
    const size_t name_end = line.rfind(')');
    if (name_end == std::string::npos) continue;
    SessionProcess seen{.pid = pid};
    seen.name = line.substr(0, name_end + 1);
    pid_t group = 0, session = 0;
    std::istringstream(line.substr(name_end + 1)) >> seen.state >>
        seen.parent >> group >> session;
    if (session != getsid(0) || pid == getpid() || pid == except) continue;
    others.push_back(seen);
  }
  return others;
}

Holdings TakeHoldings(pid_t pid, const std::string& shm_prefix) {
  Holdings now;
  std::ifstream status(pid == 0 ? "/proc/self/status"
                                : absl::StrCat("/proc/", pid, "/status"));
  for (std::string word; status >> word;) {
    if (word == "VmRSS:") status >> now.rss_kb;
  }
  status.close();
  now.census = TakeCensus({.pid = pid, .shm_prefix = shm_prefix});
  now.fds = now.census.Count("open ");
  return now;
}

absl::Status CheckFlat(const std::string& who, const Holdings& before,
                       const Holdings& now) {
  std::string grown = Difference(before.census, now.census);
  if (now.rss_kb > before.rss_kb + kRssSlackKb ||
      now.census.mappings > before.census.mappings + kMappingsSlack) {
    absl::StrAppend(&grown, before.ToString(), " before, ", now.ToString(),
                    " after\n");
  }
  if (grown.empty()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(who, " is not flat:\n", grown));
}

void FeedWatchdog(unsigned seconds, const char* doing) {
  watched = doing;
  signal(SIGALRM, EndHung);
  alarm(seconds);
}

uint64_t ChooseSeed(uint64_t given) {
  const uint64_t seed =
      given != 0 ? given
                 : static_cast<uint64_t>(absl::ToUnixMicros(absl::Now()));
  std::cout << "seed " << seed << std::endl;
  return seed;
}

int ReportSoak(const absl::Status& soaked) {
  if (soaked.ok()) std::cout << "whole" << std::endl;
  if (!soaked.ok()) std::cout << "BROKEN: " << soaked << std::endl;
  return soaked.ok() ? 0 : 1;
}

int RunInOwnSession(absl::FunctionRef<absl::Status()> soak) {
  const pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (setsid() < 0) _exit(4);
    std::exit(ReportSoak(soak()));
  }
  int status = 0;
  if (pid < 0 || waitpid(pid, &status, 0) != pid) return 4;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 4;
}

}  // namespace tenon

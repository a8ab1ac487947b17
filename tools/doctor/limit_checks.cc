// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/tools/doctor/limit_checks.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tenon/tools/cli/quantity.h"
#include "tenon/tools/doctor/finding.h"
#include "tenon/tools/doctor/system_files.h"

namespace tenon::tools {
namespace {

uint64_t LimitOf(rlim_t limit) {
  return limit == RLIM_INFINITY ? kNoLimit : uint64_t{limit};
}

std::string InWords(uint64_t limit) {
  return limit == kNoLimit ? "unlimited" : absl::StrCat(limit);
}

}  // namespace

LimitFacts ProbeLimit(int resource) {
  rlimit limit;
  if (getrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) {
    return {};
  }
  return {LimitOf(limit.rlim_cur), LimitOf(limit.rlim_max)};
}

Finding CheckOpenFiles(const LimitFacts& facts) {
  // An arena with one attached process needs about ten, a loader's worker 20.
  constexpr uint64_t kTooFew = 64;
  constexpr uint64_t kEnough = 4096;
  Finding finding = {
      .check = "open files",
      .found = absl::StrCat(InWords(facts.soft), " for each process, at most ",
                            InWords(facts.hard))};
  if (facts.soft >= kEnough) return finding;
  finding.level = facts.soft < kTooFew ? Level::kFailure : Level::kWarning;
  finding.cost =
      facts.soft < kTooFew
          ? "not even an arena with a few processes attached has enough"
          : absl::StrCat(
                "segments that are sent one by one take a descriptor each: at "
                "most ",
                facts.soft,
                " at a time; blocks of arenas take none and are not affected");
  finding.fix =
      facts.hard > facts.soft
          ? absl::StrCat("ulimit -n ",
                         facts.hard == kNoLimit ? "65536" : InWords(facts.hard))
          : "as root: prlimit --pid $$ --nofile=65536 (for good: "
            "LimitNOFILE= of the service, or limits.conf)";
  return finding;
}

LockedMemoryFacts ProbeLockedMemory() {
  LockedMemoryFacts facts = {.limit = ProbeLimit(RLIMIT_MEMLOCK)};
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* memory = mmap(nullptr, page, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    facts.lock_error = errno;
    return facts;
  }
  if (mlock(memory, page) != 0) facts.lock_error = errno;
  munmap(memory, page);
  return facts;
}

Finding CheckLockedMemory(const LockedMemoryFacts& facts) {
  Finding finding = {.check = "locked memory",
                     .found = facts.limit.soft == kNoLimit
                                  ? "unlimited"
                                  : FormatBytes(facts.limit.soft)};
  if (facts.lock_error == 0) return finding;
  finding.level = Level::kWarning;
  absl::StrAppend(&finding.found,
                  "; a page cannot be locked: ", strerror(facts.lock_error));
  finding.cost = "memory cannot be pinned (mlock); Tenon itself pins none";
  finding.fix =
      "as root: prlimit --pid $$ --memlock=unlimited (docker run "
      "--ulimit memlock=-1)";
  return finding;
}

Finding CheckMappings(std::optional<uint64_t> max_map_count) {
  constexpr uint64_t kUsual = 65530;
  Finding finding = {.check = "mappings"};
  if (!max_map_count.has_value()) {
    finding.level = Level::kWarning;
    finding.found = "vm.max_map_count cannot be read";
    finding.cost = "how many segments a process can map is not known";
    finding.fix = "mount -t proc proc /proc";
    return finding;
  }
  finding.found = absl::StrCat(*max_map_count, " for each process");
  if (*max_map_count >= kUsual) return finding;
  finding.level = Level::kWarning;
  finding.cost = "each segment that is mapped takes one; blocks of arenas none";
  finding.fix = "as root: sysctl -w vm.max_map_count=262144";
  return finding;
}

ProcessCountFacts ProbeProcessCount(const std::string& root) {
  ProcessCountFacts facts = {
      .pid_max = ReadSystemNumber(root + "/proc/sys/kernel/pid_max")};
  if (geteuid() != 0) facts.user_limit = ProbeLimit(RLIMIT_NPROC).soft;
  for (const CgroupFile& file :
       ReadCgroupFiles("pids", "pids.max", "pids.max", root)) {
    uint64_t limit;
    if (!absl::SimpleAtoi(file.text, &limit)) continue;  // "max".
    std::string current = file.path;
    current.replace(current.rfind('/'), std::string::npos, "/pids.current");
    const uint64_t used = ReadSystemNumber(root + current).value_or(0);
    const uint64_t left = limit > used ? limit - used : 0;
    if (left >= facts.cgroup_left) continue;
    facts.cgroup_left = left;
    facts.cgroup_path = file.path;
  }
  return facts;
}

Finding CheckProcessCount(const ProcessCountFacts& facts) {
  constexpr uint64_t kFew = 64;
  Finding finding = {
      .check = "processes",
      .found = absl::StrCat(
          InWords(facts.user_limit), " for this user, ",
          InWords(facts.cgroup_left), " more in its cgroup, pids up to ",
          facts.pid_max.has_value() ? InWords(*facts.pid_max) : "?")};
  if (facts.cgroup_left < kFew) {
    finding.level = facts.cgroup_left == 0 ? Level::kFailure : Level::kWarning;
    finding.cost = "worker processes and threads cannot be started beyond that";
    finding.fix = absl::StrCat("as root: echo max > ", facts.cgroup_path,
                               " (docker run --pids-limit=-1)");
  } else if (facts.user_limit < kFew) {
    finding.level = Level::kWarning;
    finding.cost = "all processes and threads of this user count";
    finding.fix = "ulimit -u 4096, or as root: prlimit --pid $$ --nproc=4096";
  } else if (facts.pid_max.value_or(kNoLimit) < 4096) {
    finding.level = Level::kWarning;
    finding.cost =
        "few processes at a time on the whole machine (that numbers "
        "come back soon is no matter: Tenon knows processes by "
        "pidfd)";
    finding.fix = "as root: sysctl -w kernel.pid_max=4194304";
  }
  return finding;
}

}  // namespace tenon::tools

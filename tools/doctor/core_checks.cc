// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/tools/doctor/core_checks.h"

#include <sched.h>
#include <unistd.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "tenon/tools/doctor/finding.h"
#include "tenon/tools/doctor/system_files.h"

namespace tenon::tools {
namespace {

// "150000 100000" in version 2; in version 1 the quota alone, whose period is
// in the file beside it. Empty if there is no quota ("max", "-1").
std::optional<double> QuotaOf(const CgroupFile& file, const std::string& root) {
  const std::vector<std::string> words = absl::StrSplit(file.text, ' ');
  std::string period = words.size() == 2 ? words[1] : "";
  if (period.empty()) {
    std::string path = file.path;
    path.replace(path.rfind('/'), std::string::npos, "/cpu.cfs_period_us");
    period = ReadSystemFile(root + path);
  }
  double quota, length;
  if (!absl::SimpleAtod(words[0], &quota) || quota <= 0 ||
      !absl::SimpleAtod(period, &length) || length <= 0) {
    return std::nullopt;
  }
  return quota / length;
}

}  // namespace

CoreFacts ProbeCores(const std::string& root) {
  CoreFacts facts = {.online =
                         static_cast<size_t>(sysconf(_SC_NPROCESSORS_ONLN))};
  cpu_set_t set;
  // Fails on a machine with more than 1024 cores: then all count.
  facts.allowed = sched_getaffinity(0, sizeof(set), &set) == 0
                      ? static_cast<size_t>(CPU_COUNT(&set))
                      : facts.online;
  for (const CgroupFile& file :
       ReadCgroupFiles("cpu", "cpu.cfs_quota_us", "cpu.max", root)) {
    const auto quota = QuotaOf(file, root);
    if (!quota.has_value() || quota >= facts.quota.value_or(1e9)) continue;
    facts.quota = quota;
    facts.quota_path = file.path;
  }
  return facts;
}

Finding CheckCores(const CoreFacts& facts) {
  Finding finding = {
      .check = "cores",
      .found = absl::StrCat(facts.allowed, " of ", facts.online)};
  if (facts.quota.has_value()) {
    absl::StrAppendFormat(&finding.found, ", %.2f by the cgroup's quota",
                          *facts.quota);
  }
  const auto allowed = static_cast<double>(facts.allowed);
  if (facts.quota.has_value() && *facts.quota < allowed) {
    finding.level = Level::kWarning;
    finding.cost =
        "all processes of the cgroup are stopped together when it "
        "is used up; spinning uses it up sooner";
    finding.fix = absl::StrCat(
        "not more workers than the quota; or as root: echo ",
        facts.quota_path.find("cfs") != std::string::npos ? "-1" : "max", " > ",
        facts.quota_path);
  } else if (facts.allowed < 2) {
    finding.level = Level::kWarning;
    finding.cost =
        "processes take turns: a spinning process keeps the core from "
        "the process that it waits for";
    finding.fix =
        facts.online > facts.allowed
            ? absl::StrCat("taskset -c 0-", facts.online - 1, " <command>")
            : "wait without spinning; more cores";
  } else if (facts.allowed < 4) {
    absl::StrAppend(&finding.found,
                    "; few: spin for some microseconds at most");
  }
  return finding;
}

}  // namespace tenon::tools

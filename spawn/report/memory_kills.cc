// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/report/memory_kills.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tenon/shm/base/read_file.h"

namespace tenon::spawn {

std::string MemoryEventsFile(absl::string_view proc_cgroup) {
  // "hierarchy:controllers:path"; in version 2 the first two are "0:".
  std::string version_2;
  for (const absl::string_view line : absl::StrSplit(proc_cgroup, '\n')) {
    const std::vector<absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const absl::string_view path = parts[2] == "/" ? "" : parts[2];
    if (parts[0] == "0" && parts[1].empty()) {
      version_2 = absl::StrCat("/sys/fs/cgroup", path, "/memory.events");
    }
    for (const absl::string_view name : absl::StrSplit(parts[1], ',')) {
      if (name == "memory") {
        return absl::StrCat("/sys/fs/cgroup/memory", path,
                            "/memory.oom_control");
      }
    }
  }
  return version_2;
}

std::optional<int64_t> ParseMemoryKills(absl::string_view events) {
  for (absl::string_view line : absl::StrSplit(events, '\n')) {
    int64_t count = 0;
    if (absl::ConsumePrefix(&line, "oom_kill ") &&
        absl::SimpleAtoi(line, &count)) {
      return count;
    }
  }
  return std::nullopt;
}

std::string DescribeMemory(absl::string_view limit, absl::string_view peak) {
  constexpr int64_t kNoLimit = int64_t{1} << 60;  // As version 1 says it.
  constexpr double kGiB = 1 << 30;
  int64_t most = 0;
  int64_t used = 0;
  if (!absl::SimpleAtoi(limit, &most) || most >= kNoLimit) return "";
  if (!absl::SimpleAtoi(peak, &used)) {
    return absl::StrFormat("limit %.1f GiB", static_cast<double>(most) / kGiB);
  }
  return absl::StrFormat("peak %.1f of %.1f GiB",
                         static_cast<double>(used) / kGiB,
                         static_cast<double>(most) / kGiB);
}

std::string DescribeGroupMemory() {
  std::string group =
      MemoryEventsFile(ReadFile("/proc/self/cgroup").value_or(""));
  const bool version_2 = absl::EndsWith(group, "/memory.events");
  while (!group.empty()) {
    group.resize(group.rfind('/'));
    const auto read = [&](absl::string_view v2, absl::string_view v1) {
      return ReadFile(absl::StrCat(group, "/", version_2 ? v2 : v1))
          .value_or("");
    };
    const std::string text =
        DescribeMemory(read("memory.max", "memory.limit_in_bytes"),
                       read("memory.peak", "memory.max_usage_in_bytes"));
    if (!text.empty() || group == "/sys/fs/cgroup") return text;
  }
  return "";
}

std::optional<int64_t> CountMemoryKills() {
  static const std::string& file = *new std::string(
      MemoryEventsFile(ReadFile("/proc/self/cgroup").value_or("")));
  if (file.empty()) return std::nullopt;
  return ParseMemoryKills(ReadFile(file).value_or(""));
}

}  // namespace tenon::spawn

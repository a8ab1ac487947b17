// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/available_memory.h"

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/size_text.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {
namespace {

constexpr uint64_t kUnknown = std::numeric_limits<uint64_t>::max();

// The files of a memory cgroup: the same values under the names of each
// version.
struct CgroupVersion {
  absl::string_view mount;
  absl::string_view limit;
  absl::string_view used;
  // Reclaimable page cache: fields of memory.stat.
  absl::string_view inactive_file;
  absl::string_view active_file;
};
constexpr CgroupVersion kVersion1 = {
    "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
    "total_inactive_file", "total_active_file"};
constexpr CgroupVersion kVersion2 = {"/sys/fs/cgroup", "memory.max",
                                     "memory.current", "inactive_file",
                                     "active_file"};

// Empty if it cannot be read. (read_file.h needs posix_error.h, which needs
// this file.)
std::string ReadFile(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t size =
        RetryOnEintr([&] { return read(fd.get(), buffer, sizeof(buffer)); });
    if (size < 0) return "";
    if (size == 0) return text;
    text.append(buffer, static_cast<size_t>(size));
  }
}

std::optional<uint64_t> ReadNumber(const std::string& path) {
  uint64_t number;
  if (!absl::SimpleAtoi(ReadFile(path), &number)) return std::nullopt;
  return number;
}

// The number after the word `name`.
std::optional<uint64_t> Field(absl::string_view text, absl::string_view name) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(text, absl::ByAnyChar(" \t\n"), absl::SkipEmpty());
  const auto found = std::find(words.begin(), words.end(), name);
  uint64_t number;
  if (found == words.end() || found + 1 == words.end() ||
      !absl::SimpleAtoi(*(found + 1), &number)) {
    return std::nullopt;
  }
  return number;
}

uint64_t SaturatingAdd(uint64_t a, uint64_t b) {
  return a > kUnknown - b ? kUnknown : a + b;
}

struct CgroupMemory {
  uint64_t limit;
  uint64_t left;
};

// Of the cgroup in `directory`; empty if it sets no limit.
std::optional<CgroupMemory> LeftInCgroup(const CgroupVersion& version,
                                         const std::string& directory) {
  const auto limit = ReadNumber(absl::StrCat(directory, "/", version.limit));
  const auto used = ReadNumber(absl::StrCat(directory, "/", version.used));
  if (!limit.has_value() || !used.has_value()) return std::nullopt;
  const std::string stat = ReadFile(absl::StrCat(directory, "/memory.stat"));
  const uint64_t cache =
      SaturatingAdd(Field(stat, version.inactive_file).value_or(0),
                    Field(stat, version.active_file).value_or(0));
  const uint64_t left = *limit > *used ? *limit - *used : 0;
  return CgroupMemory{*limit, std::min(*limit, SaturatingAdd(left, cache))};
}

// What of the memory counts: what is left, or all that there is.
enum class Measure { kLeft, kLimit };

// The memory in the cgroup at `path`, or in the tightest enclosing one.
AvailableMemory LeastInCgroups(Measure measure, const CgroupVersion& version,
                               const std::string& root, std::string path) {
  AvailableMemory least = {kUnknown, ""};
  if (path == "/") path.clear();
  for (;;) {
    const std::string inside = absl::StrCat(version.mount, path);
    const auto found = LeftInCgroup(version, absl::StrCat(root, inside));
    const uint64_t bytes = !found.has_value()          ? kUnknown
                           : measure == Measure::kLeft ? found->left
                                                       : found->limit;
    if (bytes < least.bytes) {
      least = {bytes, absl::StrCat(version.limit, " of the cgroup ", inside,
                                   ": ", SizeText(found->limit),
                                   "; raise it: echo <more> > ", inside, "/",
                                   version.limit)};
    }
    if (path.empty()) return least;
    path.resize(path.rfind('/'));
  }
}

// The version of a line of /proc/self/cgroup, null if it is not about memory:
// "4:memory:/path" in version 1, "0::/path" in version 2.
const CgroupVersion* VersionOfLine(const std::vector<std::string>& parts) {
  if (parts.size() != 3 || parts[2].empty() || parts[2][0] != '/') {
    return nullptr;
  }
  if (parts[1].empty()) return &kVersion2;
  const std::vector<std::string> controllers = absl::StrSplit(parts[1], ',');
  return std::count(controllers.begin(), controllers.end(), "memory") > 0
             ? &kVersion1
             : nullptr;
}

AvailableMemory Least(Measure measure, const std::string& root) {
  AvailableMemory least = {kUnknown, "nothing known"};
  const bool is_left = measure == Measure::kLeft;
  const std::string machine = ReadFile(absl::StrCat(root, "/proc/meminfo"));
  const uint64_t swap =
      Field(machine, is_left ? "SwapFree:" : "SwapTotal:").value_or(0) * 1024;
  if (const auto memory =
          Field(machine, is_left ? "MemAvailable:" : "MemTotal:")) {
    least = {
        *memory * 1024 + swap,
        absl::StrCat(
            is_left ? "MemAvailable and SwapFree" : "MemTotal and SwapTotal",
            " of the machine, which has ",
            SizeText(Field(machine, "MemTotal:").value_or(0) * 1024), " and ",
            SizeText(Field(machine, "SwapTotal:").value_or(0) * 1024),
            " of swap; add some: swapon <file>")};
  }
  const std::string cgroups = ReadFile(absl::StrCat(root, "/proc/self/cgroup"));
  for (absl::string_view line : absl::StrSplit(cgroups, '\n')) {
    const std::vector<std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    const CgroupVersion* version = VersionOfLine(parts);
    if (version == nullptr) continue;
    AvailableMemory found = LeastInCgroups(measure, *version, root, parts[2]);
    found.bytes = SaturatingAdd(found.bytes, swap);
    if (found.bytes < least.bytes) least = std::move(found);
  }
  return least;
}

}  // namespace

AvailableMemory GetAvailableMemory(const std::string& root) {
  return Least(Measure::kLeft, root);
}

AvailableMemory GetMemoryLimit(const std::string& root) {
  return Least(Measure::kLimit, root);
}

}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/memory_cgroup_testing.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tenon {
namespace {

bool WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  return static_cast<bool>(file.flush());
}

// The directory of this process's memory cgroup, and the name of the file with
// its limit; empty if there is none that may be written to.
std::pair<std::string, std::string> OwnCgroup() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const bool is_version_1 = parts[1] == "memory";
    if (!is_version_1 && !parts[1].empty()) continue;
    std::string directory = absl::StrCat(
        is_version_1 ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup", parts[2]);
    if (directory.ends_with('/')) directory.pop_back();  // The root's.
    if (access((directory + "/cgroup.procs").c_str(), W_OK) == 0 &&
        access((directory + "/memory.stat").c_str(), R_OK) == 0) {
      return {directory, is_version_1 ? "memory.limit_in_bytes" : "memory.max"};
    }
  }
  return {};
}

}  // namespace

absl::StatusOr<MemoryCgroup> MemoryCgroup::Create(const std::string& name,
                                                  size_t limit_bytes) {
  auto [own, limit] = OwnCgroup();
  if (own.empty()) {
    return absl::UnimplementedError("no memory cgroup that may be written to");
  }
  std::string path = absl::StrCat(own, "/", name);
  if (mkdir(path.c_str(), 0755) != 0) {
    return absl::UnimplementedError(
        absl::StrCat("this user may not make a cgroup in ", own));
  }
  MemoryCgroup group(std::move(path), std::move(limit));
  if (group.SetLimit(limit_bytes)) return group;
  return absl::UnimplementedError(
      absl::StrCat("cgroups in ", own, " have no limit of memory"));
}

bool MemoryCgroup::SetLimit(size_t bytes) const {
  return WriteFile(absl::StrCat(path_, "/", limit_), absl::StrCat(bytes));
}

void MemoryCgroup::ForbidSwap() const {
  WriteFile(path_ + "/memory.swap.max", "0");
  WriteFile(path_ + "/memory.swappiness", "0");
}

bool MemoryCgroup::Enter() const {
  return WriteFile(path_ + "/cgroup.procs", absl::StrCat(getpid()));
}

bool MemoryCgroup::Remove() {
  if (path_.empty()) return true;
  if (rmdir(path_.c_str()) != 0) return false;
  path_.clear();
  return true;
}

}  // namespace tenon

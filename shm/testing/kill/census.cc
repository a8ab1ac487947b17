// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/kill/census.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/base/read_file.h"
#include "tenon/shm/segment/shm_name.h"

namespace tenon {
namespace {

constexpr char kSelf[] = "/proc/self";

using Dir = std::unique_ptr<DIR, int (*)(DIR*)>;

// Empty if it cannot be read; the file of a process that ends meanwhile may
// fail at any time.
std::string ContentsOf(const std::string& path) {
  return ReadFile(path).value_or("");
}

// "socket:[123]" -> "socket", "anon_inode:[eventfd]" -> "eventfd", "/memfd:x
// (deleted)" -> "memfd /memfd:x"; other paths are unchanged.
std::string KindOfFile(absl::string_view target) {
  absl::ConsumeSuffix(&target, " (deleted)");
  if (absl::StartsWith(target, "/memfd:")) {
    return absl::StrCat("memfd ", target);
  }
  if (absl::ConsumePrefix(&target, "anon_inode:")) {
    absl::ConsumePrefix(&target, "[");
    absl::ConsumeSuffix(&target, "]");
    return std::string(target);
  }
  if (absl::StartsWith(target, "/")) return std::string(target);
  return std::string(target.substr(0, target.find(':')));
}

void CountFds(const std::string& proc, Census& census) {
  const std::string path = absl::StrCat(proc, "/fd");
  Dir dir(opendir(path.c_str()), closedir);
  if (dir == nullptr) {
    ++census.held[absl::StrCat("error: ", path, ": ", strerror(errno))];
    return;
  }
  const std::string own =
      proc == kSelf ? absl::StrCat(dirfd(dir.get())) : "none";
  while (const dirent* entry = readdir(dir.get())) {
    if (entry->d_name == own) continue;  // The descriptor of this directory.
    char target[512];
    const std::string link = absl::StrCat(path, "/", entry->d_name);
    const ssize_t size = readlink(link.c_str(), target, sizeof(target));
    if (size < 0) continue;  // "." and "..", or closed meanwhile.
    ++census
          .held[absl::StrCat("open ", KindOfFile(absl::string_view(
                                          target, static_cast<size_t>(size))))];
  }
}

// Lines are "from-to rw-s offset device inode          /path".
void CountMappings(const std::string& proc, Census& census) {
  const std::string maps = ContentsOf(absl::StrCat(proc, "/maps"));
  for (absl::string_view line : absl::StrSplit(maps, '\n', absl::SkipEmpty())) {
    ++census.mappings;
    const std::vector<absl::string_view> fields = absl::StrSplit(
        line, absl::MaxSplits(absl::ByAnyChar(" "), 5), absl::AllowEmpty());
    if (fields.size() < 6 || fields[1].size() < 4 || fields[1][3] != 's') {
      continue;
    }
    std::string kind = KindOfFile(absl::StripLeadingAsciiWhitespace(fields[5]));
    if (kind == "/dev/zero") kind = "anonymous";
    ++census.held[absl::StrCat("mapped ", kind)];
  }
}

std::vector<std::string> ListDirectory(const std::string& path) {
  std::vector<std::string> names;
  Dir dir(opendir(path.c_str()), closedir);
  if (dir == nullptr) return names;
  while (const dirent* entry = readdir(dir.get())) {
    if (entry->d_name[0] != '.') names.push_back(entry->d_name);
  }
  return names;
}

pid_t ParentOf(absl::string_view pid) {
  const std::string stat = ContentsOf(absl::StrCat("/proc/", pid, "/stat"));
  const size_t end_of_name = stat.rfind(") ");
  if (end_of_name == std::string::npos) return 0;
  const std::vector<absl::string_view> fields =
      absl::StrSplit(absl::string_view(stat).substr(end_of_name + 2), ' ');
  pid_t parent = 0;
  if (fields.size() < 2 || !absl::SimpleAtoi(fields[1], &parent)) return 0;
  return parent;
}

// The children of all threads of a process; `proc` is its directory.
std::vector<pid_t> ChildrenOf(pid_t pid, const std::string& proc) {
  std::vector<pid_t> children;
  pid_t child;
  bool known = false;
  for (const std::string& thread : ListDirectory(absl::StrCat(proc, "/task"))) {
    const std::string path = absl::StrCat(proc, "/task/", thread, "/children");
    if (access(path.c_str(), R_OK) != 0) continue;
    known = true;
    const std::string text = ContentsOf(path);
    for (absl::string_view word : absl::StrSplit(text, ' ')) {
      if (absl::SimpleAtoi(word, &child)) children.push_back(child);
    }
  }
  if (known) return children;
  // A kernel without CONFIG_PROC_CHILDREN.
  for (const std::string& name : ListDirectory("/proc")) {
    if (absl::SimpleAtoi(name, &child) && ParentOf(name) == pid) {
      children.push_back(child);
    }
  }
  return children;
}

void CountProcesses(pid_t pid, const std::string& proc, Census& census) {
  census.held["thread"] = ListDirectory(absl::StrCat(proc, "/task")).size();
  for (pid_t child : ChildrenOf(pid, proc)) {
    const char state = ProcessState(child);
    if (state == 0) continue;
    ++census.held[state == 'Z' ? "unreaped child process" : "child process"];
  }
}

// Sorted.
std::vector<std::string> NamesOf(const std::string& prefix) {
  if (prefix.empty()) return {};
  return ListShmNames(prefix).value_or(std::vector<std::string>());
}

}  // namespace

size_t Census::Count(const std::string& kind) const {
  size_t count = 0;
  for (auto i = held.lower_bound(kind);
       i != held.end() && absl::StartsWith(i->first, kind); ++i) {
    count += i->second;
  }
  return count;
}

Census TakeCensus(const CensusOptions& options) {
  Census census;
  const bool self = options.pid == 0 || options.pid == getpid();
  const pid_t pid = self ? getpid() : options.pid;
  const std::string proc = self ? kSelf : absl::StrCat("/proc/", pid);
  CountFds(proc, census);
  CountMappings(proc, census);
  CountProcesses(pid, proc, census);
  if (options.shm_prefix.empty()) return census;
  const auto names = ListShmNames(options.shm_prefix);
  if (!names.ok()) {
    ++census.held[absl::StrCat("error: ", names.status().ToString())];
    return census;
  }
  for (const std::string& name : *names) {
    ++census.held[absl::StrCat("name in /dev/shm ", name)];
  }
  return census;
}

char ProcessState(pid_t pid) {
  const std::string stat = ContentsOf(absl::StrCat("/proc/", pid, "/stat"));
  const size_t end_of_name = stat.rfind(") ");
  return end_of_name == std::string::npos ? 0 : stat[end_of_name + 2];
}

pid_t ParentPid(pid_t pid) { return ParentOf(absl::StrCat(pid)); }

std::vector<pid_t> ChildPids() { return ChildrenOf(getpid(), kSelf); }

std::string Difference(const Census& before, const Census& after) {
  std::string lines;
  const auto compare = [&](const std::string& kind) {
    const auto count_in = [&](const Census& census) -> size_t {
      const auto found = census.held.find(kind);
      return found == census.held.end() ? 0 : found->second;
    };
    const size_t was = count_in(before);
    const size_t is = count_in(after);
    if (was == is) return;
    absl::StrAppend(&lines, kind, ": ", was, " before, ", is, " after\n");
  };
  for (const auto& [kind, count] : before.held) compare(kind);
  for (const auto& [kind, count] : after.held) {
    if (before.held.count(kind) == 0) compare(kind);
  }
  return lines;
}

std::string LeftSince(const Census& before, const CensusOptions& options) {
  constexpr int kMilliseconds = 1000;
  std::string left = Difference(before, TakeCensus(options));
  for (int i = 0; i < kMilliseconds && !left.empty(); ++i) {
    usleep(1000);
    left = Difference(before, TakeCensus(options));
  }
  return left;
}

testing::AssertionResult ExpectSame(const Census& before, const Census& after) {
  const std::string difference = Difference(before, after);
  if (difference.empty()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << difference;
}

std::string UniqueShmPrefix() {
  const absl::StatusOr<std::string> name = MakeShmName("tenon-test");
  TENON_CHECK(name.ok(), "no random number for a name");
  return *name;
}

ShmNamesGuard::ShmNamesGuard(const std::string& prefix)
    : prefix_(prefix), before_(NamesOf(prefix)) {}

std::vector<std::string> ShmNamesGuard::RemoveNew() {
  std::vector<std::string> removed;
  for (const std::string& name : NamesOf(prefix_)) {
    if (std::binary_search(before_.begin(), before_.end(), name)) continue;
    RemoveShmName(name).IgnoreError();
    removed.push_back(name);
  }
  return removed;
}

}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/tools/doctor/memory_checks.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/available_memory.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/segment_options.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/tools/cli/quantity.h"
#include "tenon/tools/doctor/finding.h"
#include "tenon/tools/doctor/system_files.h"
#include "tenon/tools/live/process_scan.h"

namespace tenon::tools {
namespace {

constexpr char kShm[] = "/dev/shm";
constexpr char kPrefix[] = "tenon-doctor";
constexpr size_t kHugePage = size_t{2} << 20;

struct NamedFile {
  DeadName name;
  FileId id;
};

// Files of this user whose names MakeShmName() may have made.
absl::StatusOr<std::vector<NamedFile>> OwnNames() {
  std::vector<NamedFile> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(kShm), closedir);
  if (dir == nullptr && errno == ENOENT) return names;
  if (dir == nullptr) return PosixError(errno, "opendir", kShm);
  while (const dirent* entry = readdir(dir.get())) {
    const std::string name = entry->d_name;
    struct stat file;
    if (!IsMadeName(name) || !CheckShmName(name).ok() ||
        fstatat(dirfd(dir.get()), name.c_str(), &file, AT_SYMLINK_NOFOLLOW) !=
            0 ||
        !S_ISREG(file.st_mode) || file.st_uid != geteuid()) {
      continue;
    }
    names.push_back(
        {{name, static_cast<uint64_t>(file.st_blocks) * 512},
         {major(file.st_dev), minor(file.st_dev), uint64_t{file.st_ino}}});
  }
  std::sort(names.begin(), names.end(),
            [](const NamedFile& a, const NamedFile& b) {
              return a.name.name < b.name.name;
            });
  return names;
}

absl::Status FindNames(ShmNameFacts& facts) {
  // In this order: a name created after the listing is not checked, and the
  // creator of a listed name still has it open when processes are scanned, or
  // is dead.
  TENON_ASSIGN_OR_RETURN(const std::vector<NamedFile> names, OwnNames());
  TENON_ASSIGN_OR_RETURN(const ProcessScan scan, ScanProcesses());
  facts.hidden = scan.hidden.size();
  std::set<FileId> used;
  for (const TenonProcess& process : scan.processes) {
    for (const auto& [id, bytes] : process.segments) used.insert(id);
  }
  for (const NamedFile& name : names) {
    if (used.contains(name.id)) {
      ++facts.alive;
    } else {
      facts.dead.push_back(name.name);
    }
  }
  return absl::OkStatus();
}

std::string RemoveCommand(const std::vector<DeadName>& dead) {
  constexpr size_t kShown = 4;
  std::string command = "rm";
  for (size_t i = 0; i < std::min(kShown, dead.size()); ++i) {
    absl::StrAppend(&command, " ", kShm, "/", dead[i].name);
  }
  if (dead.size() > kShown) {
    absl::StrAppend(&command, " (and ", dead.size() - kShown,
                    " more: tenon doctor says which, once these are gone)");
  }
  return command;
}

}  // namespace

Finding CheckAvailableMemory(const AvailableMemory& facts) {
  constexpr uint64_t kLittle = uint64_t{256} << 20;
  Finding finding = {.check = "memory"};
  if (facts.bytes == std::numeric_limits<uint64_t>::max()) {
    finding.level = Level::kWarning;
    finding.found =
        "neither /proc/meminfo nor a cgroup shows the available memory";
    finding.cost =
        "too large allocations are not refused: the kernel "
        "kills processes";
    finding.fix = "mount -t proc proc /proc";
    return finding;
  }
  finding.found =
      absl::StrCat(FormatBytes(facts.bytes), " left, by ", facts.bound_by);
  if (facts.bytes >= kLittle) {
    // Raising it does not matter yet.
    finding.found = std::string(
        absl::string_view(finding.found).substr(0, finding.found.find(';')));
    return finding;
  }
  finding.level = Level::kWarning;
  finding.cost = "segments beyond that are refused with RESOURCE_EXHAUSTED";
  finding.fix = "end processes that use it, or follow the line above";
  return finding;
}

DevShmFacts ProbeDevShm() {
  DevShmFacts facts;
  struct statfs system;
  facts.exists = statfs(kShm, &system) == 0;
  if (facts.exists) {
    const auto block = static_cast<uint64_t>(system.f_bsize);
    facts.is_tmpfs = system.f_type == TMPFS_MAGIC;
    facts.size = uint64_t{system.f_blocks} * block;
    facts.free = uint64_t{system.f_bavail} * block;
  }
  facts.made = Segment::CreateSharedWritable(
                   4096, {.strategy = SharingStrategy::kFileSystem,
                          .name_prefix = kPrefix})
                   .status();
  return facts;
}

Finding CheckDevShm(const DevShmFacts& facts) {
  constexpr uint64_t kSmall = uint64_t{64} << 20;  // Usual for containers.
  constexpr char kOnlyNames[] =
      "the file_system strategy does not work; file_descriptor needs no "
      "/dev/shm";
  Finding finding = {
      .check = "/dev/shm",
      .found = absl::StrCat(
          facts.is_tmpfs ? "tmpfs" : "no tmpfs", ", ",
          facts.size == 0 ? "any size" : FormatBytes(facts.size),
          facts.size == 0
              ? ""
              : absl::StrCat(", ", FormatBytes(facts.free), " free"))};
  if (!facts.exists) {
    finding.level = Level::kWarning;
    finding.found = "there is none";
    finding.cost = kOnlyNames;
    finding.fix =
        "as root: mkdir -m 1777 /dev/shm && mount -t tmpfs tmpfs /dev/shm";
  } else if (!facts.made.ok()) {
    finding.level = Level::kWarning;
    absl::StrAppend(&finding.found, "; ", facts.made.message());
    finding.cost = kOnlyNames;
    finding.fix = facts.free == 0 && facts.size != 0
                      ? "rm unneeded names (below), or as root: mount -o "
                        "remount,size=50% /dev/shm"
                      : "as root: mount -o remount,rw,mode=1777 /dev/shm";
  } else if (!facts.is_tmpfs) {
    finding.level = Level::kWarning;
    finding.cost = "named segments are no memory, and are refused when opened";
    finding.fix = "as root: mount -t tmpfs tmpfs /dev/shm";
  } else if (facts.size != 0 &&
             (facts.size <= kSmall || facts.free < facts.size / 20)) {
    finding.level = Level::kWarning;
    finding.cost =
        "named segments beyond that are refused; the "
        "file_descriptor strategy is not bound by it";
    finding.fix =
        "as root: mount -o remount,size=50% /dev/shm (docker run "
        "--shm-size=2g)";
  }
  return finding;
}

HugePageFacts ProbeHugePages() {
  const SegmentOptions options = {.strategy = SharingStrategy::kFileDescriptor,
                                  .name_prefix = kPrefix,
                                  .huge_pages = HugePages::kRequire};
  return {.pool = Segment::CreateOwnerWritten(kHugePage, options).status(),
          .joined = Segment::CreateSharedWritable(kHugePage, options).status(),
          .shmem_enabled = ReadSystemFile(
              "/sys/kernel/mm/transparent_hugepage/shmem_enabled")};
}

Finding CheckHugePagePool(const HugePageFacts& facts) {
  if (facts.pool.ok()) {
    return {.check = "huge page pool", .found = "a page of 2 MiB was taken"};
  }
  // Few machines reserve huge pages: not a warning.
  return {.check = "huge page pool",
          .found =
              "empty: HugePages::kTry takes small pages for owner-written "
              "memfds; fill it as root: sysctl -w vm.nr_hugepages=256"};
}

Finding CheckJoinedHugePages(const HugePageFacts& facts) {
  Finding finding = {
      .check = "joined huge pages",
      .found = absl::StrCat(
          "small pages were joined to 2 MiB; shmem_enabled: ",
          facts.shmem_enabled.empty() ? "?" : facts.shmem_enabled)};
  if (facts.joined.ok()) return finding;
  finding.level = Level::kWarning;
  finding.found = std::string(facts.joined.message());
  finding.cost = "HugePages::kTry takes small pages, kRequire fails";
  finding.fix =
      "Linux 6.1 or later; as root: echo advise > "
      "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
  return finding;
}

ShmNameFacts ProbeShmNames() {
  ShmNameFacts facts;
  facts.found = FindNames(facts);
  return facts;
}

Finding CheckShmNames(const ShmNameFacts& facts) {
  Finding finding = {.check = "names in /dev/shm"};
  if (!facts.found.ok()) {
    finding.level = Level::kWarning;
    finding.found = std::string(facts.found.message());
    finding.cost = "names left by dead processes are not known";
    finding.fix = "make /proc and /dev/shm readable";
    return finding;
  }
  uint64_t bytes = 0;
  for (const DeadName& name : facts.dead) bytes += name.bytes;
  finding.found = absl::StrCat(facts.alive, " in use, ", facts.dead.size(),
                               " left by dead processes");
  if (facts.dead.empty()) return finding;
  absl::StrAppend(&finding.found, " (", FormatBytes(bytes), ")");
  finding.level = Level::kWarning;
  finding.cost =
      "memory that is neither used nor freed, unless a container "
      "with processes that are not visible here shares /dev/shm";
  finding.fix = facts.hidden == 0
                    ? RemoveCommand(facts.dead)
                    : absl::StrCat("not certain: ", facts.hidden,
                                   " processes could not be looked into; run "
                                   "it as root");
  return finding;
}

}  // namespace tenon::tools

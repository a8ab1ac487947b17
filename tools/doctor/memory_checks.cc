// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/tools/doctor/memory_checks.h"

#include <linux/magic.h>
#include <sys/statfs.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/available_memory.h"
#include "tenon/shm/segment/named_segments.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/segment_options.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/tools/cli/quantity.h"
#include "tenon/tools/doctor/finding.h"
#include "tenon/tools/doctor/system_files.h"

namespace tenon::tools {
namespace {

constexpr char kShm[] = "/dev/shm";
constexpr char kPrefix[] = "tenon-doctor";
constexpr size_t kHugePage = size_t{2} << 20;

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
  const absl::StatusOr<std::vector<NamedSegment>> names = ListNamedSegments();
  facts.found = names.status();
  if (!names.ok()) return facts;
  for (const NamedSegment& name : *names) {
    ++(name.is_held ? facts.alive : facts.dead);
    if (!name.is_held) facts.dead_bytes += name.allocated_bytes;
  }
  return facts;
}

Finding CheckShmNames(const ShmNameFacts& facts) {
  Finding finding = {.check = "names in /dev/shm"};
  if (!facts.found.ok()) {
    finding.level = Level::kWarning;
    finding.found = std::string(facts.found.message());
    finding.cost = "names left by dead processes are not known";
    finding.fix = "make /dev/shm readable and writable";
    return finding;
  }
  finding.found = absl::StrCat(facts.alive, " in use, ", facts.dead,
                               " left by dead processes");
  if (facts.dead == 0) return finding;
  absl::StrAppend(&finding.found, " (", FormatBytes(facts.dead_bytes), ")");
  finding.level = Level::kWarning;
  finding.cost =
      "memory that is neither used nor freed until a process is short of it";
  finding.fix = "tenon shm gc";
  return finding;
}

}  // namespace tenon::tools

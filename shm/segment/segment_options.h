// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SegmentOptions: options for the creation of a segment.
//
//   return Segment::CreateOwnerWritten(size, {.huge_pages = HugePages::kTry,
//                                             .numa_node = 0,
//                                             .prefault = true});
//
//   return Segment::CreateSharedWritable(size, {.name = "camera.frames"});

#ifndef TENON_SHM_SEGMENT_SEGMENT_OPTIONS_H_
#define TENON_SHM_SEGMENT_SEGMENT_OPTIONS_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "tenon/shm/segment/sharing_strategy.h"

namespace tenon {

// Pages of 2 MiB, so that long walks through a segment miss the TLB less often.
enum class HugePages {
  kNo,
  // If available now; Segment::pages() reports the outcome.
  kTry,
  // Otherwise creation fails: with kResourceExhausted if too few are free, with
  // kFailedPrecondition if the kernel is not set up for them, with
  // kInvalidArgument if the segment is smaller than one huge page. The status
  // names the setting to change.
  kRequire,
};

// The memory that backs a segment, as known to this process.
enum class SegmentPages {
  kSmall,
  // Small pages that the kernel has joined (MADV_COLLAPSE, Linux 6.1), except
  // the last size % 2 MiB bytes. Needs shmem_enabled in
  // /sys/kernel/mm/transparent_hugepage not to be "deny". The kernel may split
  // them again. A process that adopts or opens such a segment does not know it,
  // and benefits if it maps with MapOptions::align_to_huge_pages.
  kTransparentHuge,
  // From the pool that sysctl vm.nr_hugepages reserves. Only for owner-written
  // memfds whose size is a multiple of 2 MiB: peers with write access may
  // remove such pages, and touching them then is fatal.
  kHugetlb,
};

struct SegmentOptions {
  // Unset: GetSharingStrategy().
  std::optional<SharingStrategy> strategy;
  // Begins the name of a kFileSystem segment and labels a memfd in
  // /proc/PID/maps. See CheckShmPrefix() in shm_name.h.
  std::string name_prefix = "tenon";
  // A name of the caller's choice in place of a random one, by which programs
  // that share nothing else meet (CheckChosenShmName() in shm_name.h). It
  // implies kFileSystem. Other processes can open it once the object is
  // complete, and as long as any process has it open or mapped. The last holder
  // removes it when it is destroyed; after a kill, or if a forked child is the
  // last holder, the next Open(), Create() or reclaim does.
  // Errors: kAlreadyExists naming the file that has it; kInvalidArgument, also
  // together with kFileDescriptor; kUnavailable if other processes were
  // removing the name for a second, as a stopped one does.
  std::string name;
  // From the pool if SegmentPages::kHugetlb is possible, else joined.
  HugePages huge_pages = HugePages::kNo;
  // The memory comes from this NUMA node alone, whichever process touches it
  // first. Errors: kResourceExhausted if the node has too little;
  // kInvalidArgument if it does not exist; kPermissionDenied where a container
  // forbids mbind().
  std::optional<int> numa_node;
  // For the mapping made at creation: MapOptions::prefault.
  bool prefault = false;
};

// The strategy of a segment with these options.
// Errors: kInvalidArgument if the name is malformed, or needs another strategy.
absl::StatusOr<SharingStrategy> StrategyOf(const SegmentOptions& options);

}  // namespace tenon

#endif  // TENON_SHM_SEGMENT_SEGMENT_OPTIONS_H_

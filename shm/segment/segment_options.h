// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SegmentOptions: what may be asked for when a segment is created.
//
//   return Segment::CreateOwnerWritten(size, {.huge_pages = HugePages::kTry,
//                                             .numa_node = 0,
//                                             .prefault = true});

#ifndef TENON_SHM_SEGMENT_SEGMENT_OPTIONS_H_
#define TENON_SHM_SEGMENT_SEGMENT_OPTIONS_H_

#include <optional>
#include <string>

#include "tenon/shm/segment/sharing_strategy.h"

namespace tenon {

// Pages of 2 MiB, so that long walks through a segment miss the TLB less often.
enum class HugePages {
  kNo,
  // If they can be had now; Segment::pages() says whether.
  kTry,
  // Or creating fails: with kResourceExhausted if there are not enough of them,
  // with kFailedPrecondition if the kernel is not set up for them, with
  // kInvalidArgument if the segment is smaller than one. The status says what
  // to change.
  kRequire,
};

// The memory that backs a segment, as far as this process knows.
enum class SegmentPages {
  kSmall,
  // Small ones that the kernel has joined (MADV_COLLAPSE, Linux 6.1), but for
  // the last size % 2 MiB bytes. Needs shmem_enabled in
  // /sys/kernel/mm/transparent_hugepage not to be "deny". The kernel may split
  // them again. A process that adopts or opens such a segment is not told, and
  // profits if it maps with MapOptions::align_to_huge_pages.
  kTransparentHuge,
  // Of the pool that sysctl vm.nr_hugepages sets aside. For owner-written
  // memfds with a multiple of 2 MiB only: where peers may write, they may take
  // such pages away, and touching them then is fatal.
  kHugetlb,
};

struct SegmentOptions {
  // Unset: GetSharingStrategy().
  std::optional<SharingStrategy> strategy;
  // Begins the name of a kFileSystem segment and labels a memfd in
  // /proc/PID/maps. See CheckShmPrefix() in shm_name.h.
  std::string name_prefix = "tenon";
  // From the pool if SegmentPages::kHugetlb is possible, else joined.
  HugePages huge_pages = HugePages::kNo;
  // The memory comes from this NUMA node alone, whichever process touches it
  // first. What the node does not have is kResourceExhausted; a node that does
  // not exist, kInvalidArgument; kPermissionDenied where a container forbids
  // mbind().
  std::optional<int> numa_node;
  // Of the mapping that comes with creating: MapOptions::prefault.
  bool prefault = false;
};

}  // namespace tenon

#endif  // TENON_SHM_SEGMENT_SEGMENT_OPTIONS_H_

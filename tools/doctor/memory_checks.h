// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Checks of memory: available, in huge pages, in /dev/shm, and names that dead
// processes have left there.
//
// Each check has a probe, which collects the facts, and a pure function that
// interprets them.

#ifndef TENON_TOOLS_DOCTOR_MEMORY_CHECKS_H_
#define TENON_TOOLS_DOCTOR_MEMORY_CHECKS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "tenon/shm/base/available_memory.h"
#include "tenon/tools/doctor/finding.h"

namespace tenon::tools {

// GetAvailableMemory() of available_memory.h is the probe.
Finding CheckAvailableMemory(const AvailableMemory& facts);

struct DevShmFacts {
  bool exists = false;
  bool is_tmpfs = false;
  uint64_t size = 0;  // Of the file system, in bytes.
  uint64_t free = 0;
  absl::Status made;  // Of a segment with a name there.
};
DevShmFacts ProbeDevShm();
Finding CheckDevShm(const DevShmFacts& facts);

// Creates segments of 2 MiB that require huge pages.
struct HugePageFacts {
  absl::Status pool;          // MFD_HUGETLB.
  absl::Status joined;        // MADV_COLLAPSE.
  std::string shmem_enabled;  // Of transparent_hugepage; empty: not known.
};
HugePageFacts ProbeHugePages();
Finding CheckHugePagePool(const HugePageFacts& facts);
Finding CheckJoinedHugePages(const HugePageFacts& facts);

// Named segments of this user.
struct ShmNameFacts {
  absl::Status found;  // Whether they could be listed.
  size_t alive = 0;    // Open or mapped in a living process.
  size_t dead = 0;     // In none.
  uint64_t dead_bytes = 0;
};
ShmNameFacts ProbeShmNames();
Finding CheckShmNames(const ShmNameFacts& facts);

}  // namespace tenon::tools

#endif  // TENON_TOOLS_DOCTOR_MEMORY_CHECKS_H_

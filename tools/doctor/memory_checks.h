// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Checks of the memory there is: free, in huge pages, in /dev/shm, and what the
// dead have left there.
//
// Of each check there is a probe, which finds the facts, and a function that
// says what they mean, which is pure.

#ifndef TENON_TOOLS_DOCTOR_MEMORY_CHECKS_H_
#define TENON_TOOLS_DOCTOR_MEMORY_CHECKS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

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

// Segments of 2 MiB that insist on huge pages are made.
struct HugePageFacts {
  absl::Status pool;          // MFD_HUGETLB.
  absl::Status joined;        // MADV_COLLAPSE.
  std::string shmem_enabled;  // Of transparent_hugepage; empty: not known.
};
HugePageFacts ProbeHugePages();
Finding CheckHugePagePool(const HugePageFacts& facts);
Finding CheckJoinedHugePages(const HugePageFacts& facts);

// Names in /dev/shm that MakeShmName() has made, of this user.
struct DeadName {
  std::string name;
  uint64_t bytes = 0;
};
struct ShmNameFacts {
  absl::Status found;          // Whether names and processes could be listed.
  size_t alive = 0;            // A process of this user has it open or mapped.
  std::vector<DeadName> dead;  // None has.
  size_t hidden = 0;           // Processes that could not be looked into.
};
ShmNameFacts ProbeShmNames();
Finding CheckShmNames(const ShmNameFacts& facts);

}  // namespace tenon::tools

#endif  // TENON_TOOLS_DOCTOR_MEMORY_CHECKS_H_

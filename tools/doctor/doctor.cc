// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/tools/doctor/doctor.h"

#include <sys/resource.h>

#include <vector>

#include "tenon/shm/base/available_memory.h"
#include "tenon/tools/doctor/core_checks.h"
#include "tenon/tools/doctor/finding.h"
#include "tenon/tools/doctor/kernel_checks.h"
#include "tenon/tools/doctor/limit_checks.h"
#include "tenon/tools/doctor/memory_checks.h"
#include "tenon/tools/doctor/system_files.h"

namespace tenon::tools {

std::vector<Finding> Examine() {
  const HugePageFacts huge_pages = ProbeHugePages();
  return {
      CheckKernel(ProbeKernel()),
      CheckMemfd(ProbeMemfd()),
      CheckSeals(ProbeSeals()),
      CheckControlMemory(ProbeControlMemory()),
      CheckPidFd(ProbePidFd()),
      CheckPassingDescriptors(ProbePassingDescriptors()),
      CheckPeerPidFd(ProbePeerPidFd()),
      CheckIdentity(ProbeIdentity()),
      CheckLooking(ProbeLooking()),
      CheckOpenFiles(ProbeLimit(RLIMIT_NOFILE)),
      CheckMappings(ReadSystemNumber("/proc/sys/vm/max_map_count")),
      CheckProcessCount(ProbeProcessCount()),
      CheckLockedMemory(ProbeLockedMemory()),
      CheckAvailableMemory(GetAvailableMemory()),
      CheckDevShm(ProbeDevShm()),
      CheckShmNames(ProbeShmNames()),
      CheckHugePagePool(huge_pages),
      CheckJoinedHugePages(huge_pages),
      CheckCores(ProbeCores()),
      CheckClock(ProbeClock()),
  };
}

}  // namespace tenon::tools

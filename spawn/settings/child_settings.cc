// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/settings/child_settings.h"

#include <errno.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/channel/archive.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::spawn {
namespace {

absl::Status ApplyLimits(const std::vector<ResourceLimit>& limits) {
  for (const ResourceLimit& limit : limits) {
    const rlimit values = {limit.soft, limit.hard};
    if (setrlimit(static_cast<__rlimit_resource>(limit.resource), &values) !=
        0) {
      const int error = errno;
      return PosixError(
          error, "setrlimit",
          absl::StrCat("resource ", limit.resource, " to ", limit.soft));
    }
  }
  return absl::OkStatus();
}

absl::Status ApplyCpus(const std::vector<int>& cpus) {
  if (cpus.empty()) return absl::OkStatus();
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof(set), &set) == 0) return absl::OkStatus();
  const int error = errno;
  return PosixError(error, "sched_setaffinity",
                    absl::StrCat("processors ", absl::StrJoin(cpus, ", ")));
}

}  // namespace

std::string EncodeChildSettings(const ChildSettings& settings) {
  ArchiveWriter writer;
  writer.PutString(settings.name);
  writer.Put(static_cast<uint32_t>(settings.limits.size()));
  for (const ResourceLimit& limit : settings.limits) {
    writer.Put(int32_t{limit.resource});
    writer.Put(limit.soft);
    writer.Put(limit.hard);
  }
  writer.Put(static_cast<uint32_t>(settings.cpus.size()));
  for (const int cpu : settings.cpus) writer.Put(int32_t{cpu});
  return std::move(writer).bytes();
}

absl::StatusOr<ChildSettings> DecodeChildSettings(absl::string_view bytes) {
  ArchiveReader reader(bytes);
  ChildSettings settings;
  TENON_ASSIGN_OR_RETURN(settings.name, reader.GetString());
  TENON_ASSIGN_OR_RETURN(const uint32_t limits, reader.Get<uint32_t>());
  // Allocates nothing for elements that the bytes do not contain.
  for (uint32_t i = 0; i < limits; ++i) {
    ResourceLimit limit;
    TENON_ASSIGN_OR_RETURN(limit.resource, reader.Get<int32_t>());
    TENON_ASSIGN_OR_RETURN(limit.soft, reader.Get<uint64_t>());
    TENON_ASSIGN_OR_RETURN(limit.hard, reader.Get<uint64_t>());
    settings.limits.push_back(limit);
  }
  TENON_ASSIGN_OR_RETURN(const uint32_t cpus, reader.Get<uint32_t>());
  for (uint32_t i = 0; i < cpus; ++i) {
    TENON_ASSIGN_OR_RETURN(const int32_t cpu, reader.Get<int32_t>());
    settings.cpus.push_back(cpu);
  }
  TENON_RETURN_IF_ERROR(reader.Finish());
  return settings;
}

absl::Status CheckChildSettings(const ChildSettings& settings) {
  for (const ResourceLimit& limit : settings.limits) {
    if (limit.resource < 0 || limit.resource >= RLIMIT_NLIMITS) {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown resource ", limit.resource, "; want 0 to ",
                       RLIMIT_NLIMITS - 1));
    }
    if (limit.soft > limit.hard) {
      return absl::InvalidArgumentError(
          absl::StrCat("limit of resource ", limit.resource, ": soft ",
                       limit.soft, " is above hard ", limit.hard));
    }
  }
  for (const int cpu : settings.cpus) {
    if (cpu >= 0 && cpu < CPU_SETSIZE) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "unknown processor ", cpu, "; want 0 to ", CPU_SETSIZE - 1));
  }
  return absl::OkStatus();
}

absl::Status ApplyChildSettings(const ChildSettings& settings) {
  if (!settings.name.empty()) prctl(PR_SET_NAME, settings.name.c_str());
  TENON_RETURN_IF_ERROR(CheckChildSettings(settings));
  TENON_RETURN_IF_ERROR(ApplyCpus(settings.cpus));
  return ApplyLimits(settings.limits);
}

}  // namespace tenon::spawn

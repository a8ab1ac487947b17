// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SharingStrategy: how a segment is named to another process.

#ifndef TENON_SHM_SEGMENT_SHARING_STRATEGY_H_
#define TENON_SHM_SEGMENT_SHARING_STRATEGY_H_

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/cplusplus_20.h"

namespace tenon {

enum class SharingStrategy {
  // "file_descriptor": an anonymous memfd, passed as a descriptor over a
  // channel. Sealed, so the receiver can trust its size; not limited by the
  // size of /dev/shm; freed with its last user, however that process dies. The
  // default.
  kFileDescriptor,
  // "file_system": a name in /dev/shm, passed as a string. A tensor holds no
  // descriptor, neither in its creator nor in a process that opens it. Names
  // that dead processes left can be reclaimed (named_segments.h). It cannot be
  // sealed: for groups of processes that trust each other.
  kFileSystem,
};

// All strategies.
std::span<const SharingStrategy> AllSharingStrategies();

// The strategies with which this process can create segments now:
// kFileDescriptor unless the kernel lacks memfd_create() or a seccomp filter
// forbids it; kFileSystem if /dev/shm is a tmpfs that this process may write
// to, and the kernel has locks of open file descriptions (F_OFD_SETLK). A
// currently exhausted limit (descriptors, memory, space) does not exclude a
// strategy: creating the segment then fails and names the limit. Queries the
// kernel at each call and leaves nothing behind. Thread-safe.
std::vector<SharingStrategy> SupportedSharingStrategies();

// "file_descriptor" or "file_system".
absl::string_view SharingStrategyName(SharingStrategy strategy);

// The reverse. Errors: kInvalidArgument, listing the valid names.
absl::StatusOr<SharingStrategy> ParseSharingStrategy(absl::string_view name);

// The strategy of segments that this process creates, unless their options
// specify another. Initially kFileDescriptor. Thread-safe; spawned children
// start with their parent's value.
SharingStrategy GetSharingStrategy();
void SetSharingStrategy(SharingStrategy strategy);

}  // namespace tenon

#endif  // TENON_SHM_SEGMENT_SHARING_STRATEGY_H_

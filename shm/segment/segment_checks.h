// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// What a descriptor must be before it is mapped as a segment. Another process
// chose it: it may be a file on a slow disk, a device, or memory that shrinks
// under the reader.
//
//   TENON_RETURN_IF_ERROR(CheckSeals(fd, F_SEAL_SHRINK | F_SEAL_SEAL, what));
//   TENON_ASSIGN_OR_RETURN(CheckedMemory memory, CheckMemory(fd, what));
//
// The order matters. The kernel itself answers for seals, and only memory has
// them; other questions go to the file system, which may be the peer's own
// (FUSE) and never answer. And a size read before the seals are known to be
// there may have changed since.

#ifndef TENON_SHM_SEGMENT_SEGMENT_CHECKS_H_
#define TENON_SHM_SEGMENT_SEGMENT_CHECKS_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tenon {

// Checks that all of `seals` (F_SEAL_... bits) are set on `fd`, which `what`
// names in errors. If it says OK,
// `fd` is memory: a file of tmpfs or hugetlbfs. Never blocks.
// Errors: kFailedPrecondition naming the ones that are missing;
// kInvalidArgument if it is something else, saying what, or not open.
absl::Status CheckSeals(int fd, int seals, absl::string_view what);

struct CheckedMemory {
  size_t size_bytes = 0;  // Not 0.
  bool is_hugetlb = false;
};

// What `fd`, a file in memory, has. On hugetlbfs, where touching a page that is
// not there may be fatal, all pages must be there.
// Errors: kInvalidArgument; fstat()'s and fstatfs()'s.
absl::StatusOr<CheckedMemory> CheckMemory(int fd, absl::string_view what);

// Of a file found by its name, which has no seals: checks that `fd` is a
// regular file in memory, belongs to this user, and has the mode that a
// finished segment has, 0600. Then as CheckMemory(). Asks the file system, so
// only where that is known not to be a peer's. Errors: kInvalidArgument saying
// what it is instead; kPermissionDenied with the owner and the mode found;
// fstat()'s and fstatfs()'s.
absl::StatusOr<CheckedMemory> CheckNamedMemory(int fd, absl::string_view what);

}  // namespace tenon

#endif  // TENON_SHM_SEGMENT_SEGMENT_CHECKS_H_

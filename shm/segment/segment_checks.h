// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Checks of a received descriptor before it is mapped as a segment. It may be a
// file on a slow disk, a device, or memory that shrinks under the reader.
//
//   TENON_RETURN_IF_ERROR(CheckSeals(fd, F_SEAL_SHRINK | F_SEAL_SEAL, what));
//   TENON_ASSIGN_OR_RETURN(CheckedMemory memory, CheckMemory(fd, what));
//
// The order matters. Seals are queried from the kernel itself, and only memory
// has them; other queries go to the file system, which may be the peer's own
// (FUSE) and never answer. And a size that was read before the seals were
// checked may have changed since.

#ifndef TENON_SHM_SEGMENT_SEGMENT_CHECKS_H_
#define TENON_SHM_SEGMENT_SEGMENT_CHECKS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tenon {

// Checks that all of `seals` (F_SEAL_... bits) are set on `fd`, which `what`
// names in errors. If the result is OK, `fd` is memory: a file of tmpfs or
// hugetlbfs. Never blocks.
// Errors: kFailedPrecondition naming the missing seals; kInvalidArgument,
// naming the type, if it is not memory, or if it is not open.
absl::Status CheckSeals(int fd, int seals, absl::string_view what);

struct CheckedMemory {
  size_t size_bytes = 0;  // Not 0.
  bool is_hugetlb = false;
  uint64_t device = 0;  // st_dev and st_ino.
  uint64_t inode = 0;
  bool has_name_token = false;  // By CheckNamedMemory(): see name_token.h.
};

// Size and pages of `fd`, a file in memory. On hugetlbfs, where touching a
// missing page may be fatal, all pages must be allocated.
// Errors: kInvalidArgument; fstat()'s and fstatfs()'s.
absl::StatusOr<CheckedMemory> CheckMemory(int fd, absl::string_view what);

// For a file opened by its name, which has no seals: checks that `fd` is a
// regular file in memory, belongs to this user, has the mode of a finished
// segment or of another program's private file, 01600 or 0600, and no second
// hard link. Then as CheckMemory(). Queries the file system, so call it only
// where that is known not to be a peer's.
// Errors: kInvalidArgument naming the actual type; kPermissionDenied with the
// owner and the mode or the number of links found; fstat()'s and fstatfs()'s.
absl::StatusOr<CheckedMemory> CheckNamedMemory(int fd, absl::string_view what);

}  // namespace tenon

#endif  // TENON_SHM_SEGMENT_SEGMENT_CHECKS_H_

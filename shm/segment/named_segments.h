// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Named segments of this user on this machine: which ones are held by living
// processes, and the removal of those that dead processes left.
//
//   TENON_ASSIGN_OR_RETURN(const std::vector<NamedSegment> removed,
//                          ReclaimDeadNames());
//
// A process holds the name of a segment as long as it has the segment open or
// mapped, whether it created or opened it; so does a forked child with an
// inherited mapping. The kernel itself drops the hold (name_token.h), so the
// answer is exact after any death, in any pid namespace or container that
// shares /dev/shm, and no daemon is needed.
//
// Only names are affected that this user's processes made with Segment and its
// users (Tensor, Arena, Value, Array, locks, queues).
//
// Threads: thread-safe. Any number of processes may list and reclaim at once.
// Blocking: none, but freeing memory takes the kernel about 0.1 s per GiB.
// Failure: a process that is killed while it reclaims leaves names to the next.

#ifndef TENON_SHM_SEGMENT_NAMED_SEGMENTS_H_
#define TENON_SHM_SEGMENT_NAMED_SEGMENTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tenon/shm/base/cplusplus_20.h"

namespace tenon {

struct NamedSegment {
  std::string name;
  uint64_t size_bytes = 0;
  uint64_t allocated_bytes = 0;  // Of memory.
  uint64_t device = 0;           // st_dev and st_ino, as in Segment::Id.
  uint64_t inode = 0;
  absl::Time created;        // When it was finished, if it was.
  bool is_finished = false;  // Else its creator is, or died, creating it.
  bool is_held = false;      // By a living process.
};

// All named segments of this user, sorted by name, each once. A snapshot. No
// /dev/shm at all is an empty list.
// Errors: kPermissionDenied if /dev/shm is read-only or unreadable;
// kResourceExhausted at a limit of descriptors.
absl::StatusOr<std::vector<NamedSegment>> ListNamedSegments();

// Removes all names of this user that no process holds, and thereby frees their
// memory; returns them. Five system calls for a name that is held. Goes on
// after an error with one name.
// Errors: the first one, as above, if no name was removed.
absl::StatusOr<std::vector<NamedSegment>> ReclaimDeadNames();

// The same for one name: whether it was removed by this call.
// Errors: kInvalidArgument for a malformed name; as above.
absl::StatusOr<bool> ReclaimDeadName(absl::string_view name);

// Ends the hold of `fd`, the descriptor of a segment with a random name that is
// not mapped here, and returns whether another process holds the name. A holder
// that ends after this call finds no hold of `fd`. Two system calls.
bool DropHoldOfName(int fd);

// Renames the segment `made` to `chosen`, if no living process holds a segment
// of that name: the name of a dead one is reclaimed. In one step: others open
// the complete segment or none. Waits up to a second for other processes that
// are removing the name.
// Errors: kAlreadyExists naming the file that has it; kInvalidArgument for a
// malformed name; kUnavailable if other processes were removing it all the
// time, as a stopped one does; kNotFound if `made` does not exist;
// renameat2()'s; those of ReclaimDeadName().
absl::Status GiveChosenName(absl::string_view made, absl::string_view chosen);

// Removes a name now, held or not: its holders keep the memory, and the name is
// free again. For any type that has a name. Not an error if it does not exist,
// or is a file of another program or user, which stays. Waits up to a second
// for other processes that are removing it.
// Errors: kUnavailable as above; those of ReclaimDeadName().
absl::Status RemoveSegmentName(absl::string_view name);

// The same if it still refers to that file (st_dev and st_ino).
absl::Status RemoveNameOfFile(absl::string_view name, uint64_t device,
                              uint64_t inode);

}  // namespace tenon

#endif  // TENON_SHM_SEGMENT_NAMED_SEGMENTS_H_

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The liveness token of a name in /dev/shm: a lock on its own file, by which
// any process distinguishes a name in use from one that dead processes left.
//
//   UniqueFd fd(shm_open(path, O_RDWR | O_CREAT | O_EXCL, kUnfinishedNameMode));
//   TENON_RETURN_IF_ERROR(HoldName(fd.get(), what));
//
// A holder has a shared lock of its open file description (F_OFD_SETLK). The
// kernel keeps the lock as long as a descriptor or a mapping of that
// description exists in any process, forked children included, and drops it
// with the last one, however the processes end. So the token takes no
// descriptor of its own, and is the same in all pid namespaces and containers
// that share /dev/shm.
//
// Byte 0 is the token: holders lock it shared. Byte 1 is the right to remove
// the name from the file, which a program may have given to a new file
// meanwhile. A process that removes the name of dead holders locks both
// exclusively, so the name gains no holder meanwhile. A file whose name has a
// token is known by its mode, which has the sticky bit: files of other programs
// are never reclaimed.

#ifndef TENON_SHM_SEGMENT_NAME_TOKEN_H_
#define TENON_SHM_SEGMENT_NAME_TOKEN_H_

#include <sys/stat.h>
#include <sys/types.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace tenon {

// While a segment is being created its owner alone may open it, and only for
// writing: to lock it exclusively.
inline constexpr mode_t kUnfinishedNameMode = S_ISVTX | 0200;
inline constexpr mode_t kFinishedNameMode = S_ISVTX | 0600;

// Whether `file` has one of these modes, is a regular file, and is this user's.
bool HasNameToken(const struct stat& file);

// Makes `fd`, opened for reading, a holder of its name. A creator checks
// afterwards that the file still has its name: before, no process held it.
// Errors: kNotFound if another process is removing the name, as all its holders
// have died; kResourceExhausted if the kernel has no memory for the lock;
// kPermissionDenied where a filter or security module forbids locks.
absl::Status HoldName(int fd, absl::string_view what);

// Ends this descriptor's hold, before it is closed.
void DropName(int fd);

// Whether any process holds the name of `fd`, other than through `fd`. False
// while a process is removing the name of dead holders: that process may be
// killed before it has done so. Errors: fcntl()'s.
absl::StatusOr<bool> IsNameHeld(int fd, absl::string_view what);

// Locks byte 1: of all processes that remove this name from this file, one at a
// time. False if another process holds that lock. Errors: fcntl()'s.
absl::StatusOr<bool> LockNameRemoval(int fd, absl::string_view what);

// If no process holds the name of `fd`, which is open for writing: true, and no
// process can until `fd` is closed. Errors: fcntl()'s.
absl::StatusOr<bool> LockDeadName(int fd, absl::string_view what);

// For how long a process retries while others are removing a name that it wants
// to open, remove or give; and the error after that: kUnavailable.
inline constexpr absl::Duration kNameRemovalTime = absl::Seconds(1);
absl::Status NameRemovalTimeout(absl::string_view what);

}  // namespace tenon

#endif  // TENON_SHM_SEGMENT_NAME_TOKEN_H_

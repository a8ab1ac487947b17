// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The memfds that other processes have open, as /proc shows them, looked at and
// opened in a way that waits for nobody.
//
//   TENON_ASSIGN_OR_RETURN(const std::vector<int> fds, FdsOf(pid, 1 << 20));
//   for (const int fd : fds) {
//     TENON_ASSIGN_OR_RETURN(const auto shown, LookAtMemfd(pid, fd));
//     if (!shown.has_value() || shown->label != "tenon.arena") continue;
//     TENON_ASSIGN_OR_RETURN(const UniqueFd file,
//                            OpenShownMemfd(pid, fd, shown->id));
//
// A process can have a file of a file system of its own (FUSE) that is named as
// a memfd is, and never answer who opens it or asks for its size. So no file
// system is asked but that of memfds, which is the kernel's own.

#ifndef TENON_SHM_BASE_SHOWN_MEMFD_H_
#define TENON_SHM_BASE_SHOWN_MEMFD_H_

#include <sys/types.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {

// Which kernel object; the same whoever has it open.
struct MemfdId {
  dev_t device = 0;
  ino_t inode = 0;
  friend auto operator<=>(const MemfdId&, const MemfdId&) = default;
};

struct ShownMemfd {
  std::string label;  // As it was given to memfd_create(): any bytes.
  MemfdId id;
  uint64_t size_bytes = 0;
};

// The processes that /proc shows, in no order. Errors: opendir()'s.
absl::StatusOr<std::vector<pid_t>> AllPids();

// Whether a process is of this user and there. Never waits.
bool IsOfThisUser(pid_t pid);

// The descriptors of a process, but not more than `most` and one. Errors:
// opendir()'s: kPermissionDenied for a process that must not be looked into,
// kNotFound for one that is gone, kResourceExhausted at a limit of this one.
absl::StatusOr<std::vector<int>> FdsOf(pid_t pid, size_t most);

// None if there is no memfd at that place (any more). Errors: a limit of
// descriptors of this process, the first time.
absl::StatusOr<std::optional<ShownMemfd>> LookAtMemfd(pid_t pid, int fd);

// Opens it to be read, if it is that one still; else the result is invalid.
// Errors: a limit of descriptors of this process.
absl::StatusOr<UniqueFd> OpenShownMemfd(pid_t pid, int fd, const MemfdId& id);

}  // namespace tenon

#endif  // TENON_SHM_BASE_SHOWN_MEMFD_H_

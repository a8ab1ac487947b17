// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Inspects and opens the memfds that other processes have open, as /proc shows
// them, without ever blocking on a process.
//
//   TENON_ASSIGN_OR_RETURN(const std::vector<int> fds, FdsOf(pid, 1 << 20));
//   for (const int fd : fds) {
//     TENON_ASSIGN_OR_RETURN(const auto shown, InspectMemfd(pid, fd));
//     if (!shown.has_value() || shown->label != "tenon.arena") continue;
//     TENON_ASSIGN_OR_RETURN(const UniqueFd file,
//                            OpenShownMemfd(pid, fd, shown->id));
//
// A process can have a file of a file system of its own (FUSE) that is named
// like a memfd, and never answer open() or stat(). So no file system is queried
// except that of memfds, which is the kernel's own.

#ifndef TENON_SHM_PAGES_SHOWN_MEMFD_H_
#define TENON_SHM_PAGES_SHOWN_MEMFD_H_

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

// Identifies the kernel object; the same in every process.
struct MemfdId {
  dev_t device = 0;
  ino_t inode = 0;
  friend auto operator<=>(const MemfdId&, const MemfdId&) = default;
};

struct ShownMemfd {
  std::string label;  // As passed to memfd_create(): any bytes.
  MemfdId id;
  uint64_t size_bytes = 0;
};

// The processes that /proc shows, in no order. Errors: opendir()'s.
absl::StatusOr<std::vector<pid_t>> AllPids();

// Whether a process exists and belongs to this user. Never blocks.
bool IsOfThisUser(pid_t pid);

// The descriptors of a process, at most `most` + 1. Errors: opendir()'s:
// kPermissionDenied for a process that this one must not inspect, kNotFound for
// one that is gone, kResourceExhausted at a limit of this one.
absl::StatusOr<std::vector<int>> FdsOf(pid_t pid, size_t most);

// Empty if `fd` is not, or no longer, a memfd. Errors: a limit of descriptors
// of this process, the first time.
absl::StatusOr<std::optional<ShownMemfd>> InspectMemfd(pid_t pid, int fd);

// The label of a memfd that this process has open, as the creator passed it.
// Empty if `fd` is none, or /proc does not show it.
std::string LabelOfOwnMemfd(int fd);

// Opens it for reading if it is still `id`; else the result is invalid.
// Errors: a limit of descriptors of this process.
absl::StatusOr<UniqueFd> OpenShownMemfd(pid_t pid, int fd, const MemfdId& id);

}  // namespace tenon

#endif  // TENON_SHM_PAGES_SHOWN_MEMFD_H_

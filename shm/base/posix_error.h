// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// PosixError: the one place where an errno becomes an absl::Status.
//
//   if (ftruncate(fd, size) != 0) {
//     return tenon::PosixError(errno, "ftruncate", "segment 'weights'");
//   }
//
// gives, for EMFILE from memfd_create:
//   RESOURCE_EXHAUSTED: memfd_create(segment 'weights'): Too many open files
//   [EMFILE]; files this process may open: 1024 (RLIMIT_NOFILE; hard limit
//   4096); raise it: ulimit -n 4096, or use fewer: tensors in an arena share
//   one descriptor, those of the file_system strategy have none
//
// Read errno before any other call, including those that build the object's
// description: every call may change it.

#ifndef TENON_SHM_BASE_POSIX_ERROR_H_
#define TENON_SHM_BASE_POSIX_ERROR_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/cplusplus_20.h"

namespace tenon {

// A status whose code is absl::ErrnoToStatusCode(error_number), except that
// EDQUOT, EFBIG, ENOLCK and ETOOMANYREFS become kResourceExhausted. The message
// contains the call, the object, the errno in words and by name and, when a
// limit was hit (open files, mappings, memory, file size, space in /dev/shm,
// descriptors in flight, processes), the limit's current value and the command
// that raises it; also what to do if /dev/shm is missing or read-only, or if
// the kernel has no locks for names. It may read files under /proc and /sys.
//
// `error_number` must not be 0. `object` describes the object of the call, with
// sizes in bytes; it may be empty. Thread-safe.
absl::Status PosixError(int error_number, absl::string_view call,
                        absl::string_view object);

// Whether PosixError() made the status for want of descriptors, of this process
// (EMFILE) or of the machine (ENFILE): closing some may help. A property of the
// status and not of its text, so it is lost where a caller makes a new status.
// Thread-safe.
bool IsLackOfDescriptors(const absl::Status& status);

}  // namespace tenon

#endif  // TENON_SHM_BASE_POSIX_ERROR_H_

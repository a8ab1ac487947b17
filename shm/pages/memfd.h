// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// OpenMemfd: creates a memfd; all of Tenon's are created here.

#ifndef TENON_SHM_PAGES_MEMFD_H_
#define TENON_SHM_PAGES_MEMFD_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {

// An empty memfd that can be sealed, close-on-exec, and not executable by any
// process where the kernel supports that (Linux 6.3). The kernel shows `label`
// in /proc/PID/maps and /proc/PID/fd. `extra_flags` are added (MFD_HUGETLB).
// `what` names it in errors. Errors: kResourceExhausted naming the limit;
// memfd_create()'s.
absl::StatusOr<UniqueFd> OpenMemfd(const std::string& label,
                                   unsigned extra_flags,
                                   absl::string_view what);

}  // namespace tenon

#endif  // TENON_SHM_PAGES_MEMFD_H_

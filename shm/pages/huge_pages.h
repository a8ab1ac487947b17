// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Huge pages: the two ways to get them for a file in memory.

#ifndef TENON_SHM_PAGES_HUGE_PAGES_H_
#define TENON_SHM_PAGES_HUGE_PAGES_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tenon {

// Joins the small pages of the tmpfs file `fd`, all of which must be allocated,
// into huge ones, except the last size_bytes % 2 MiB. Other processes may have
// it mapped. Blocks while the kernel copies. On errors some pages may be
// joined; the contents are unchanged in any case.
// Errors: kInvalidArgument if the file is smaller than a huge page;
// kResourceExhausted if no huge page is free; kFailedPrecondition if this
// kernel does not support it, or has it disabled.
absl::Status CollapsePages(int fd, size_t size_bytes, absl::string_view what);

// Takes all pages of the hugetlbfs file `fd`, of 2 MiB each, from the pool.
// Errors: kResourceExhausted with the pool's size and how to enlarge it.
absl::Status ReserveHugetlbPages(int fd, size_t size_bytes,
                                 absl::string_view what);

}  // namespace tenon

#endif  // TENON_SHM_PAGES_HUGE_PAGES_H_

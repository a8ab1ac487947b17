// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ReservePages, WritePages: make sure that memory is there before it is
// touched.

#ifndef TENON_SHM_PAGES_RESERVE_PAGES_H_
#define TENON_SHM_PAGES_RESERVE_PAGES_H_

#include <cstddef>
#include <span>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tenon {

// Sets the size of the file `fd`. A process over RLIMIT_FSIZE gets an error and
// no SIGXFSZ. `what` names the file in errors.
// Errors: kResourceExhausted naming the limit.
absl::Status SetFileSize(int fd, size_t size_bytes, absl::string_view what);

// Allocates the pages of the tmpfs file `fd` from `offset` for `size_bytes`, so
// that no later touch of them can fail. Makes progress however often signals
// interrupt it. The range should have no pages yet: every 16 MiB that this
// process takes, in one piece or many, it is refused at once if its size is
// more than the file system or the machine has left, because the kernel would
// rather kill a process than refuse memory. Blocks while the kernel allocates.
// Errors: kResourceExhausted naming the limit; pages that were allocated until
// then stay.
absl::Status ReservePages(int fd, size_t offset, size_t size_bytes,
                          absl::string_view what);

// The same without a check of the free memory, for memory that is not taken
// from it: hugetlbfs.
absl::Status AllocatePages(int fd, size_t offset, size_t size_bytes,
                           absl::string_view what);

// Writes `contents` to the start of the tmpfs file `fd`, which has that size
// and no pages yet. Faster than to reserve, map and copy: no page is zeroed
// before, and there is no fault for each. Refuses large ones and blocks as
// ReservePages() does.
// Errors: kResourceExhausted naming the limit; kInvalidArgument if `contents`
// cannot be read.
absl::Status WritePages(int fd, std::span<const std::byte> contents,
                        absl::string_view what);

}  // namespace tenon

#endif  // TENON_SHM_PAGES_RESERVE_PAGES_H_

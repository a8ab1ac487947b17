// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ReservePages, WritePages: allocate memory before it is touched.

#ifndef TENON_SHM_PAGES_RESERVE_PAGES_H_
#define TENON_SHM_PAGES_RESERVE_PAGES_H_

#include <cstddef>
#include <span>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tenon {

// Whether RLIMIT_FSIZE of this process permits no file of `size_bytes`. The
// limit is read each time, as it may change at any time.
bool ExceedsFileSizeLimit(size_t size_bytes);

// Checks that a file may grow to `size_bytes`, as `call` is about to make it:
// beyond the limit the kernel sends SIGXFSZ, which kills the process. `what`
// names the file in errors.
// Errors: kResourceExhausted naming the limit if the size exceeds it.
absl::Status CheckFileSizeLimit(size_t size_bytes, absl::string_view call,
                                absl::string_view what);

// Sets the size of the file `fd` without allocating pages; the functions below
// set the size, too. Errors: CheckFileSizeLimit()'s; ftruncate()'s.
absl::Status SetFileSize(int fd, size_t size_bytes, absl::string_view what);

// Allocates the pages of the tmpfs file `fd` from `offset` for `size_bytes`, so
// that no later touch of them can fail; a shorter file grows to the end of the
// range, so check its limit before. Makes progress however often signals
// interrupt it. The range should have no pages yet: for every 16 MiB that this
// process reserves, in one call or several, a call fails at once if its size
// exceeds the free space of the file system or the free memory of the machine,
// because the kernel would kill a process before it refused memory. Blocks
// while the kernel allocates.
// Errors: kResourceExhausted naming the limit; pages allocated by then remain.
absl::Status ReservePages(int fd, size_t offset, size_t size_bytes,
                          absl::string_view what);

// The same without a check of the free memory, for memory outside of it:
// hugetlbfs.
absl::Status AllocatePages(int fd, size_t offset, size_t size_bytes,
                           absl::string_view what);

// Writes `contents` to the start of the tmpfs file `fd`, which has no pages
// yet; a shorter file grows to that size, so check its limit before. Faster
// than to reserve, map and copy: no page is zeroed first, and none faults.
// Rejects large sizes and blocks as ReservePages() does.
// Errors: kResourceExhausted naming the limit; kInvalidArgument if `contents`
// cannot be read.
absl::Status WritePages(int fd, std::span<const std::byte> contents,
                        absl::string_view what);

}  // namespace tenon

#endif  // TENON_SHM_PAGES_RESERVE_PAGES_H_

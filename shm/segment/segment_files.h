// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The files behind segments: how they are created, and opened by name. All
// descriptors are close-on-exec.

#ifndef TENON_SHM_SEGMENT_SEGMENT_FILES_H_
#define TENON_SHM_SEGMENT_SEGMENT_FILES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/segment_options.h"

namespace tenon {

struct FilePlan {
  size_t size_bytes = 0;
  // Empty for zeros, or of size_bytes bytes.
  std::span<const std::byte> contents;
  HugePages huge_pages = HugePages::kNo;
  // Permits SegmentPages::kHugetlb, whose pages peers may remove unless the
  // file is sealed against writers.
  bool allow_hugetlb = false;
  std::optional<int> numa_node;
};

struct SegmentFile {
  UniqueFd fd;
  SegmentPages pages = SegmentPages::kSmall;
  uint64_t device = 0;  // st_dev and st_ino, of a named file.
  uint64_t inode = 0;
};

// Makes a memfd with its pages reserved, not yet sealed. The kernel shows
// `label` in /proc/PID/maps. Not executable by any process where the kernel
// supports that (Linux 6.3). Errors: kResourceExhausted naming the limit;
// BindToNode()'s; under kRequire CollapsePages()'s; kInvalidArgument if the
// contents cannot be read.
absl::StatusOr<SegmentFile> CreateMemfd(const FilePlan& plan,
                                        const std::string& label);

// Makes the file /dev/shm/NAME with its pages reserved, held by its descriptor
// (name_token.h), and removes it again on errors. Once it is held its mode is
// 01200 until it is complete, contents included, then 01600, whatever the
// umask. Never kHugetlb.
// Errors: CreateMemfd()'s, kAlreadyExists, kNotFound if there is no /dev/shm,
// kPermissionDenied; kAborted if another process has reclaimed the name before
// it was held: try another name.
absl::StatusOr<SegmentFile> CreateNamedFile(const FilePlan& plan,
                                            const std::string& name);

// Opens /dev/shm/NAME without following links and without blocking. The caller
// checks its type (segment_checks.h). `what` names it in errors.
// Errors: kNotFound, kPermissionDenied, kResourceExhausted naming the limit;
// kFailedPrecondition if it is a link, a socket or a directory.
absl::StatusOr<UniqueFd> OpenNamedFile(absl::string_view name, bool writable,
                                       absl::string_view what);

}  // namespace tenon

#endif  // TENON_SHM_SEGMENT_SEGMENT_FILES_H_

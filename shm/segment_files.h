// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The files that segments live in: how they are made, and opened by name. All
// descriptors are close-on-exec.

#ifndef TENON_SHM_SEGMENT_FILES_H_
#define TENON_SHM_SEGMENT_FILES_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/unique_fd.h"

namespace tenon {

// Makes a memfd of `size_bytes` with its pages reserved, not yet sealed. The
// kernel shows `label` in /proc/PID/maps. Nobody can execute it where the
// kernel can see to that (Linux 6.3).
// Errors: kResourceExhausted naming the limit.
absl::StatusOr<UniqueFd> CreateMemfd(size_t size_bytes,
                                     const std::string& label);

// Makes the file /dev/shm/NAME of `size_bytes` with its pages reserved, and
// removes it again on errors. Until it is whole its mode is 0400, then 0600,
// whatever the umask.
// Errors: kResourceExhausted naming the limit, kAlreadyExists, kNotFound if
// there is no /dev/shm, kPermissionDenied.
absl::StatusOr<UniqueFd> CreateNamedFile(size_t size_bytes,
                                         const std::string& name);

// Opens /dev/shm/NAME without following links and without waiting. What it is
// remains to be checked (segment_checks.h). `what` names it in errors.
// Errors: kNotFound, kPermissionDenied, kResourceExhausted naming the limit;
// kFailedPrecondition if it is a link, a socket or a directory.
absl::StatusOr<UniqueFd> OpenNamedFile(absl::string_view name, bool writable,
                                       absl::string_view what);

}  // namespace tenon

#endif  // TENON_SHM_SEGMENT_FILES_H_

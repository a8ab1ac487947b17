// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// OpenPrivateShmFile: a file in /dev/shm that another program made, such as
// torch, or a segment that Tenon made for it. Internal to Tenon.

#ifndef TENON_SHM_SEGMENT_PRIVATE_SHM_FILE_H_
#define TENON_SHM_SEGMENT_PRIVATE_SHM_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {

struct PrivateShmFile {
  UniqueFd fd;  // For reading and writing.
  // As of the call.
  uint64_t size_bytes = 0;
  uint64_t allocated_bytes = 0;
};

// `name` is without a slash, and has passed CheckShmName(). Never blocks,
// whatever the type of the file. Read and write the descriptor, and do not map
// it: any process of the user may truncate the file.
// Errors: kNotFound if there is no such file; kPermissionDenied if it is not a
// regular file of this user, with one name, and mode 0600, or 01600 if the name
// is a random one of Tenon (IsMadeShmName()); those of open().
absl::StatusOr<PrivateShmFile> OpenPrivateShmFile(const std::string& name);

}  // namespace tenon

#endif  // TENON_SHM_SEGMENT_PRIVATE_SHM_FILE_H_

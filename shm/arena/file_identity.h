// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// FileIdentity: which kernel object a descriptor refers to. Internal to arenas
// and to the libraries that store their blocks (block_store.h).

#ifndef TENON_SHM_ARENA_FILE_IDENTITY_H_
#define TENON_SHM_ARENA_FILE_IDENTITY_H_

#include <cstdint>

#include "absl/status/statusor.h"

namespace tenon {

// The kernel's identity of a file, unique among existing files.
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;

  // Of memory. Does not block. Errors: fstat()'s.
  static absl::StatusOr<FileIdentity> Of(int fd);

  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

}  // namespace tenon

#endif  // TENON_SHM_ARENA_FILE_IDENTITY_H_

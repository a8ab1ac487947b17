// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The files of torch in /dev/shm (strategy file_system): a count of references
// of 32 bits in the first 64 bytes, then the data of one storage. Each process
// that maps it, and each message in flight, has a reference; the process that
// drops the last one removes the name, and ends if the name is gone by then.

#ifndef TENON_SHM_MANAGER_TORCH_FILE_H_
#define TENON_SHM_MANAGER_TORCH_FILE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "tenon/shm/base/cplusplus_20.h"

namespace tenon {

inline constexpr size_t kTorchHeaderBytes = 64;

// What a process that maps the file may be changing: the word of the user's
// processes.
struct TorchFile {
  int32_t references = 0;  // 0 if it is too short for a header.
  uint64_t allocated_bytes = 0;
};

// The functions take a name without a slash, and never map the file, because
// any process of the user may truncate it. Nothing if there is no such file.
// Errors: kPermissionDenied if it is not a regular file of this user, private,
// and with one name; those of open().
absl::StatusOr<std::optional<TorchFile>> ReadTorchFile(const std::string& name);

// Removes the name of a file whose registered holders have ended. Raises the
// count before, so that no process that maps it without being registered, as a
// forked child does, becomes the one that removes it. Returns the file that it
// was.
absl::StatusOr<std::optional<TorchFile>> RemoveTorchFile(
    const std::string& name);

}  // namespace tenon

#endif  // TENON_SHM_MANAGER_TORCH_FILE_H_

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/memory_limit.h"

#include <errno.h>
#include <sys/statfs.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/available_memory.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/size_text.h"

namespace tenon {

absl::Status CheckMemoryLimit(uint64_t size_bytes, absl::string_view call,
                              absl::string_view what) {
  const AvailableMemory limit = GetMemoryLimit();
  if (size_bytes <= limit.bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(call, ": ", what, " of ", SizeText(size_bytes),
                   " exceeds all memory that this process can have, ",
                   SizeText(limit.bytes), " (", limit.bound_by, ")"));
}

absl::Status CheckShmLimit(uint64_t size_bytes, absl::string_view call,
                           absl::string_view what) {
  struct statfs fs;
  // A tmpfs without a limit reports 0 blocks.
  if (statfs("/dev/shm", &fs) != 0 || fs.f_blocks == 0) return absl::OkStatus();
  const auto unit = static_cast<uint64_t>(fs.f_bsize);
  if (size_bytes <= fs.f_blocks * unit) return absl::OkStatus();
  return PosixError(ENOSPC, call,
                    absl::StrCat(what, " in /dev/shm, ", SizeText(size_bytes)));
}

}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/memory_limit.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/available_memory.h"
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

}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/block_store.h"

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/arena/arena_options.h"
#include "tenon/shm/arena/memory_kind_id.h"

namespace tenon {
namespace {

absl::Status NotSupported(MemoryKindId kind, absl::string_view option) {
  return absl::InvalidArgumentError(
      absl::StrCat("Create(): ArenaOptions::", option,
                   " is not supported by memory of ", NameOf(kind)));
}

}  // namespace

absl::Status BlockStore::CheckOptions(const ArenaOptions& options) const {
  if (options.wipe) return NotSupported(facts_.kind, "wipe");
  if (options.debug != ArenaDebug::kNone) {
    return NotSupported(facts_.kind, "debug");
  }
  return absl::OkStatus();
}

// Not called after CheckOptions().
absl::Status BlockStore::Wipe(std::byte* /*block*/, size_t /*bytes*/) {
  return NotSupported(facts_.kind, "wipe");
}
absl::Status BlockStore::Protect(std::byte* /*block*/, size_t /*bytes*/) {
  return NotSupported(facts_.kind, "debug");
}
absl::Status BlockStore::Unprotect(std::byte* /*block*/, size_t /*bytes*/) {
  return NotSupported(facts_.kind, "debug");
}

}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/memory_kind.h"

#include <array>
#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/arena/memory_kind_id.h"

namespace tenon {
namespace {

using Kinds = std::array<std::atomic<const MemoryKind*>, kMaxMemoryKinds>;

constinit Kinds registered = {};

const char* HowToHaveIt(MemoryKindId kind) {
  switch (kind) {
    case MemoryKindId::kCuda:
      return "link //cuda_ipc:device_pool";
    default:
      return "link the library of this memory, of the same Tenon";
  }
}

}  // namespace

absl::Status RegisterMemoryKind(const MemoryKind& kind) {
  const auto number = static_cast<uint64_t>(kind.id());
  if (kind.id() == MemoryKindId::kCpu || number >= kMaxMemoryKinds) {
    return absl::InvalidArgumentError(
        absl::StrCat("RegisterMemoryKind(): ", NameOf(kind.id()),
                     " cannot be registered; want 1 to ", kMaxMemoryKinds - 1));
  }
  const MemoryKind* none = nullptr;
  if (registered[number].compare_exchange_strong(none, &kind,
                                                 std::memory_order_acq_rel) ||
      none == &kind) {
    return absl::OkStatus();
  }
  return absl::AlreadyExistsError(
      absl::StrCat("RegisterMemoryKind(): ", NameOf(kind.id()),
                   " is registered by another library of this process"));
}

absl::StatusOr<const MemoryKind*> FindMemoryKind(MemoryKindId id,
                                                 absl::string_view arena) {
  const auto number = static_cast<uint64_t>(id);
  if (number < kMaxMemoryKinds) {
    const MemoryKind* kind = registered[number].load(std::memory_order_acquire);
    if (kind != nullptr) return kind;
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the memory of arena '", arena, "' is of ", NameOf(id),
                   ", which this program does not have; ", HowToHaveIt(id)));
}

}  // namespace tenon

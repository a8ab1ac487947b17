// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/queue/queue_handle.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/queue/internal/queue_layout.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon {

absl::Status CheckQueueKind(const QueueKind& kind) {
  if (kind.magic != QueueKind::kMagic) {
    return absl::InvalidArgumentError("what was given as a queue is none");
  }
  if (kind.version != kQueueVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("a queue of layout version ", kind.version,
                     ", and this build of Tenon has version ", kQueueVersion));
  }
  if (kind.valid()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "a queue of ", kind.capacity, " items of ", kind.item_bytes,
      " bytes for each of ", kind.participants,
      " participants cannot be: an item has 1 to ", QueueKind::kMaxItemBytes,
      " bytes, there are 1 to ", QueueKind::kMaxParticipants,
      " participants, and all of it has at most ", QueueKind::kMaxBytes,
      " bytes"));
}

std::string QueueHandleBytes(const QueueKind& kind) {
  return std::string(reinterpret_cast<const char*>(&kind), sizeof(kind));
}

absl::StatusOr<QueueKind> ParseQueueHandle(absl::string_view bytes,
                                           size_t fds) {
  QueueKind kind;
  // Another version may have another size. Magic and version lie first in all.
  constexpr size_t kFirst = sizeof(kind.magic) + sizeof(kind.version);
  if (bytes.size() < kFirst) {
    return absl::InvalidArgumentError(
        absl::StrCat(bytes.size(), " bytes are no handle of a queue"));
  }
  std::memcpy(static_cast<void*>(&kind), bytes.data(),
              bytes.size() < sizeof(kind) ? kFirst : sizeof(kind));
  if (bytes.size() == sizeof(kind) || kind.magic != QueueKind::kMagic ||
      kind.version != kQueueVersion) {
    TENON_RETURN_IF_ERROR(CheckQueueKind(kind));
  }
  if (bytes.size() != sizeof(kind)) {
    return absl::InvalidArgumentError(
        absl::StrCat(bytes.size(), " bytes are no handle of a queue"));
  }
  if (fds != 1 + 2 * kind.participants) {
    return absl::InvalidArgumentError(absl::StrCat(
        fds, " descriptors came with the handle of a queue, which needs ",
        1 + 2 * kind.participants));
  }
  return kind;
}

}  // namespace tenon

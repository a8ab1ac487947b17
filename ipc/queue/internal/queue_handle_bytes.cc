// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/queue/internal/queue_handle_bytes.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/queue/internal/queue_layout.h"
#include "tenon/shm/base/size_text.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon {

absl::Status CheckQueueGeometry(const QueueGeometry& geometry) {
  if (geometry.magic != QueueGeometry::kMagic) {
    return absl::InvalidArgumentError(
        "the handle is not that of a queue: bad magic");
  }
  if (geometry.version != QueueVersion()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the queue has layout version ", geometry.version,
                     "; this build of Tenon has version ", QueueVersion()));
  }
  if (geometry.valid()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "a queue of ", geometry.capacity, " items of ", geometry.item_bytes,
      " bytes for each of ", geometry.participants,
      " participants is out of range: want items of 1 to ",
      SizeText(QueueGeometry::kMaxItemBytes), ", 1 to ",
      QueueGeometry::kMaxParticipants, " participants, and at most ",
      SizeText(QueueGeometry::kMaxBytes), " in total"));
}

std::string QueueHandleBytes(const QueueGeometry& geometry) {
  return std::string(reinterpret_cast<const char*>(&geometry),
                     sizeof(geometry));
}

absl::StatusOr<QueueGeometry> ParseQueueHandle(absl::string_view bytes,
                                               size_t fds) {
  QueueGeometry geometry;
  // Another version may have another size. Magic and version come first in all.
  constexpr size_t kFirst = sizeof(geometry.magic) + sizeof(geometry.version);
  if (bytes.size() < kFirst) {
    return absl::InvalidArgumentError(
        absl::StrCat("the handle of a queue has ", sizeof(geometry),
                     " bytes; got ", bytes.size()));
  }
  std::memcpy(static_cast<void*>(&geometry), bytes.data(),
              bytes.size() < sizeof(geometry) ? kFirst : sizeof(geometry));
  if (bytes.size() == sizeof(geometry) ||
      geometry.magic != QueueGeometry::kMagic ||
      geometry.version != QueueVersion()) {
    TENON_RETURN_IF_ERROR(CheckQueueGeometry(geometry));
  }
  if (bytes.size() != sizeof(geometry)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the handle of a queue has ", sizeof(geometry),
                     " bytes; got ", bytes.size()));
  }
  if (fds != 1 + 2 * geometry.participants) {
    return absl::InvalidArgumentError(
        absl::StrCat("the handle of a queue came with ", fds,
                     " descriptors; want ", 1 + 2 * geometry.participants));
  }
  return geometry;
}

}  // namespace tenon

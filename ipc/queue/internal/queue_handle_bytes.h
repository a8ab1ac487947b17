// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The bytes of a QueueHandle: the geometry of its queue. Internal to Queue
// (queue.h).

#ifndef TENON_IPC_QUEUE_INTERNAL_QUEUE_HANDLE_BYTES_H_
#define TENON_IPC_QUEUE_INTERNAL_QUEUE_HANDLE_BYTES_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/queue/internal/queue_layout.h"

namespace tenon {

// Validates magic, version and sizes.
// Errors: kInvalidArgument; kFailedPrecondition naming both versions.
absl::Status CheckQueueGeometry(const QueueGeometry& geometry);

// Parses and validates the bytes of a handle that has `fds` descriptors.
// Errors: as CheckQueueGeometry().
absl::StatusOr<QueueGeometry> ParseQueueHandle(absl::string_view bytes,
                                               size_t fds);
std::string QueueHandleBytes(const QueueGeometry& geometry);

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_INTERNAL_QUEUE_HANDLE_BYTES_H_

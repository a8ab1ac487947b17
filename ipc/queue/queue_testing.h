// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// For tests of queues: items that identify themselves, and their check.

#ifndef TENON_IPC_QUEUE_QUEUE_TESTING_H_
#define TENON_IPC_QUEUE_QUEUE_TESTING_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/ipc/queue/internal/queue_core.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/shm/base/deadline.h"

namespace tenon {

// The putter and the item's number; all words follow from these.
using TestItem = std::array<uint64_t, 8>;

inline TestItem MakeItem(uint64_t putter, uint64_t number) {
  TestItem item = {putter, number};
  for (size_t i = 2; i < item.size(); ++i) {
    item[i] = (putter * 1000003 + number + 1) * 0x9e3779b97f4a7c15 + i;
  }
  return item;
}

inline bool IsWhole(const TestItem& item) {
  return item == MakeItem(item[0], item[1]);
}

inline std::span<const std::byte> BytesOf(const TestItem& item) {
  return std::as_bytes(std::span(item));
}

inline absl::StatusOr<std::unique_ptr<QueueCore>> OpenItems(
    QueueHandle handle, QueueType type = QueueType::kItems) {
  return QueueCore::Open(std::move(handle), type, sizeof(TestItem));
}

// Receives one item, which must be whole.
inline absl::StatusOr<TestItem> GetItem(QueueCore& queue, Deadline deadline,
                                        QueueClaimer* claimer = nullptr) {
  TestItem item;
  const absl::StatusOr<size_t> got =
      queue.Get(std::as_writable_bytes(std::span(item)), deadline, claimer);
  if (!got.ok()) return got.status();
  if (IsWhole(item)) return item;
  return absl::InternalError(
      absl::StrCat("an item is torn: putter ", item[0], ", number ", item[1]));
}

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_QUEUE_TESTING_H_

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// QueueClaimer: the action of a getter on an item before it takes the item.
// Internal to queues of more than bytes, such as tensors.

#ifndef TENON_IPC_QUEUE_INTERNAL_QUEUE_CLAIMER_H_
#define TENON_IPC_QUEUE_INTERNAL_QUEUE_CLAIMER_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"

namespace tenon {

// An item that is about to be taken, or has been taken.
struct QueueItem {
  std::span<const std::byte> bytes;  // A copy. Less than item_bytes if short.
  size_t slot = 0;                   // The slot of its putter.
  uint64_t position = 0;             // Among all items ever put in that slot.
};

// A getter that is killed between Claim() and the taking has taken nothing, and
// its claims die with it.
class QueueClaimer {
 public:
  virtual ~QueueClaimer() = default;

  // `item` is complete, and still in the queue at this moment. Called in the
  // order of the items, for all items of one call.
  // Errors: kDataLoss if no receiver can use the item: it is removed, and the
  // call returns the error. After any other error the item stays in the queue
  // and the call returns the error. If another getter took the item first, the
  // error is discarded.
  virtual absl::Status Claim(const QueueItem& item) = 0;
  // Undoes a successful Claim(): another getter took the item first.
  virtual void Undo(const QueueItem& item) = 0;
};

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_INTERNAL_QUEUE_CLAIMER_H_

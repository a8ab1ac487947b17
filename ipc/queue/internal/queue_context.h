// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// QueueContext: the part of a queue's participant that its putter, its getter
// and its count of tasks share. Internal to Queue (queue.h).

#ifndef TENON_IPC_QUEUE_INTERNAL_QUEUE_CONTEXT_H_
#define TENON_IPC_QUEUE_INTERNAL_QUEUE_CONTEXT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/queue/internal/queue_members.h"
#include "tenon/ipc/queue/internal/queue_membership.h"
#include "tenon/ipc/queue/internal/queue_memory.h"
#include "tenon/ipc/queue/queue_guests.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/fork_count.h"

namespace tenon {

// Ownership: owns the memory and this participant's slot.
// Threads: the functions are thread-safe; for the members see their classes.
struct QueueContext {
  // `known_name` may be empty.
  QueueContext(QueueMemory queue_memory, const std::string& known_name)
      : memory(std::move(queue_memory)),
        name(known_name.empty() ? "queue" : known_name),
        what(Describe(memory.geometry().id, known_name)) {}

  absl::Status CheckUsable() const { return CheckNotForked(fork_count, what); }
  bool Is(QueueType type) const {
    return memory.geometry().type == static_cast<uint32_t>(type);
  }
  bool closed() const {
    return StdAtomics::Load(memory.words().closed, std::memory_order_seq_cst) !=
           0;
  }

  // Snapshots: the number of queued items of `slot`, and of all slots.
  uint64_t SizeOf(size_t slot) const;
  uint64_t size() const;

  absl::Status LockTimedOut(absl::string_view doing) const;
  absl::Status CorruptWords(size_t slot) const;

  QueueMemory memory;
  QueueMembers members{&memory};
  QueueMembership membership{&memory, &members};
  // Never null.
  const std::shared_ptr<QueueGuests> guests = std::make_shared<QueueGuests>();
  const std::string name;
  const std::string what;  // The queue, in errors.
  const uint64_t fork_count = ForkCount();

 private:
  static std::string Describe(const RandomId& id, const std::string& name);
};

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_INTERNAL_QUEUE_CONTEXT_H_

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// QueryQueues: the queues that processes of this user have open, and the number
// of items in them.
//
//   TENON_ASSIGN_OR_RETURN(const QueueReports reports, QueryQueues());
//   for (const QueueReport& queue : reports.queues) {
//     std::cout << queue.name << ": " << queue.items << " items\n";
//   }
//
// As for the ledger (shm/arena/query/ledger_query.h) there is no registry, and
// the queried processes take no part: queues are found as open files in /proc,
// and read.

#ifndef TENON_IPC_QUEUE_QUEUE_QUERY_H_
#define TENON_IPC_QUEUE_QUEUE_QUERY_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/time_histogram.h"

namespace tenon {

// The items put in one slot of a queue, and the waits, of all of its holders.
// Items of a call that is in progress, or whose process was killed in it, may
// not be counted.
struct QueueSlotReport {
  size_t slot = 0;
  bool present = false;  // The slot has a holder.
  uint64_t put = 0;      // Since the queue was made.
  uint64_t items = 0;    // Not taken yet.
  // QueueStats.
  TimeHistogram get_waits;
  TimeHistogram put_waits;
};

struct QueueReport {
  RandomId id;
  std::string name;  // Written by its creator: any bytes.
  QueueType type = QueueType::kItems;
  size_t item_bytes = 0;
  size_t capacity = 0;  // Of each slot.
  size_t max_participants = 0;
  size_t bytes = 0;  // Of its memory.
  bool closed = false;
  uint64_t items = 0;  // In all slots.
  // The slots that have ever had a holder.
  std::vector<QueueSlotReport> slots;
  // The processes that have it open, ascending; not all need be participants.
  std::vector<pid_t> pids;
};

struct QueueReports {
  std::vector<QueueReport> queues;  // By name, then by id.
  // Processes of this user that could not be inspected.
  std::vector<pid_t> hidden;
};

// Inspects every process once. Never waits for one. A hostile process can show
// as many queues as it has descriptors, of which at most 4096 are reported,
// with arbitrary values for its own queues; malformed ones are left out.
// Errors: kNotFound if there is no /proc; kResourceExhausted at a limit of
// descriptors of this process.
absl::StatusOr<QueueReports> QueryQueues();

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_QUEUE_QUERY_H_

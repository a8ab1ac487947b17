// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// QueryQueues: the queues that processes of this user have open, and how much
// is in them.
//
//   TENON_ASSIGN_OR_RETURN(const QueueReports reports, QueryQueues());
//   for (const QueueReport& queue : reports.queues) {
//     std::cout << queue.name << ": " << queue.items << " items\n";
//   }
//
// As with the ledger (shm/arena/query/ledger_query.h) there is no registry, and
// who is asked does nothing: queues are found as open files in /proc, and read.

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

namespace tenon {

// What was put at one of the places of a queue, by whoever had it.
struct QueuePlaceReport {
  size_t place = 0;
  bool present = false;  // Somebody has it.
  uint64_t put = 0;      // Since the queue was made.
  uint64_t items = 0;    // That nobody has taken yet.
};

struct QueueReport {
  RandomId id;
  std::string name;  // Its maker's word: any bytes.
  QueueType type = QueueType::kItems;
  size_t item_bytes = 0;
  size_t capacity = 0;  // Of each place.
  size_t max_participants = 0;
  size_t bytes = 0;  // Of its memory.
  bool closed = false;
  uint64_t items = 0;  // In all places.
  // Those that have had somebody.
  std::vector<QueuePlaceReport> places;
  // Who has it open, ascending; not all of them need take part.
  std::vector<pid_t> pids;
};

struct QueueReports {
  std::vector<QueueReport> queues;  // By name, then by id.
  // Processes of this user that could not be looked into.
  std::vector<pid_t> hidden;
};

// Looks once at every process. Never waits for one. A hostile process can show
// as many queues as it has descriptors, of which at most 4096 are reported, and
// say of its own what it likes; what makes no sense is left out.
// Errors: kNotFound if there is no /proc; kResourceExhausted at a limit of
// descriptors of this process.
absl::StatusOr<QueueReports> QueryQueues();

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_QUEUE_QUERY_H_

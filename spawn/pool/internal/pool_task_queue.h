// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// PoolTaskQueue: the tasks of a pool that wait for a worker. Not for users.
//
//   queue.PushBack(task);
//   for (auto& cancelled : queue.TakeById(task->id)) ...
//   if (!queue.empty()) Assign(queue.PopFront());
//
// Each task has a position; the queue is ordered by it, and so are two indices,
// by id and by deadline. Removing tasks takes logarithmic time per removed
// task, independent of the others.

#ifndef TENON_SPAWN_POOL_INTERNAL_POOL_TASK_QUEUE_H_
#define TENON_SPAWN_POOL_INTERNAL_POOL_TASK_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "tenon/shm/base/deadline.h"
#include "tenon/spawn/pool/internal/pool_task.h"

namespace tenon::spawn {

// Ownership: shares the tasks. Id and deadline of a task in it do not change.
// Threads: thread-compatible; its owner's mutex guards it.
// Failure: none of its functions fails or blocks.
class PoolTaskQueue {
 public:
  using Task = std::shared_ptr<PoolTask>;

  void PushBack(Task task) { Insert(next_back_++, std::move(task)); }
  // For a task that has been popped and could not be sent.
  void PushFront(Task task) { Insert(next_front_--, std::move(task)); }

  // The task that has waited longest; the queue is not empty.
  Task PopFront() { return Take(tasks_.begin()->first); }

  // All tasks of `id`, which is not 0, in the queue's order.
  std::vector<Task> TakeById(uint64_t id);
  // All tasks whose deadlines have passed, the earliest deadline first.
  std::vector<Task> TakeExpired();
  // All tasks, in the queue's order.
  std::vector<Task> TakeAll();

  size_t size() const { return tasks_.size(); }
  bool empty() const { return tasks_.empty(); }
  // The earliest deadline of all tasks.
  Deadline next_deadline() const;

 private:
  using Position = int64_t;
  struct ByDeadline {
    bool operator()(const std::pair<Deadline, Position>& a,
                    const std::pair<Deadline, Position>& b) const;
  };

  void Insert(Position position, Task task);
  Task Take(Position position);

  std::map<Position, Task> tasks_;
  std::set<std::pair<uint64_t, Position>> by_id_;
  // Tasks that have a deadline.
  std::set<std::pair<Deadline, Position>, ByDeadline> by_deadline_;
  Position next_back_ = 0;
  Position next_front_ = -1;
};

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_POOL_INTERNAL_POOL_TASK_QUEUE_H_

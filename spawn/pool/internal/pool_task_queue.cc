// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/pool/internal/pool_task_queue.h"

#include <bit>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "tenon/shm/base/deadline.h"
#include "tenon/spawn/pool/internal/pool_task.h"

namespace tenon::spawn {
namespace {

// Deadlines are points of the monotonic clock, with no order except Earlier().
int64_t When(Deadline deadline) { return std::bit_cast<int64_t>(deadline); }

}  // namespace

bool PoolTaskQueue::ByDeadline::operator()(
    const std::pair<Deadline, Position>& a,
    const std::pair<Deadline, Position>& b) const {
  return std::pair(When(a.first), a.second) <
         std::pair(When(b.first), b.second);
}

void PoolTaskQueue::Insert(Position position, Task task) {
  // Ids of tasks usually grow, too; then the hints save the search.
  if (task->id != 0) by_id_.emplace_hint(by_id_.end(), task->id, position);
  if (!task->deadline.is_never()) {
    by_deadline_.emplace(task->deadline, position);
  }
  const auto hint = position < 0 ? tasks_.begin() : tasks_.end();
  tasks_.emplace_hint(hint, position, std::move(task));
}

PoolTaskQueue::Task PoolTaskQueue::Take(Position position) {
  Task task = std::move(tasks_.extract(position).mapped());
  by_id_.erase({task->id, position});
  by_deadline_.erase({task->deadline, position});
  return task;
}

std::vector<PoolTaskQueue::Task> PoolTaskQueue::TakeById(uint64_t id) {
  std::vector<Task> taken;
  const std::pair first(id, std::numeric_limits<Position>::min());
  for (auto next = by_id_.lower_bound(first);
       next != by_id_.end() && next->first == id;
       next = by_id_.lower_bound(first)) {
    taken.push_back(Take(next->second));
  }
  return taken;
}

std::vector<PoolTaskQueue::Task> PoolTaskQueue::TakeExpired() {
  std::vector<Task> taken;
  while (next_deadline().has_passed()) {
    taken.push_back(Take(by_deadline_.begin()->second));
  }
  return taken;
}

std::vector<PoolTaskQueue::Task> PoolTaskQueue::TakeAll() {
  std::vector<Task> taken;
  taken.reserve(tasks_.size());
  for (auto& [position, task] : tasks_) taken.push_back(std::move(task));
  tasks_.clear();
  by_id_.clear();
  by_deadline_.clear();
  return taken;
}

Deadline PoolTaskQueue::next_deadline() const {
  return by_deadline_.empty() ? Deadline::Never() : by_deadline_.begin()->first;
}

}  // namespace tenon::spawn

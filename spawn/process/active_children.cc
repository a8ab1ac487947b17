// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/process/active_children.h"

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"

namespace tenon::spawn {
namespace {

struct Listed {
  ActiveChild child;
  int end_fd;
};

struct Registry {
  const uint64_t fork_count = ForkCount();
  std::mutex mutex;
  uint64_t next = 1;
  std::map<uint64_t, Listed> children;
};

// Never destroyed. A fork leaves its parent's instance alone, because it may be
// locked, and creates its own.
Registry& TheRegistry() {
  static std::atomic<Registry*> registry{nullptr};
  Registry* current = registry.load();
  while (current == nullptr || current->fork_count != ForkCount()) {
    auto* const fresh = new Registry;
    if (registry.compare_exchange_strong(current, fresh)) return *fresh;
    delete fresh;
  }
  return *current;
}

bool HasEnded(int end_fd) {
  pollfd fd = {.fd = end_fd, .events = POLLIN, .revents = 0};
  return PollUntil(&fd, 1, Deadline::Passed()).value_or(0) > 0;
}

}  // namespace

std::vector<ActiveChild> ActiveChildren() {
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  std::vector<ActiveChild> alive;
  for (const auto& [number, listed] : registry.children) {
    if (!HasEnded(listed.end_fd)) alive.push_back(listed.child);
  }
  return alive;
}

ActiveChildEntry::ActiveChildEntry(ActiveChild child, int end_fd)
    : fork_count_(ForkCount()) {
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  number_ = registry.next++;
  registry.children.emplace(number_, Listed{std::move(child), end_fd});
}

ActiveChildEntry::~ActiveChildEntry() {
  if (fork_count_ != ForkCount()) return;
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  registry.children.erase(number_);
}

}  // namespace tenon::spawn

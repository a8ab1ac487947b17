// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/process/active_children.h"

#include <poll.h>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/per_process.h"
#include "tenon/shm/base/thread_mutex.h"

namespace tenon::spawn {
namespace {

struct Listed {
  ActiveChild child;
  int end_fd;
};

struct Registry {
  ThreadMutex mutex;
  uint64_t next ABSL_GUARDED_BY(mutex) = 1;
  std::map<uint64_t, Listed> children ABSL_GUARDED_BY(mutex);
};

constinit PerProcess<Registry> registry_of_process;

bool HasEnded(int end_fd) {
  pollfd fd = {.fd = end_fd, .events = POLLIN, .revents = 0};
  return PollUntil({&fd, 1}, Deadline::Passed()).value_or(0) > 0;
}

}  // namespace

std::vector<ActiveChild> ActiveChildren() {
  Registry& registry = registry_of_process.Get();
  const ThreadLock lock(&registry.mutex);
  std::vector<ActiveChild> alive;
  for (const auto& [number, listed] : registry.children) {
    if (!HasEnded(listed.end_fd)) alive.push_back(listed.child);
  }
  return alive;
}

ActiveChildEntry::ActiveChildEntry(ActiveChild child, int end_fd)
    : fork_count_(ForkCount()) {
  Registry& registry = registry_of_process.Get();
  const ThreadLock lock(&registry.mutex);
  number_ = registry.next++;
  registry.children.emplace(number_, Listed{std::move(child), end_fd});
}

ActiveChildEntry::~ActiveChildEntry() {
  if (fork_count_ != ForkCount()) return;
  Registry& registry = registry_of_process.Get();
  const ThreadLock lock(&registry.mutex);
  registry.children.erase(number_);
}

}  // namespace tenon::spawn

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/child/current_process.h"

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "tenon/shm/base/fork_count.h"
#include "tenon/spawn/child/parent.h"
#include "tenon/spawn/child/role.h"

namespace tenon::spawn {
namespace {

struct Self {
  std::string entry;
  int index;
  uint64_t fork_count;
};

// Never destroyed; a child by fork ignores its parent's instance.
std::atomic<const Self*> self{nullptr};

}  // namespace

std::optional<CurrentProcess> CurrentProcess::Get() {
  const Self* const found = self.load();
  if (found == nullptr || found->fork_count != ForkCount()) {
    return std::nullopt;
  }
  const std::optional<Parent> parent = Parent::Get();
  return CurrentProcess{.entry = found->entry,
                        .index = found->index,
                        .parent_pid = parent ? parent->pid() : -1};
}

void SetCurrentProcess(const std::string& entry, int index) {
  self = new Self{entry, index, ForkCount()};
  const std::optional<Parent> parent = Parent::Get();
  ShowRole({.entry = entry,
            .index = index,
            .parent_pid = parent ? parent->pid() : -1});
}

}  // namespace tenon::spawn

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// PerProcess: an object of which each process has one, a forked child too.
//
//   struct Registry {
//     ThreadMutex mutex;
//     std::vector<Entry> entries ABSL_GUARDED_BY(mutex);
//   };
//   constinit PerProcess<Registry> registry;
//
//   Registry& mine = registry.Get();
//
// A fork leaves the object of its parent alone: another thread may have locked
// it, and the descriptors in it may mean something else here.

#ifndef TENON_SHM_BASE_PER_PROCESS_H_
#define TENON_SHM_BASE_PER_PROCESS_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "tenon/shm/base/fork_count.h"

namespace tenon {

// Ownership: never destroys an object, so that it can be used after main().
// Threads: thread-safe; the objects are not. If several threads are the first,
//   all but one of the objects that they make are destroyed at once.
template <typename T>
class PerProcess {
 public:
  constexpr PerProcess() = default;
  PerProcess(const PerProcess&) = delete;
  PerProcess& operator=(const PerProcess&) = delete;

  // That of this process, made by the first call.
  T& Get() {
    Made* there = current_.load(std::memory_order_acquire);
    while (!IsOfThisProcess(there)) {
      auto made = std::make_unique<Made>();
      if (current_.compare_exchange_strong(there, made.get(),
                                           std::memory_order_acq_rel)) {
        there = made.release();
      }
    }
    return there->object;
  }

  // The same; null if there has been no call of Get() in this process.
  T* GetIfAny() {
    Made* const there = current_.load(std::memory_order_acquire);
    return IsOfThisProcess(there) ? &there->object : nullptr;
  }

 private:
  struct Made {
    const uint64_t fork_count = ForkCount();
    T object;
  };

  static bool IsOfThisProcess(const Made* made) {
    return made != nullptr && made->fork_count == ForkCount();
  }

  std::atomic<Made*> current_ = nullptr;
};

}  // namespace tenon

#endif  // TENON_SHM_BASE_PER_PROCESS_H_

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// What an arena calls when it has no free block at hand: somebody in this
// process may keep blocks for others until these have claimed them, and find
// out only by looking that they have. For Tenon alone.

#ifndef TENON_SHM_ARENA_SHORTAGE_HOOK_H_
#define TENON_SHM_ARENA_SHORTAGE_HOOK_H_

#include <atomic>

namespace tenon {

// Lets go of what it can, without waiting for anybody. Called by any thread
// that allocates or trims, with no lock of an arena held; must not allocate.
using ShortageHook = void (*)();

namespace internal_shortage_hook {
inline constinit std::atomic<ShortageHook> hook{nullptr};
}  // namespace internal_shortage_hook

// There is one for the process, which stays; a forked child has it, too.
inline void SetShortageHook(ShortageHook hook) {
  internal_shortage_hook::hook.store(hook, std::memory_order_release);
}

inline void CallShortageHook() {
  const ShortageHook hook =
      internal_shortage_hook::hook.load(std::memory_order_acquire);
  if (hook != nullptr) [[unlikely]]
    hook();
}

}  // namespace tenon

#endif  // TENON_SHM_ARENA_SHORTAGE_HOOK_H_

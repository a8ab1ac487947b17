// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The reclaim hook, which an arena calls when it has no free block at hand:
// senders of this process may still retain sent blocks that receivers have
// claimed since, and find that out only by polling. Internal to Tenon.

#ifndef TENON_SHM_ARENA_RECLAIM_HOOK_H_
#define TENON_SHM_ARENA_RECLAIM_HOOK_H_

#include <atomic>

namespace tenon {

// Releases sent blocks that receivers have claimed; never blocks. Called by any
// thread that allocates or trims, with no lock of an arena held; must not
// allocate in an arena, which would call it again.
using ReclaimHook = void (*)();

namespace internal_reclaim_hook {
inline constinit std::atomic<ReclaimHook> hook{nullptr};
}  // namespace internal_reclaim_hook

// One hook for the process, never removed; inherited by forked children.
inline void SetReclaimHook(ReclaimHook hook) {
  internal_reclaim_hook::hook.store(hook, std::memory_order_release);
}

inline void CallReclaimHook() {
  const ReclaimHook hook =
      internal_reclaim_hook::hook.load(std::memory_order_acquire);
  if (hook != nullptr) [[unlikely]]
    hook();
}

}  // namespace tenon

#endif  // TENON_SHM_ARENA_RECLAIM_HOOK_H_

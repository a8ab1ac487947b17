// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Objects that are handed out by a std::shared_ptr again and again, without an
// allocation, and without a count of uses in what they refer to. Internal to
// arenas.
//
//   class Thing : public KeptObject {
//    public:
//     bool IsInUse() override { return control_.IsInUse(); }
//     std::shared_ptr<Thing> HandOut() {
//       return control_.Make(this, [](Thing* thing) { thing->Reset(); });
//     }
//    private:
//     ControlBlock control_;
//   };

#ifndef TENON_SHM_ARENA_INTERNAL_KEPT_OBJECT_H_
#define TENON_SHM_ARENA_INTERNAL_KEPT_OBJECT_H_

#include <atomic>
#include <cstddef>
#include <memory>

#include "tenon/shm/base/system_fence.h"

namespace tenon {

// Ownership: its owner destroys it when it is not in use, or abandons it.
// Threads: uses end in any thread. That thread looks at one word of the
//   process afterwards, and the thread that abandons an object fences it.
// Processes: in a forked child the objects that its parent has abandoned are
//   never destroyed.
class KeptObject {
 public:
  KeptObject() = default;
  KeptObject(const KeptObject&) = delete;
  KeptObject& operator=(const KeptObject&) = delete;
  virtual ~KeptObject() = default;

  // A thread that ends a use has no access to the object after it makes this
  // false (memory order: release, and acquire here).
  virtual bool IsInUse() = 0;

  // Destroys the object once it is not in use: now, or in the thread that ends
  // the last use. No further use begins.
  static void Abandon(std::unique_ptr<KeptObject> object);

  // Call it after each end of a use. `fenced` is what JoinSystemFence() has
  // returned: whether a thread that abandons an object fences this one.
  static void AfterUse(bool fenced) {
    // So that either this thread sees the count, or the thread that abandons
    // sees the object unused.
    if (fenced) [[likely]] {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
    if (abandoned_.load(std::memory_order_relaxed) != 0) [[unlikely]] {
      DestroyUnused();
    }
  }

 private:
  struct Abandoned;

  static Abandoned& OfThisProcess();
  static void DestroyUnused();

  // How many objects are abandoned and in use.
  static std::atomic<size_t> abandoned_;
};

// Room for the control block of one std::shared_ptr and its copies, and whether
// it is in use. It is until the last std::weak_ptr is gone.
// Threads: one at a time calls Make(); references are dropped in any thread.
class ControlBlock {
 public:
  ControlBlock() = default;
  ControlBlock(const ControlBlock&) = delete;
  ControlBlock& operator=(const ControlBlock&) = delete;

  bool IsInUse() const { return used_.load(std::memory_order_acquire); }
  // See KeptObject::AfterUse().
  bool fenced() const { return fenced_; }

  // Requires that it is not in use. `end(object)` is called with the last copy;
  // the room is in use until after that.
  template <typename T, typename End>
  [[gnu::always_inline]] std::shared_ptr<T> Make(T* object, End end) {
    used_.store(true, std::memory_order_relaxed);
    return std::shared_ptr<T>(object, end, InPlace<char>(this));
  }

 private:
  // For the counts, a virtual table, pointer, deleter and allocator.
  static constexpr size_t kBytes = 48;

  template <typename T>
  struct InPlace {
    using value_type = T;

    explicit InPlace(ControlBlock* of) : control(of) {}
    template <typename Other>
    explicit InPlace(const InPlace<Other>& other) : control(other.control) {}

    T* allocate(size_t) {
      static_assert(sizeof(T) <= kBytes);
      static_assert(alignof(T) <= alignof(void*));
      return reinterpret_cast<T*>(control->bytes_);
    }
    void deallocate(T*, size_t) {
      const bool fenced = control->fenced_;
      // The last access: then the object may be destroyed.
      control->used_.store(false, std::memory_order_release);
      KeptObject::AfterUse(fenced);
    }

    ControlBlock* control;
  };

  alignas(void*) std::byte bytes_[kBytes];
  std::atomic<bool> used_ = false;
  const bool fenced_ = JoinSystemFence();
};

}  // namespace tenon

#endif  // TENON_SHM_ARENA_INTERNAL_KEPT_OBJECT_H_

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SharedObject<T>: a T in memory that forked processes share.
//
//   SharedObject<std::atomic<int>> count;
//   if (fork() == 0) { ++*count; _exit(0); }

#ifndef TENON_SHM_TESTING_SHARED_OBJECT_H_
#define TENON_SHM_TESTING_SHARED_OBJECT_H_

#include <sys/mman.h>

#include <memory>
#include <new>
#include <type_traits>

#include "tenon/shm/base/check.h"

namespace tenon {

// Ownership: owns an anonymous shared mapping; each process forked during its
//   lifetime keeps its own mapping. Threads and processes: as T allows; the
//   object is the same in all of them.
// Failure: construction aborts if there is no memory.
template <typename T>
class SharedObject {
 public:
  static_assert(std::is_trivially_destructible_v<T>,
                "nobody knows which process would be the last");

  SharedObject() {
    void* memory = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    TENON_CHECK(memory != MAP_FAILED, "no memory for a SharedObject");
    object_.reset(new (memory) T);
  }

  T& operator*() const { return *object_; }
  T* operator->() const { return object_.get(); }
  T* get() const { return object_.get(); }

  // Constructs a new T in place.
  void Reset() { new (static_cast<void*>(object_.get())) T; }

 private:
  struct Unmap {
    void operator()(T* object) const { munmap(object, sizeof(T)); }
  };
  std::unique_ptr<T, Unmap> object_;
};

}  // namespace tenon

#endif  // TENON_SHM_TESTING_SHARED_OBJECT_H_

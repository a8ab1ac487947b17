// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// CopiesInFlight: the memory of enqueued copies, until a stream has executed
// them. Internal to ToDevice.

#ifndef TENON_LOADER_TO_DEVICE_COPIES_IN_FLIGHT_H_
#define TENON_LOADER_TO_DEVICE_COPIES_IN_FLIGHT_H_

#include <cstddef>
#include <list>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/tensor/storage.h"

namespace tenon::loader {

// Ownership: each copy holds a shared_ptr to it, so it outlives the
//   DeviceCopier while copies are in flight. Holds the memory of each copy.
// Threads: thread-safe. Land() is a host function of a stream: it calls no
//   driver.
class CopiesInFlight : public std::enable_shared_from_this<CopiesInFlight> {
 public:
  // The memory of a copy, which must not be reused before the copy has ended.
  struct Copy {
    std::shared_ptr<Storage> from;
    std::shared_ptr<Storage> to;
  };

  static std::shared_ptr<CopiesInFlight> Create();
  CopiesInFlight(const CopiesInFlight&) = delete;
  CopiesInFlight& operator=(const CopiesInFlight&) = delete;

  // Adds a copy, and returns the argument of its Land(), which must be called
  // once. Errors: that of DropAll(), after it.
  absl::StatusOr<void*> Begin(Copy copy);
  // Removes a copy that has ended.
  static void Land(void* begun);

  // Drops the memory of all copies, whose context is lost and executes no work
  // any more. Later calls of Land() have no effect, and those of Begin() fail
  // with `why`.
  void DropAll(const absl::Status& why);

  // Whether fewer than `copies` are in flight. Blocks until they are, until
  // `deadline`, or until EndWaits().
  bool WaitForFewerThan(size_t copies, Deadline deadline);
  // Ends all waits, also later ones.
  void EndWaits();

 private:
  struct Begun {
    std::shared_ptr<CopiesInFlight> owner;
    Copy copy;
    bool is_lost = false;  // By DropAll(). With the owner's lock.
    std::list<std::unique_ptr<Begun>>::iterator here;
  };
  using List = std::list<std::unique_ptr<Begun>>;

  CopiesInFlight() = default;

  ThreadMutex mutex_;
  ThreadCondition changed_;
  bool waits_have_ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status lost_because_ ABSL_GUARDED_BY(mutex_);
  List begun_ ABSL_GUARDED_BY(mutex_);
  List lost_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_TO_DEVICE_COPIES_IN_FLIGHT_H_

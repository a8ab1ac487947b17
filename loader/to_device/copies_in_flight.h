// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// CopiesInFlight: what enqueued copies read and write, until a stream has
// executed them. Internal to ToDevice.

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

// Ownership: held by shared_ptr, which each copy has: it outlives what makes
//   the copies if the stream is slower.
// Threads: thread-safe. Land() is a host function of a stream: it calls no
//   driver.
class CopiesInFlight : public std::enable_shared_from_this<CopiesInFlight> {
 public:
  // The memory of a copy, which must not be reused before.
  struct Copy {
    std::shared_ptr<Storage> from;
    std::shared_ptr<Storage> to;
  };

  static std::shared_ptr<CopiesInFlight> Create();
  CopiesInFlight(const CopiesInFlight&) = delete;
  CopiesInFlight& operator=(const CopiesInFlight&) = delete;

  // The argument of Land() for this copy. Call Land() for each, once.
  // Errors: that of DropAll(), after it.
  absl::StatusOr<void*> Begin(Copy copy);
  static void Land(void* begun);

  // Drops the memory of all copies of a context that is lost, as `why` says: it
  // executes nothing any more. A Land() that is called yet has no effect, and
  // no copy begins.
  void DropAll(const absl::Status& why);

  // Whether fewer than `copies` are in flight; waits for it until `deadline`,
  // or EndWaits().
  bool WaitForFewerThan(size_t copies, Deadline deadline);
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

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/to_device/copies_in_flight.h"

#include <cstddef>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/thread_mutex.h"

namespace tenon::loader {
namespace {

// Those of lost contexts: a host function may still have their address.
struct Lost {
  ThreadMutex mutex;
  std::vector<std::shared_ptr<CopiesInFlight>> copies ABSL_GUARDED_BY(mutex);
};

Lost& LostOfProcess() {
  static Lost& lost = *new Lost;
  return lost;
}

}  // namespace

std::shared_ptr<CopiesInFlight> CopiesInFlight::Create() {
  return std::shared_ptr<CopiesInFlight>(new CopiesInFlight());
}

absl::StatusOr<void*> CopiesInFlight::Begin(Copy copy) {
  auto begun = std::make_unique<Begun>();
  begun->owner = shared_from_this();
  begun->copy = std::move(copy);
  const ThreadLock lock(&mutex_);
  TENON_RETURN_IF_ERROR(lost_because_);
  begun_.push_back(std::move(begun));
  Begun* const added = begun_.back().get();
  added->here = std::prev(begun_.end());
  return added;
}

void CopiesInFlight::Land(void* begun) {
  Begun& copy = *static_cast<Begun*>(begun);
  const std::shared_ptr<CopiesInFlight> owner = copy.owner;
  const ThreadLock lock(&owner->mutex_);
  if (copy.is_lost) return;
  owner->begun_.erase(copy.here);
  owner->changed_.NotifyAll();
}

void CopiesInFlight::DropAll(const absl::Status& why) {
  {
    Lost& lost = LostOfProcess();
    const ThreadLock lock(&lost.mutex);
    lost.copies.push_back(shared_from_this());
  }
  const ThreadLock lock(&mutex_);
  lost_because_.Update(why);
  for (const std::unique_ptr<Begun>& begun : begun_) {
    begun->copy = {};
    begun->is_lost = true;
  }
  lost_.splice(lost_.end(), begun_);
  changed_.NotifyAll();
}

bool CopiesInFlight::WaitForFewerThan(size_t copies, Deadline deadline) {
  const ThreadLock lock(&mutex_);
  while (begun_.size() >= copies) {
    if (waits_have_ended_ || deadline.has_passed()) return false;
    changed_.WaitFor(&mutex_, deadline.Remaining());
  }
  return true;
}

void CopiesInFlight::EndWaits() {
  const ThreadLock lock(&mutex_);
  waits_have_ended_ = true;
  changed_.NotifyAll();
}

}  // namespace tenon::loader

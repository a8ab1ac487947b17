// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/futures/cancel_request.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace tenon::futures::internal_future {

CancelCallback* CancelRequest::ListOf(uintptr_t word) {
  CancelCallback* oldest = nullptr;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): pointer and bit, one word.
  auto* callback = reinterpret_cast<CancelCallback*>(word & ~kRequested);
  while (callback != nullptr) {
    CancelCallback* const older = std::exchange(callback->next_, oldest);
    oldest = callback;
    callback = older;
  }
  return oldest;
}

bool CancelRequest::MarkAndRunCallbacks() {
  const uintptr_t word = word_.exchange(kRequested, std::memory_order_acq_rel);
  CancelCallback* oldest = ListOf(word);
  while (oldest != nullptr) {
    const std::unique_ptr<CancelCallback> callback(oldest);
    oldest = callback->next_;
    callback->Run();
  }
  return (word & kRequested) == 0;
}

void CancelRequest::RequestCancel(std::shared_ptr<CancelRequest> at) {
  // A request made by a callback waits here for its turn, so that collections
  // of collections do not deepen the stack.
  using Requests = std::vector<std::shared_ptr<CancelRequest>>;
  static constinit thread_local Requests* waiting = nullptr;
  if (waiting != nullptr) return waiting->push_back(std::move(at));
  Requests requests;
  waiting = &requests;
  requests.push_back(std::move(at));
  while (!requests.empty()) {
    at = std::move(requests.back());
    requests.pop_back();
    while (at != nullptr && at->MarkAndRunCallbacks()) at = at->Target();
  }
  waiting = nullptr;
}

std::shared_ptr<CancelRequest> CancelRequest::Target() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return target_.lock();
}

void CancelRequest::AddCancelCallback(
    std::unique_ptr<CancelCallback> callback) {
  uintptr_t word = word_.load(std::memory_order_acquire);
  do {
    if ((word & kRequested) != 0) return callback->Run();
    // NOLINTNEXTLINE(performance-no-int-to-ptr): as above, without the bit.
    callback->next_ = reinterpret_cast<CancelCallback*>(word);
  } while (!word_.compare_exchange_weak(
      word, reinterpret_cast<uintptr_t>(callback.get()),
      std::memory_order_release, std::memory_order_acquire));
  static_cast<void>(callback.release());  // The word's now.
}

void CancelRequest::PassCancelOnTo(
    const std::shared_ptr<CancelRequest>& target) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    target_ = target;
  }
  if (IsCancelRequested()) RequestCancel(target);
}

void CancelRequest::DropKeptCallbacks() {
  const uintptr_t word = word_.fetch_and(kRequested, std::memory_order_acq_rel);
  CancelCallback* oldest = ListOf(word);
  while (oldest != nullptr) {
    const std::unique_ptr<CancelCallback> callback(oldest);
    oldest = callback->next_;
  }
}

}  // namespace tenon::futures::internal_future

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/futures/internal/cancel_request.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace tenon::futures::internal_future {

CancelCallback* CancelRequest::ListOf(uintptr_t word) {
  CancelCallback* oldest = nullptr;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): pointer and bit, one word.
  auto* callback = reinterpret_cast<CancelCallback*>(word & ~kBits);
  while (callback != nullptr) {
    CancelCallback* const older = std::exchange(callback->next_, oldest);
    oldest = callback;
    callback = older;
  }
  return oldest;
}

bool CancelRequest::MarkAndRunCallbacks() {
  uintptr_t word = word_.load(std::memory_order_relaxed);
  while (!word_.compare_exchange_weak(word, kRequested | (word & kLinkTaken),
                                      std::memory_order_acq_rel,
                                      std::memory_order_relaxed)) {
  }
  CancelCallback* oldest = ListOf(word);
  while (oldest != nullptr) {
    const std::unique_ptr<CancelCallback> callback(oldest);
    oldest = callback->next_;
    callback->Run();
  }
  return (word & kRequested) == 0;
}

void CancelRequest::RequestCancel(std::shared_ptr<CancelRequest> at) {
  // A request made by a callback is queued here, so that nested collections do
  // not deepen the stack.
  using Requests = std::vector<std::shared_ptr<CancelRequest>>;
  static constinit thread_local Requests* waiting = nullptr;
  if (waiting != nullptr) return waiting->push_back(std::move(at));
  Requests requests;
  waiting = &requests;
  requests.push_back(std::move(at));
  while (!requests.empty()) {
    at = std::move(requests.back());
    requests.pop_back();
    while (at != nullptr && at->MarkAndRunCallbacks()) at = at->TakeLink();
  }
  waiting = nullptr;
}

void CancelRequest::AddCancelCallback(
    std::unique_ptr<CancelCallback> callback) {
  uintptr_t word = word_.load(std::memory_order_acquire);
  do {
    if ((word & kRequested) != 0) return callback->Run();
    // NOLINTNEXTLINE(performance-no-int-to-ptr): as above.
    callback->next_ = reinterpret_cast<CancelCallback*>(word & ~kBits);
  } while (!word_.compare_exchange_weak(
      word, reinterpret_cast<uintptr_t>(callback.get()) | (word & kLinkTaken),
      std::memory_order_seq_cst, std::memory_order_acquire));
  static_cast<void>(callback.release());  // Owned by the word now.
}

void CancelRequest::PassCancelOnTo(std::shared_ptr<CancelRequest> target) {
  const std::shared_ptr<CancelRequest> before = TakeLink();
  // If a requester has the link, it has set the mark before.
  if (IsCancelRequested()) return RequestCancel(std::move(target));
  link_ = std::move(target);
  const uintptr_t word =
      word_.fetch_and(~kLinkTaken, std::memory_order_acq_rel);
  if ((word & kRequested) != 0) RequestCancel(TakeLink());
}

void CancelRequest::DropKeptCallbacks() {
  const uintptr_t word = word_.fetch_and(kBits, std::memory_order_acq_rel);
  CancelCallback* oldest = ListOf(word);
  // A callback may hold a promise, whose destruction drops further callbacks.
  // These wait for the loop that runs on this thread, and do not deepen the
  // stack.
  static constinit thread_local CancelCallback** waiting = nullptr;
  while (waiting != nullptr && oldest != nullptr) {
    CancelCallback* const next = oldest->next_;
    oldest->next_ = std::exchange(*waiting, oldest);
    oldest = next;
  }
  if (oldest == nullptr) return;
  waiting = &oldest;
  while (oldest != nullptr) {
    const std::unique_ptr<CancelCallback> callback(oldest);
    oldest = callback->next_;
  }
  waiting = nullptr;
}

}  // namespace tenon::futures::internal_future

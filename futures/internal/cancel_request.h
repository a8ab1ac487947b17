// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The cancel request, which travels from a future to the owner of its promise.
// Internal to future.h.
//
// One atomic word holds the list of cancel callbacks, a bit for "requested",
// and a bit for "link taken". The link is the state to which a request is
// forwarded.
// - A callback that is added after the request runs at once, in the thread that
//   adds it; so each callback runs at most once.
// - The link is not atomic. Only the thread that sets kLinkTaken may access it:
//   either a requester, which keeps it, or the completing thread, which may
//   store another link and clear the bit. The request is marked before the link
//   is tried, and a thread that stores a link reads the mark afterwards, so one
//   of the two forwards the request.
// - The link is a strong reference, and forms a cycle with the callback that
//   completes this state. That callback always runs, and removes the link.

#ifndef TENON_FUTURES_INTERNAL_CANCEL_REQUEST_H_
#define TENON_FUTURES_INTERNAL_CANCEL_REQUEST_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "tenon/futures/callback_failure.h"

namespace tenon::futures::internal_future {

// Aligned so that the word has room for bits.
class alignas(8) CancelCallback {
 public:
  virtual ~CancelCallback() = default;
  virtual void Run() noexcept = 0;

 private:
  friend class CancelRequest;
  CancelCallback* next_ = nullptr;
};

template <typename F>
class CancelCallbackOf final : public CancelCallback {
 public:
  explicit CancelCallbackOf(F fn) : fn_(std::move(fn)) {}

  void Run() noexcept override {
    absl::Status error;
    const absl::Status caught = CatchExceptions([&] {
      if constexpr (std::is_void_v<std::invoke_result_t<F>>) {
        std::invoke(std::move(fn_));
      } else {
        error = std::invoke(std::move(fn_));
      }
    });
    error.Update(caught);
    if (!error.ok()) ReportCallbackFailure(error);
  }

 private:
  F fn_;
};

class CancelRequest {
 public:
  CancelRequest() = default;
  CancelRequest(const CancelRequest&) = delete;
  CancelRequest& operator=(const CancelRequest&) = delete;
  ~CancelRequest() { DropCancelCallbacks(); }

  bool IsCancelRequested() const {
    return (word_.load(std::memory_order_acquire) & kRequested) != 0;
  }

  // Runs the callbacks of `at`, of the state it is linked to, and so on, in a
  // loop. Stops at a state that has been requested before. Inside a callback of
  // another request it only queues the request, which that request's thread
  // then handles.
  static void RequestCancel(std::shared_ptr<CancelRequest> at);

  // Stores `callback` for a request, or runs it here if there has been one.
  void AddCancelCallback(std::unique_ptr<CancelCallback> callback);

  // Links this to `target` before this is visible to other threads.
  void StartPassingCancelOnTo(std::shared_ptr<CancelRequest> target) {
    link_ = std::move(target);
  }

  // Called by the completing thread: stops forwarding requests. Returns the
  // link, or null.
  std::shared_ptr<CancelRequest> StopPassingCancelOn() { return TakeLink(); }

  // Called by the completing thread: forwards to `target` from now on, and at
  // once if there has been a request.
  void PassCancelOnTo(std::shared_ptr<CancelRequest> target);

  // Destroys the callbacks that have not run. When called by the destructor of
  // one of them, leaves that to the outermost call on this thread.
  void DropCancelCallbacks() {
    if ((word_.load(std::memory_order_seq_cst) & ~kBits) != 0) {
      DropKeptCallbacks();
    }
  }

 private:
  static constexpr uintptr_t kRequested = 1;
  static constexpr uintptr_t kLinkTaken = 2;
  static constexpr uintptr_t kBits = kRequested | kLinkTaken;

  // The callbacks of `word`, the oldest first.
  static CancelCallback* ListOf(uintptr_t word);
  // False if there has been a request before.
  bool MarkAndRunCallbacks();
  void DropKeptCallbacks();
  std::shared_ptr<CancelRequest> TakeLink() {
    if ((word_.fetch_or(kLinkTaken, std::memory_order_acq_rel) & kLinkTaken) !=
        0) {
      return nullptr;
    }
    return std::move(link_);
  }

  std::atomic<uintptr_t> word_{0};
  std::shared_ptr<CancelRequest> link_;
};

}  // namespace tenon::futures::internal_future

#endif  // TENON_FUTURES_INTERNAL_CANCEL_REQUEST_H_

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The request to give up that travels from a future to who holds its promise:
// detail of future.h, for nobody else.
//
// One atomic word holds the callbacks that wait for a request, and whether
// there has been one: who adds a callback afterwards runs it, so that each runs
// at most once. The mutex guards where to pass a request on to. Setting that
// and requesting may cross: each first does its own step and then looks for the
// other's, with a pass through the mutex between, so that one of them sees it.

#ifndef TENON_FUTURES_CANCEL_REQUEST_H_
#define TENON_FUTURES_CANCEL_REQUEST_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "tenon/futures/callback_failure.h"

namespace tenon::futures::internal_future {

// Aligned so that the word has room for a bit.
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
    const absl::Status caught = CatchExceptions([this, &error] {
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

  // Runs the callbacks of `at`, of what it passes requests on to, and so forth;
  // it is a loop. Stops where there has been a request. Inside a callback of
  // another request it only makes a note, and that one's thread does it then.
  static void RequestCancel(std::shared_ptr<CancelRequest> at);

  // Keeps `callback` for a request, or runs it here if there has been one.
  void AddCancelCallback(std::unique_ptr<CancelCallback> callback);

  // From now on, and if there has been a request. Replaces what there was.
  void PassCancelOnTo(const std::shared_ptr<CancelRequest>& target);

  // The same while nobody else can see this.
  void StartPassingCancelOnTo(const std::shared_ptr<CancelRequest>& target) {
    target_ = target;
  }

  // What has not run will not.
  void DropCancelCallbacks() {
    if ((word_.load(std::memory_order_relaxed) & ~kRequested) != 0) {
      DropKeptCallbacks();
    }
  }

 protected:
  // Also a state's for sleeping and waking: neither holds it for long, nor
  // calls anything meanwhile.
  std::mutex mutex_;

 private:
  static constexpr uintptr_t kRequested = 1;

  // The callbacks of `word`, the oldest first.
  static CancelCallback* ListOf(uintptr_t word);
  // False if there has been a request before.
  bool MarkAndRunCallbacks();
  std::shared_ptr<CancelRequest> Target();
  void DropKeptCallbacks();

  std::atomic<uintptr_t> word_{0};
  // Weak: what passes requests on to another is kept by it, to be completed.
  std::weak_ptr<CancelRequest> target_;
};

}  // namespace tenon::futures::internal_future

#endif  // TENON_FUTURES_CANCEL_REQUEST_H_

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Reports errors of callbacks that no future carries: of a callback given to
// AddDoneCallback or OnCancelRequest, and of a plain task given to an executor.
// The error is counted, and a handler is called.
//
//   SetCallbackFailureHandler(+[](const absl::Status& error) noexcept {
//     std::cerr << error << "\n";
//   });
//
// Without its own handler a process writes one line to its stderr, with
// write(2), so that no library and no buffer is in between:
//   tenon: a callback failed, and no future carries its error: UNKNOWN: ...
//
// Ownership: a function, not an object, so it never dangles.
// Threads: thread-safe. The handler is called by the thread that ran the
//   callback, possibly concurrently, and without locks.
// Processes: each has its own; a forked child starts with its parent's.
// Failure: a handler cannot fail: its type is noexcept.

#ifndef TENON_FUTURES_CALLBACK_FAILURE_H_
#define TENON_FUTURES_CALLBACK_FAILURE_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "tenon/shm/base/cplusplus_20.h"

namespace tenon::futures {

using CallbackFailureHandler = void (*)(const absl::Status& error) noexcept;

// Replaces the handler by `handler` and returns the previous one; nullptr
// stands for the line on stderr.
CallbackFailureHandler SetCallbackFailureHandler(
    CallbackFailureHandler handler);

// Number of failures; also incremented if stderr is closed.
uint64_t CallbackFailureCount();

namespace internal_future {

// Counts `error` and calls the handler.
void ReportCallbackFailure(const absl::Status& error) noexcept;

// Runs `body`; an exception becomes kUnknown with its text.
absl::Status CatchExceptions(absl::FunctionRef<void()> body);

}  // namespace internal_future
}  // namespace tenon::futures

#endif  // TENON_FUTURES_CALLBACK_FAILURE_H_

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Where the error of a callback goes that no future carries: of one given to
// AddDoneCallback or OnCancelRequest, and of a task given to an executor as it
// is. It is counted, and a handler is called.
//
//   SetCallbackFailureHandler(+[](const absl::Status& error) noexcept {
//     std::cerr << error << "\n";
//   });
//
// Without a handler of its own a process writes one line to its stderr, with
// write(2), so that no library and no buffer stands between:
//   tenon: a callback failed, and no future carries its error: UNKNOWN: ...
//
// Ownership: a function, not an object, so that it can never be gone.
// Threads: thread-safe. The handler is called by whichever thread ran the
//   callback, by several at once, and without locks.
// Processes: each has its own; a forked child starts with its parent's.
// Failure: a handler cannot fail, which its type says.

#ifndef TENON_FUTURES_CALLBACK_FAILURE_H_
#define TENON_FUTURES_CALLBACK_FAILURE_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace tenon::futures {

using CallbackFailureHandler = void (*)(const absl::Status& error) noexcept;

// Puts `handler` in place of the one there is and returns that one; nullptr
// stands for the line on stderr.
CallbackFailureHandler SetCallbackFailureHandler(
    CallbackFailureHandler handler);

// How many failures there have been: it grows also if stderr is closed.
uint64_t CallbackFailureCount();

namespace internal_future {

// Counts `error` and calls the handler.
void ReportCallbackFailure(const absl::Status& error) noexcept;

// Runs `body`; an exception becomes kUnknown with its text.
absl::Status CatchExceptions(absl::FunctionRef<void()> body);

}  // namespace internal_future
}  // namespace tenon::futures

#endif  // TENON_FUTURES_CALLBACK_FAILURE_H_

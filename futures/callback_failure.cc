// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/futures/callback_failure.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>

#include "absl/base/config.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tenon::futures {
namespace {

constinit std::atomic<CallbackFailureHandler> handler_in_place = nullptr;
constinit std::atomic<uint64_t> failures = 0;

void WriteToStderr(const absl::Status& error) {
  std::string line = absl::StrCat(
      "tenon: a callback failed, and no future carries its error: ",
      error.ToString());
  std::replace(line.begin(), line.end(), '\n', ' ');
  line.push_back('\n');
  const int saved_errno = errno;
  for (size_t written = 0; written < line.size();) {
    const ssize_t n =
        write(STDERR_FILENO, line.data() + written, line.size() - written);
    if (n < 0 && errno != EINTR) break;  // Closed: already counted.
    if (n > 0) written += static_cast<size_t>(n);
  }
  errno = saved_errno;
}

}  // namespace

CallbackFailureHandler SetCallbackFailureHandler(
    CallbackFailureHandler handler) {
  return handler_in_place.exchange(handler, std::memory_order_acq_rel);
}

uint64_t CallbackFailureCount() {
  return failures.load(std::memory_order_relaxed);
}

namespace internal_future {

void ReportCallbackFailure(const absl::Status& error) noexcept {
  failures.fetch_add(1, std::memory_order_relaxed);
  const CallbackFailureHandler handler =
      handler_in_place.load(std::memory_order_acquire);
  handler != nullptr ? handler(error) : WriteToStderr(error);
}

absl::Status CatchExceptions(absl::FunctionRef<void()> body) {
#ifdef ABSL_HAVE_EXCEPTIONS
  try {
    body();
  } catch (const std::exception& thrown) {
    return absl::UnknownError(
        absl::StrCat("the callback threw: ", thrown.what()));
  } catch (...) {
    return absl::UnknownError(
        "the callback threw an object that is not a std::exception");
  }
#else
  body();
#endif
  return absl::OkStatus();
}

}  // namespace internal_future
}  // namespace tenon::futures

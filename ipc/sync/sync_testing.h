// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Helpers of the tests of Mutex, Event and similar types.

#ifndef TENON_IPC_SYNC_SYNC_TESTING_H_
#define TENON_IPC_SYNC_SYNC_TESTING_H_

#include <fcntl.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {

// For waits that should end long before: a watchdog, not a promise.
inline Deadline Watchdog() { return Deadline::After(absl::Seconds(15)); }
// For waits that should not end before.
inline Deadline Shortly() { return Deadline::After(absl::Milliseconds(30)); }

// The object that a process gets to which `object` is sent.
template <typename T>
T Another(const T& object) {
  return T::Adopt(UniqueFd(fcntl(object.fd(), F_DUPFD_CLOEXEC, 0))).value();
}

inline absl::Status Expect(bool holds, absl::string_view what) {
  return holds ? absl::OkStatus() : absl::InternalError(std::string(what));
}

}  // namespace tenon

#endif  // TENON_IPC_SYNC_SYNC_TESTING_H_

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Starts the daemon of names as a process of its own: not a child of this
// process, in a session of its own, without descriptors of this process.

#ifndef TENON_SHM_MANAGER_START_MANAGER_H_
#define TENON_SHM_MANAGER_START_MANAGER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tenon/shm/base/deadline.h"

namespace tenon {

// Executes `program` --path=`path` --idle_exit=... --detach, which returns once
// its daemon listens or another one does. Leaves no child. Thread-safe.
// Errors: kUnavailable with the message of a program that failed;
// kDeadlineExceeded, after which it may or may not listen; kNotFound or
// kPermissionDenied if `program` cannot be executed; kResourceExhausted.
absl::Status StartManager(const std::string& program, const std::string& path,
                          absl::Duration idle_exit, Deadline deadline);

}  // namespace tenon

#endif  // TENON_SHM_MANAGER_START_MANAGER_H_

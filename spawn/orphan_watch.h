// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The orphan watch: a thread that ends this process after its parent has died.

#ifndef TENON_SPAWN_ORPHAN_WATCH_H_
#define TENON_SPAWN_ORPHAN_WATCH_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tenon/shm/pid_fd.h"

namespace tenon::spawn {

// Starts a thread that waits for `parent` to end, then for `grace`, and then
// ends the process by _exit(exit_code): no destructors, no flushing, since
// whatever keeps the process from ending by itself would keep those from ending
// too. All signals are blocked in the thread, so that they go to the user's. An
// infinite grace never ends.
// Errors: kResourceExhausted at a limit of threads.
absl::Status StartOrphanWatch(PidFd parent, absl::Duration grace,
                              int exit_code);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_ORPHAN_WATCH_H_

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The orphan watch: a thread that ends this process after its parent, or an
// elder, has died.
//
// Elders are the parent's parent, and so on, as far as they are Tenon's
// children. A child watches them all itself: so a whole tree ends one grace
// after its root, and not one grace later on each floor.

#ifndef TENON_SPAWN_ORPHAN_WATCH_H_
#define TENON_SPAWN_ORPHAN_WATCH_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tenon/shm/pid_fd.h"

namespace tenon::spawn {

// Starts a thread that waits for one of `elders` to end, then for `grace`, and
// then ends the process by _exit(exit_code): no destructors, no flushing, since
// whatever keeps the process from ending by itself would keep those from ending
// too. All signals are blocked in the thread, so that they go to the user's. An
// infinite grace never ends, and needs no thread. Once per process.
// Errors: kResourceExhausted at a limit of threads.
absl::Status StartOrphanWatch(std::vector<PidFd> elders, absl::Duration grace,
                              int exit_code);

// The pidfds of those watched, open as long as this process lives: the elders
// of its children. Empty if no watch was started. The nearest come first.
std::vector<int> Elders();

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_ORPHAN_WATCH_H_

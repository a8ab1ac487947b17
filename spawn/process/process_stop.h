// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Detects whether a process that does not end is stopped. Not for users.

#ifndef TENON_SPAWN_PROCESS_PROCESS_STOP_H_
#define TENON_SPAWN_PROCESS_PROCESS_STOP_H_

#include <sys/types.h>

#include <string>

namespace tenon::spawn {

// For an error about `pid`, which has not been reaped: ": it is stopped ..." if
// it is, with the signals that may have stopped it; else "". Reads /proc; does
// not block.
std::string DescribeStop(pid_t pid);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_PROCESS_PROCESS_STOP_H_

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// What /proc says of a process, for messages. A pid here is a number as /proc
// shows it, which is another one than getpid()'s where /proc is of an outer pid
// namespace: what is known by a pidfd is named by it.

#ifndef TENON_SHM_BASE_PROCESS_INFO_H_
#define TENON_SHM_BASE_PROCESS_INFO_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "tenon/shm/base/pid_fd.h"

namespace tenon {

// "running" (or sleeping: it will go on by itself), "stopped" (by a signal or a
// debugger: it holds what it holds until it is continued), "ended" (and not yet
// reaped, or gone), or "unknown".
std::string StateOf(pid_t pid);
std::string StateOf(const PidFd& process);

// What the process calls itself (/proc/PID/comm); empty if it is not there.
std::string NameOf(pid_t pid);
std::string NameOf(const PidFd& process);

// The pids that a process has, in this pid namespace and those within it that
// it lives in: it calls itself by the last. Empty if it is not there.
std::vector<pid_t> PidsOf(pid_t pid);

}  // namespace tenon

#endif  // TENON_SHM_BASE_PROCESS_INFO_H_

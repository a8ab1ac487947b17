// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Facts about a process from /proc, for messages. A pid here is a number as
// /proc shows it, which differs from getpid()'s if /proc is of an outer pid
// namespace. To identify a process, use its pidfd.

#ifndef TENON_SHM_PROCESS_PROCESS_INFO_H_
#define TENON_SHM_PROCESS_PROCESS_INFO_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "tenon/shm/process/pid_fd.h"

namespace tenon {

// "running" (or sleeping: it continues by itself), "stopped" (by a signal or a
// debugger: it keeps its holds until it is continued), "ended" (whether reaped
// or not), or "unknown".
std::string StateOf(pid_t pid);
std::string StateOf(const PidFd& process);

// The name that the process has set (/proc/PID/comm); empty if the process does
// not exist.
std::string NameOf(pid_t pid);
std::string NameOf(const PidFd& process);

// The pids of a process, from this pid namespace down to its own; the last one
// is its getpid(). Empty if the process does not exist.
std::vector<pid_t> PidsOf(pid_t pid);

}  // namespace tenon

#endif  // TENON_SHM_PROCESS_PROCESS_INFO_H_

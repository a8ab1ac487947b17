// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The main function of a supervisor process (supervisor.h explains its
// purpose), and the arguments, environment and descriptors that its parent
// prepares.
//
// It is compiled twice: into a program of its own, of a few hundred
// instructions without a C library, so that it costs next to nothing to start
// and to keep; and into every program that links //spawn/child:init, which is
// entered as a supervisor before any constructor runs, where memory cannot or
// must not be executed (supervisor_entry.cc). So it may use nothing but system
// calls, and include no header except this one, keeper_name.h and those of the
// kernel's constants.

#ifndef TENON_SPAWN_SUPERVISOR_SUPERVISOR_MAIN_H_
#define TENON_SPAWN_SUPERVISOR_SUPERVISOR_MAIN_H_

namespace tenon::spawn {

// The supervisor's name for the kernel and ps(1); at most 15 characters.
inline constexpr char kSupervisorName[] = "tenon-supervise";

// Maximum number of children of one supervisor.
inline constexpr int kMaxSupervised = 8;

// A supervisor's arguments; numbers are decimal. The last ones are the
// children's pids, 0 for a child that the supervisor creates itself. The
// children inherit its environment.
inline constexpr char kSupervisorFlag[] = "--tenon-supervisor";
enum SupervisorArgument {
  kSupervisorFlagArgument = 1,
  kSupervisorProgramArgument,    // argv[0] of the children.
  kSupervisorGroupArgument,      // 1 if each child leads a process group.
  kSupervisorInterruptArgument,  // 1 if children begin with SIGINT blocked.
  kSupervisorGraceArgument,      // Milliseconds; -1: forever.
  kSupervisorAncestorsArgument,  // Their number.
  kSupervisorFirstChildArgument,
};

// A child's only argument, and the descriptors of its ends of the control
// channel and of its death pipe.
inline constexpr char kChildFlag[] = "--tenon-spawned-child";
inline constexpr int kControlFd = 3;
inline constexpr int kDeathPipeFd = 4;

// A supervisor's descriptors, besides 0, 1 and 2, which are its parent's until
// the children have been created: the channel to its parent; the children's
// program; for each child the two ends of its death pipe, the reading end
// first, as death_pipe.h requires; the pidfds of the processes whose death
// makes the children orphans; and, until the children are created, for each its
// control channel and its 0, 1 and 2. A stream that is not open is inherited.
inline constexpr int kSupervisorFirstFd = kDeathPipeFd + 1;
inline constexpr int kSupervisorReportFd = kSupervisorFirstFd;
inline constexpr int kSupervisorProgramFd = kSupervisorFirstFd + 1;
inline constexpr int kFdsOfAChild = 4;
constexpr int SupervisorReadingEnd(int child) {
  return kSupervisorFirstFd + 2 + 2 * child;
}
constexpr int SupervisorWritingEnd(int child) {
  return SupervisorReadingEnd(child) + 1;
}
constexpr int SupervisorFirstAncestor(int children) {
  return SupervisorReadingEnd(children);
}
constexpr int SupervisorFdsOf(int child, int children, int ancestors) {
  return SupervisorFirstAncestor(children) + ancestors + kFdsOfAChild * child;
}
inline constexpr int kMaxSupervisorAncestors = 32;

// A supervisor's report to its parent, sent once, with the children's pidfds;
// or the reason for a failure.
struct SpawnReport {
  int error;  // An errno; 0 if all children run.
  int call;   // A SupervisorCall: the one that failed.
  int self;   // Its pid in its own pid namespace; so are the children's.
  int pids[kMaxSupervised];
};
enum SupervisorCall {
  kVfork,
  kFork,
  kDup,
  kExec,
  kSetpgid,
  kPidfdOpen,
  kSignalfd,
  kSend
};

// Written into the death pipe of a child that has ended.
struct SupervisorReport {
  int wait_status;  // From waitpid().
  // 1 if the supervisor waits for the grace period of nested supervisors.
  int lingers;
  long peak_rss_kib;
};

// `argv` is followed by the environment. All signals must be blocked. Ends when
// all its children and all nested supervisors have ended; ends at once with
// code 125 if the arguments are malformed, or if children cannot be created or
// do not belong to this process.
[[noreturn]] void SupervisorMain(int argc, const char* const* argv);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_SUPERVISOR_SUPERVISOR_MAIN_H_

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// What a supervisor process runs (supervisor.h says what it is for), and what
// its parent prepares for it: arguments, environment and descriptors.
//
// It is compiled twice: into a program of its own, of a few hundred
// instructions without a C library, so that it costs next to nothing to start
// and to keep; and into every program that links //spawn/child:init, which is
// entered as a supervisor before any constructor runs, where memory cannot or
// must not be executed (supervisor_entry.cc). So it may use nothing but system
// calls, and no header but this one and those of the kernel's constants.

#ifndef TENON_SPAWN_SUPERVISOR_SUPERVISOR_MAIN_H_
#define TENON_SPAWN_SUPERVISOR_SUPERVISOR_MAIN_H_

namespace tenon::spawn {

// What the kernel and ps(1) call a supervisor; at most 15 characters.
inline constexpr char kSupervisorName[] = "tenon-supervise";

// The most children of one supervisor.
inline constexpr int kMaxSupervised = 8;

// A supervisor's arguments; numbers are decimal. The last are the children's
// pids, 0 for a child that the supervisor makes itself. Its environment is
// theirs.
inline constexpr char kSupervisorFlag[] = "--tenon-supervisor";
enum SupervisorArgument {
  kSupervisorFlagArgument = 1,
  kSupervisorProgramArgument,    // argv[0] of the children.
  kSupervisorGroupArgument,      // 1 if each child leads a process group.
  kSupervisorInterruptArgument,  // 1 if children begin with SIGINT blocked.
  kSupervisorGraceArgument,      // Milliseconds; -1 for ever.
  kSupervisorAncestorsArgument,  // How many.
  kSupervisorFirstChildArgument,
};

// The only argument of a child, and the descriptors at which it finds its end
// of the control channel and of its death pipe.
inline constexpr char kChildFlag[] = "--tenon-spawned-child";
inline constexpr int kControlFd = 3;
inline constexpr int kDeathPipeFd = 4;

// A supervisor's descriptors, beside 0, 1 and 2, which are its parent's until
// the children have been made: the channel to its parent, the program that the
// children run, of each child the two ends of its death pipe, the reading end
// first, as death_pipe.h asks for; the pidfds of the processes whose death
// makes orphans of the children; and, until they are made, of each child its
// control channel and its 0, 1 and 2. A stream that is not open is inherited.
inline constexpr int kSupervisorFirstFd = kDeathPipeFd + 1;
inline constexpr int kSupervisorBirthFd = kSupervisorFirstFd;
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

// What a supervisor tells its parent, once, with the children's pidfds; or why
// there are none.
struct SupervisorBirth {
  int error;  // An errno; 0 if all children run.
  int call;   // A SupervisorCall: which one has failed.
  int self;   // Its own pid, as it knows it; so with those of the children.
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

// What it writes into the death pipe of a child that has ended.
struct SupervisorReport {
  int wait_status;  // As waitpid() has it.
  // 1 if it stays for supervisors below it, which give their children a grace.
  int lingers;
  long peak_rss_kib;
};

// `argv` is followed by the environment. All signals are to be blocked. Ends
// when all of its children have, and all supervisors below it; with code 125 at
// once if the arguments are not as above, children cannot be made or are not
// this process's.
[[noreturn]] void SupervisorMain(int argc, const char* const* argv);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_SUPERVISOR_SUPERVISOR_MAIN_H_

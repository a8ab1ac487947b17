// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// What a guardian process runs (guardian.h says what it is for).
//
// It is compiled twice: into a program of its own, of a few hundred
// instructions without a C library, so that it costs next to nothing to start
// and to keep; and into every program that calls spawn::Init(), for where
// memory cannot be executed. So it may use nothing but system calls, and no
// header but this one and those of the kernel's constants.

#ifndef TENON_SPAWN_GUARDIAN_MAIN_H_
#define TENON_SPAWN_GUARDIAN_MAIN_H_

namespace tenon::spawn {

// What the kernel and ps(1) call a guardian; at most 15 characters.
inline constexpr char kGuardianName[] = "tenon-guardian";

// The most children of one guardian.
inline constexpr int kMaxGuarded = 8;

// A guardian's arguments; numbers are decimal. The last are the children's
// pids.
inline constexpr char kGuardianFlag[] = "--tenon-guardian";
enum GuardianArgument {
  kGuardianFlagArgument = 1,
  kGuardianGroupArgument,   // 1 if each child leads a process group, else 0.
  kGuardianGraceArgument,   // Milliseconds; -1 for ever.
  kGuardianEldersArgument,  // How many.
  kGuardianFirstChildArgument,
};

// Its descriptors, and it has no others: of each child the two ends of its
// leash, the reading end first, as leash.h asks for; then the pidfds of those
// whose death makes orphans of the children. 0, 1 and 2 are closed: where it is
// the parent's program, that may print before it gets to GuardianMain(), and
// what is written into a leash kills.
inline constexpr int kGuardianFirstFd = 3;
constexpr int GuardianReadingEnd(int child) {
  return kGuardianFirstFd + 2 * child;
}
constexpr int GuardianWritingEnd(int child) {
  return GuardianReadingEnd(child) + 1;
}
constexpr int GuardianFirstElder(int children) {
  return GuardianReadingEnd(children);
}
inline constexpr int kMaxGuardianElders = 32;

// What it writes into the leash of a child that has ended.
struct GuardianReport {
  int wait_status;  // As waitpid() has it.
  int reserved;
  long peak_rss_kib;
};

// All signals are to be blocked, and SIGCHLD is not to be ignored. Ends when
// all of its children have, with code 125 at once if the arguments are not as
// above or the children not this process's.
[[noreturn]] void GuardianMain(int argc, const char* const* argv);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_GUARDIAN_MAIN_H_

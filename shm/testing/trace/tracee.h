// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Tracee: a forked child under ptrace, for single_stepper.h and
// syscall_failer.h. Linux on x86-64.
//
//   TENON_ASSIGN_OR_RETURN(Tracee victim, Tracee::Start({}, body));
//   TENON_RETURN_IF_ERROR(victim.RunToRegion());
//   while (!victim.region_ended()) {
//     TENON_ASSIGN_OR_RETURN(Tracee::Stop stop,
//                            victim.Resume(Tracee::How::kStep));
//     if (stop == Tracee::Stop::kEnded) break;
//   }

#ifndef TENON_SHM_TESTING_TRACE_TRACEE_H_
#define TENON_SHM_TESTING_TRACE_TRACEE_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/trace/region.h"

namespace tenon {

// OK if this build, on this machine, can trace. Else kUnimplemented with the
// reason, for GTEST_SKIP(): another architecture, a sanitizer (whose runtime
// would be stepped through, and whose leak check cannot be traced), or ptrace
// that is not permitted. Probed once; thread-safe.
absl::Status CanTrace();

// Ownership: kills and reaps the process when destroyed; if the tracer dies,
//   the kernel kills it (PTRACE_O_EXITKILL, PR_SET_PDEATHSIG).
// Threads: only the thread that started it may call. Only the tracee's main
//   thread is traced, and none of its children.
// Processes: of the process that started it only.
// Failure: kInternal with the call if ptrace() fails, which leaves the tracee
//   stopped. A tracee that is killed from outside, or by its watchdog, while it
//   is stopped, returns kGone until Resume() has reported its end.
class Tracee {
 public:
  static constexpr uint64_t kGone = ~uint64_t{0};

  enum class How {
    kRun,  // Until the region begins, a breakpoint, or the end.
    // One instruction, one round of a rep-prefixed one, or a call of the vDSO:
    // its clocks begin again each time that the kernel's clock has ticked,
    // which it may do between any two steps. Such a call writes nothing but
    // its result. Without debug registers it is stepped through.
    kStep,
    kSyscall,  // Until the entry or the exit of the next system call.
  };
  enum class Stop {
    kStep,
    kBreakpoint,
    kRegion,       // BeginRegion() has just been executed.
    kSyscallStop,  // Entry and exit alternate.
    kEnded,        // See end().
  };

  // Forks `body`. Errors: as ForkedChild::Fork().
  static absl::StatusOr<Tracee> Start(
      const ChildOptions& options,
      const std::function<void(const Reporter&)>& body);

  // Runs until BeginRegion(). Errors: kFailedPrecondition with the reports of
  // the child if it ends before.
  absl::Status RunToRegion();

  // Resumes it. Signals that it receives meanwhile are delivered to it, and do
  // not count as stops; those that stop a process are dropped. Blocks; the
  // child's watchdog is the bound.
  absl::StatusOr<Stop> Resume(How how);

  // Resumes it to its end, and reaps it.
  absl::Status RunToEnd();

  // Kills it before its next instruction, and reaps it.
  void Kill();

  bool region_ended() const { return marks_->ended.load() > 0; }
  bool ended() const { return child_.reaped(); }
  const ExitStatus& end() const { return end_; }
  ForkedChild& child() { return child_; }

  // The address of the next instruction.
  absl::StatusOr<uint64_t> InstructionPointer() const;
  // Whether the next instruction is a system call.
  bool AtSyscall() const;

  // At an entry: the number of the call, and skips the call.
  absl::StatusOr<uint64_t> SyscallNumber() const;
  absl::Status SkipSyscall();
  // At an exit: makes it fail.
  absl::Status SetSyscallError(int error);

  // Stops Resume(kRun) each time `address` is about to be executed; 0 removes
  // it. A debug register: no memory of the tracee is changed.
  // Errors: kInternal where there is none.
  absl::Status SetBreakpoint(uint64_t address);

 private:
  enum class Trap { kStep, kBreakpoint, kRegion, kNothing, kOwn };
  using SharedMarks = SharedObject<internal_region::Marks>;

  Tracee(ForkedChild child, SharedMarks marks)
      : child_(std::move(child)), marks_(std::move(marks)) {}
  absl::StatusOr<Stop> ResumeOnce(How how);
  // After a step: runs to the end of the call of the vDSO, if that began one.
  absl::StatusOr<Stop> LeaveVdso();
  absl::StatusOr<int> WaitForStop();
  absl::Status SetOptions();
  absl::StatusOr<Trap> ClassifyTrap(How how);
  absl::StatusOr<uint64_t> Peek(size_t offset) const;
  absl::Status Poke(size_t offset, uint64_t value);
  absl::Status ArmBreakpoint(uint64_t address);

  ForkedChild child_;
  SharedMarks marks_;
  ExitStatus end_;
  uint64_t breakpoint_ = 0;
  uint32_t regions_seen_ = 0;
  bool options_set_ = false;
};

}  // namespace tenon

#endif  // TENON_SHM_TESTING_TRACE_TRACEE_H_

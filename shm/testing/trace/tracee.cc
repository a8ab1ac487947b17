// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/trace/tracee.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/auxv.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/trace/region.h"

#if defined(__has_feature)
#define TENON_HAS_FEATURE_(x) __has_feature(x)
#else
#define TENON_HAS_FEATURE_(x) 0
#endif

namespace tenon {
namespace {

constexpr bool kSanitized =
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    TENON_HAS_FEATURE_(address_sanitizer) ||                         \
    TENON_HAS_FEATURE_(thread_sanitizer) ||                          \
    TENON_HAS_FEATURE_(memory_sanitizer)
    true;
#else
    false;
#endif

// Offsets for PTRACE_PEEKUSER. Elsewhere CanTrace() refuses.
#if defined(__x86_64__)
constexpr bool kSupported = true;
constexpr size_t kInstruction = offsetof(user_regs_struct, rip);
constexpr size_t kStackPointer = offsetof(user_regs_struct, rsp);
constexpr size_t kSyscallNumber = offsetof(user_regs_struct, orig_rax);
constexpr size_t kSyscallResult = offsetof(user_regs_struct, rax);
constexpr size_t kBreakAddress = offsetof(user, u_debugreg[0]);
constexpr size_t kBreakControl = offsetof(user, u_debugreg[7]);
#else
constexpr bool kSupported = false;
constexpr size_t kInstruction = 0, kStackPointer = 0, kSyscallNumber = 0,
                 kSyscallResult = 0, kBreakAddress = 0, kBreakControl = 0;
#endif

// Beside system calls, so that their stops differ from SIGTRAP.
constexpr int kSyscallSignal = SIGTRAP | 0x80;

// A process that has just been killed, by its watchdog or from outside, can no
// longer be queried; waiting for it returns its status.
bool IsGone() { return errno == ESRCH; }

absl::Status TraceError(const char* request) {
  return absl::InternalError(
      PosixError(errno, absl::StrCat("ptrace ", request), "tracee").message());
}

bool StopsProcess(int signal) {
  return signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN ||
         signal == SIGTTOU;
}

// The vDSO, which forked processes have at the same address.
struct Addresses {
  uint64_t begin = 0;
  uint64_t end = 0;
};
Addresses FindVdso() {
  const uint64_t begin = getauxval(AT_SYSINFO_EHDR);
  Addresses vdso = {begin, begin};
  if (begin == 0) return vdso;
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(begin);
  const auto* parts =
      reinterpret_cast<const Elf64_Phdr*>(begin + header->e_phoff);
  for (int i = 0; i < header->e_phnum; ++i) {
    if (parts[i].p_type != PT_LOAD) continue;
    vdso.end = std::max(vdso.end, begin + parts[i].p_vaddr + parts[i].p_memsz);
  }
  return vdso;
}

absl::Status TryToTrace() {
  if (!kSupported) {
    return absl::UnimplementedError("tracing is supported on x86-64 only");
  }
  if (kSanitized) {
    return absl::UnimplementedError(
        "tracing is not supported under a sanitizer");
  }
  absl::StatusOr<Tracee> child = Tracee::Start(
      {.name = "ptrace probe"}, [](const Reporter&) { BeginRegion(); });
  if (!child.ok()) return child.status();
  const absl::Status traced = child->RunToRegion();
  if (traced.ok()) return traced;
  return absl::UnimplementedError(
      absl::StrCat("ptrace does not work here: ", traced.message()));
}

}  // namespace

absl::Status CanTrace() {
  static const absl::Status* const status = new absl::Status(TryToTrace());
  return *status;
}

absl::StatusOr<Tracee> Tracee::Start(
    const ChildOptions& options,
    const std::function<void(const Reporter&)>& body) {
  SharedMarks marks;
  ChildOptions traced = options;
  traced.traced = true;
  TENON_ASSIGN_OR_RETURN(ForkedChild child,
                         ForkedChild::Fork(traced, [&](const Reporter& r) {
                           internal_region::marks = marks.get();
                           body(r);
                         }));
  return Tracee(std::move(child), std::move(marks));
}

absl::Status Tracee::RunToRegion() {
  TENON_ASSIGN_OR_RETURN(const Stop stop, Resume(How::kRun));
  if (stop == Stop::kRegion) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      child_.name(), " ", child_.Describe(end_), " before BeginRegion(); ",
      absl::StrJoin(child_.report().failures, "; ")));
}

absl::StatusOr<int> Tracee::WaitForStop() {
  int status;
  while (waitpid(child_.pid(), &status, __WALL) < 0) {
    if (errno != EINTR) return TraceError("waitpid");
  }
  if (WIFSTOPPED(status)) return status;
  end_ = WIFEXITED(status) ? ExitStatus{.exit_code = WEXITSTATUS(status)}
                           : ExitStatus{.signal = WTERMSIG(status)};
  child_.SetReaped(end_);
  return status;
}

absl::Status Tracee::SetOptions() {
  if (options_set_) return absl::OkStatus();
  // With TRACEEXEC an exec() does not raise a SIGTRAP that would end the
  // tracee.
  const auto options =
      PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC;
  if (ptrace(PTRACE_SETOPTIONS, child_.pid(), nullptr, options) != 0 &&
      !IsGone()) {
    return TraceError("SETOPTIONS");
  }
  options_set_ = true;
  return absl::OkStatus();
}

// The meaning of a SIGTRAP; kNothing: continue without it.
absl::StatusOr<Tracee::Trap> Tracee::ClassifyTrap(How how) {
  siginfo_t info;
  if (ptrace(PTRACE_GETSIGINFO, child_.pid(), nullptr, &info) != 0) {
    if (IsGone()) return Trap::kNothing;
    return TraceError("GETSIGINFO");
  }
  const uint32_t begun = marks_->begun.load();
  switch (info.si_code) {
    case SI_KERNEL:  // int3, of a region or of the program itself.
      if (begun == regions_seen_) return Trap::kOwn;
      regions_seen_ = begun;
      return begun == 1 ? Trap::kRegion : Trap::kNothing;
    case TRAP_HWBKPT:
      return Trap::kBreakpoint;
    case TRAP_TRACE:
    case TRAP_BRKPT:  // After a system call.
      return how == How::kStep ? Trap::kStep : Trap::kNothing;
    case SIGTRAP:  // A signal handler is about to begin.
      return Trap::kNothing;
    default:
      return Trap::kOwn;
  }
}

absl::StatusOr<Tracee::Stop> Tracee::Resume(How how) {
  TENON_ASSIGN_OR_RETURN(const Stop stop, ResumeOnce(how));
  return stop == Stop::kStep ? LeaveVdso() : stop;
}

absl::StatusOr<Tracee::Stop> Tracee::LeaveVdso() {
  static const Addresses vdso = FindVdso();
  TENON_ASSIGN_OR_RETURN(const uint64_t at, InstructionPointer());
  if (at < vdso.begin || at >= vdso.end) return Stop::kStep;
  // At the first instruction of a function the stack ends in the address to
  // which it returns.
  TENON_ASSIGN_OR_RETURN(const uint64_t stack, Peek(kStackPointer));
  errno = 0;
  const long caller = ptrace(PTRACE_PEEKDATA, child_.pid(), stack, nullptr);
  if (errno != 0) return Stop::kStep;  // It is gone, as the next call says.
  if (!ArmBreakpoint(static_cast<uint64_t>(caller)).ok()) return Stop::kStep;
  TENON_ASSIGN_OR_RETURN(const Stop stop, ResumeOnce(How::kRun));
  TENON_RETURN_IF_ERROR(ArmBreakpoint(breakpoint_));
  return stop == Stop::kBreakpoint ? Stop::kStep : stop;
}

absl::StatusOr<Tracee::Stop> Tracee::ResumeOnce(How how) {
  const auto request = how == How::kStep      ? PTRACE_SINGLESTEP
                       : how == How::kSyscall ? PTRACE_SYSCALL
                                              : PTRACE_CONT;
  int signal = 0;
  for (;;) {
    // Until its first stop it is running already.
    if (options_set_ && ptrace(request, child_.pid(), nullptr, signal) != 0 &&
        !IsGone()) {
      return TraceError("resume");
    }
    TENON_ASSIGN_OR_RETURN(const int status, WaitForStop());
    if (!WIFSTOPPED(status)) return Stop::kEnded;
    TENON_RETURN_IF_ERROR(SetOptions());
    signal = WSTOPSIG(status);
    if (signal == kSyscallSignal) return Stop::kSyscallStop;
    const bool is_event = (status >> 16) != 0;
    if (is_event || StopsProcess(signal)) signal = 0;
    if (signal != SIGTRAP) continue;
    TENON_ASSIGN_OR_RETURN(const Trap trap, ClassifyTrap(how));
    if (trap == Trap::kStep) return Stop::kStep;
    if (trap == Trap::kBreakpoint) return Stop::kBreakpoint;
    if (trap == Trap::kRegion) return Stop::kRegion;
    if (trap == Trap::kNothing) signal = 0;
  }
}

absl::Status Tracee::RunToEnd() {
  for (;;) {
    TENON_ASSIGN_OR_RETURN(const Stop stop, Resume(How::kRun));
    if (stop == Stop::kEnded) return absl::OkStatus();
  }
}

void Tracee::Kill() {
  if (ended()) return;
  child_.Kill();
  end_ = {.signal = SIGKILL};
}

absl::StatusOr<uint64_t> Tracee::Peek(size_t offset) const {
  errno = 0;
  const long value = ptrace(PTRACE_PEEKUSER, child_.pid(), offset, nullptr);
  if (errno == 0) return static_cast<uint64_t>(value);
  if (IsGone()) return kGone;
  return TraceError("PEEKUSER");
}

absl::Status Tracee::Poke(size_t offset, uint64_t value) {
  if (ptrace(PTRACE_POKEUSER, child_.pid(), offset, value) != 0 && !IsGone()) {
    return TraceError("POKEUSER");
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> Tracee::InstructionPointer() const {
  return Peek(kInstruction);
}

bool Tracee::AtSyscall() const {
  const absl::StatusOr<uint64_t> at = InstructionPointer();
  if (!at.ok()) return false;
  errno = 0;
  const long code = ptrace(PTRACE_PEEKTEXT, child_.pid(), *at, nullptr);
  constexpr long kSyscallInstruction = 0x050f;
  return errno == 0 && (code & 0xffff) == kSyscallInstruction;
}

absl::StatusOr<uint64_t> Tracee::SyscallNumber() const {
  return Peek(kSyscallNumber);
}

absl::Status Tracee::SkipSyscall() {
  return Poke(kSyscallNumber, ~uint64_t{0});
}

absl::Status Tracee::SetSyscallError(int error) {
  return Poke(kSyscallResult, static_cast<uint64_t>(-int64_t{error}));
}

absl::Status Tracee::SetBreakpoint(uint64_t address) {
  breakpoint_ = address;
  return ArmBreakpoint(address);
}

absl::Status Tracee::ArmBreakpoint(uint64_t address) {
  // Off while its address changes; then bit 0 enables it for execution.
  TENON_RETURN_IF_ERROR(Poke(kBreakControl, 0));
  if (address == 0) return absl::OkStatus();
  TENON_RETURN_IF_ERROR(Poke(kBreakAddress, address));
  return Poke(kBreakControl, 1);
}

}  // namespace tenon

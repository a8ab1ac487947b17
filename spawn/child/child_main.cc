// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/child/child_main.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/monotonic_ns.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/spawn/child/call_entry.h"
#include "tenon/spawn/child/current_process.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/child/handover.h"
#include "tenon/spawn/child/orphan_exit_code.h"
#include "tenon/spawn/child/start_message.h"
#include "tenon/spawn/report/crash_record.h"
#include "tenon/spawn/report/report.h"
#include "tenon/spawn/settings/child_settings.h"
#include "tenon/spawn/settings/inherited_setting.h"
#include "tenon/spawn/supervisor/ancestors.h"
#include "tenon/spawn/supervisor/death_pipe.h"
#include "tenon/spawn/supervisor/program.h"

namespace tenon::spawn {
namespace {

// Ends the process: std::exit() or EndForked().
using Leave = void (*)(int exit_code);

[[noreturn]] void EndForked(int exit_code) {
  std::fflush(stdout);
  std::fflush(stderr);
  _exit(exit_code);
}

// Identifies the file of a descriptor; 0 if it is not open.
ino_t IdentityOf(int fd) {
  struct stat about = {};
  return fstat(fd, &about) == 0 ? about.st_ino : 0;
}

// The initial identity of kControlFd. A process is a child only once.
ino_t control_identity = 0;

// Reports and ends the process.
[[noreturn]] void Finish(Channel& control, EntryOutcome outcome, Leave leave) {
  const int exit_code = outcome.status.ok() ? EXIT_SUCCESS : EXIT_FAILURE;
  // The entry point may have closed all descriptors, as daemons do, and opened
  // others: a file that has that number now must not receive the report.
  const bool is_control = IdentityOf(control.fd()) == control_identity;
  // If the parent has ended, the report is not needed.
  if (is_control) {
    // The time is only needed for a failure.
    SendReport(control,
               {.status = std::move(outcome.status),
                .time_ns = exit_code == EXIT_SUCCESS ? 0 : MonotonicNs(),
                .stack = std::move(outcome.stack)})
        .IgnoreError();
  }
  leave(exit_code);
  std::abort();
}

// The flag was given on a command line: there is no parent to report to.
[[noreturn]] void RefuseFlag(const absl::Status& why) {
  std::fprintf(
      stderr,
      "%s is reserved for children that tenon::spawn::Process starts, and "
      "this process is not one of them: %s\n",
      kChildFlag, why.ToString().c_str());
  std::exit(EXIT_FAILURE);
}

// If the parent had closed a standard stream, the next descriptor to be opened
// or received would take its number, and printf() would write into it.
void OccupyStandardStreams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    // The lowest free descriptor, so it is this one; children inherit it.
    [[maybe_unused]] const int null = open("/dev/null", O_RDWR);
  }
}

// The kernel has named the process after the executed path, "exe".
void NameProcess() {
  const std::string& name = ProgramName();
  prctl(PR_SET_NAME, name.c_str() + (name.rfind('/') + 1));
}

void ApplySignals(bool ignore_interrupt) {
  if (ignore_interrupt) signal(SIGINT, SIG_IGN);
  // A SIGINT that has arrived meanwhile takes effect here.
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Does everything except calling the entry point, which is returned in
// `*function`.
absl::StatusOr<Child> Prepare(Channel& control, EntryFunction* function) {
  const absl::Status leashed = TieToDeathPipe(UniqueFd(kDeathPipeFd));
  if (absl::IsUnavailable(leashed)) _exit(kOrphanExitCode);
  TENON_RETURN_IF_ERROR(leashed);
  TENON_ASSIGN_OR_RETURN(Handover handover, ReceiveFirst(control));
  const StartMessage& start = handover.start;
  ApplySignals(start.ignore_interrupt);
  handover.ancestors.insert(handover.ancestors.begin(),
                            std::move(handover.parent));
  SetAncestors(std::move(handover.ancestors));
  if (start.has_crash_record) {
    TENON_RETURN_IF_ERROR(RecordCrashes(std::move(handover.crash_record)));
  }
  const absl::Status received = ReceiveRest(control, handover);
  // Without all of its descriptors, the entry point has nothing to end cleanly.
  if (absl::IsUnavailable(received)) _exit(kOrphanExitCode);
  TENON_RETURN_IF_ERROR(received);
  SetCurrentProcess(start.entry, start.index);
  SetSharingStrategy(start.sharing_strategy);
  TENON_RETURN_IF_ERROR(ApplyChildSettings(start.settings));
  TENON_RETURN_IF_ERROR(ApplyInheritedSettings(start.inherited));
  *function = FindEntry(start.entry);
  if (*function == nullptr) {
    return absl::NotFoundError(absl::StrCat(
        "the child has no such entry point when Init() runs (is it in a "
        "library that is loaded later?); registered: ",
        absl::StrJoin(EntryNames(), ", ")));
  }
  if (handover.mapped_argument.size_bytes() > 0) {
    return Child(start.index, std::move(handover.mapped_argument),
                 std::move(handover.fds));
  }
  return Child(start.index, std::move(handover.argument),
               std::move(handover.fds));
}

EntryOutcome RunEntry(Channel& control, Leave leave) {
  EntryFunction function = nullptr;
  absl::StatusOr<Child> child = Prepare(control, &function);
  if (!child.ok()) return {child.status(), ""};
  return CallEntry(function, *child, [&](EntryOutcome outcome) {
    Finish(control, std::move(outcome), leave);
  });
}

// The user's descriptors may be anything, ends of channels among them.
constexpr ChannelOptions kControlOptions = {.allow_sockets = true};

[[noreturn]] void Run(Channel control, Leave leave) {
  control_identity = IdentityOf(kControlFd);
  Finish(control, RunEntry(control, leave), leave);
}

}  // namespace

void RunChildMain() {
  OccupyStandardStreams();
  NameProcess();
  absl::StatusOr<Channel> control =
      Channel::Adopt(UniqueFd(kControlFd), kControlOptions);
  if (!control.ok()) RefuseFlag(control.status());
  Run(*std::move(control), std::exit);
}

void RunForkedChildMain() {
  OccupyStandardStreams();
  // One end of the pair that the parent made.
  Run(Channel::AdoptReleased(UniqueFd(kControlFd), kControlOptions), EndForked);
}

}  // namespace tenon::spawn

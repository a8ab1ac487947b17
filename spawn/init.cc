// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/init.h"

#include <cxxabi.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <typeinfo>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/channel.h"
#include "tenon/shm/sharing_strategy.h"
#include "tenon/shm/status_macros.h"
#include "tenon/shm/unique_fd.h"
#include "tenon/spawn/entry.h"
#include "tenon/spawn/handover.h"
#include "tenon/spawn/orphan_watch.h"
#include "tenon/spawn/program.h"
#include "tenon/spawn/report.h"
#include "tenon/spawn/start_message.h"

namespace tenon::spawn {
namespace {

// Reports `status` and ends the process. See init.h for why by std::exit().
[[noreturn]] void Finish(Channel& control, absl::Status status) {
  const int exit_code = status.ok() ? EXIT_SUCCESS : EXIT_FAILURE;
  // The parent may be gone, and nobody else wants to know.
  SendReport(control, {std::move(status)}).IgnoreError();
  std::exit(exit_code);
}

// Somebody has typed the flag: there is no parent to report to.
[[noreturn]] void RefuseFlag(const absl::Status& why) {
  std::fprintf(stderr,
               "%s is for the children that tenon::spawn::Process starts, and "
               "this process is none: %s\n",
               kChildFlag, why.ToString().c_str());
  std::exit(EXIT_FAILURE);
}

// If the parent had closed a standard stream, the next descriptor to be opened
// or received would take its place, and printf() would write into it.
void OccupyStandardStreams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    // The lowest free descriptor, so it is this one; it is to be inherited.
    [[maybe_unused]] const int null = open("/dev/null", O_RDWR);
  }
}

// The kernel has named the process after the path it was started from, "exe".
void NameProcess() {
  const std::string& name = ProgramName();
  prctl(PR_SET_NAME, name.c_str() + (name.rfind('/') + 1));
}

void ApplySignals(bool ignore_interrupt) {
  if (ignore_interrupt) signal(SIGINT, SIG_IGN);
  // One that has arrived meanwhile takes effect here.
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

std::string Demangle(const std::type_info& type) {
  int error = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &error), std::free);
  return error == 0 ? name.get() : type.name();
}

absl::Status CallEntry(EntryFunction function, Child& child, Channel& control) {
  try {
    return function(child);
  } catch (const std::exception& e) {
    return absl::InternalError(absl::StrCat(
        "uncaught exception ", Demangle(typeid(e)), ": ", e.what()));
  } catch (...) {
    const std::type_info* type = abi::__cxa_current_exception_type();
    if (type != nullptr) {
      return absl::InternalError(
          absl::StrCat("uncaught exception ", Demangle(*type)));
    }
    // Not of C++. It must not be swallowed by leaving this block, and must not
    // go on either: the process would stay, without its main thread.
    Finish(control, absl::InternalError(
                        "the entry point ended its thread (pthread_exit() or "
                        "pthread_cancel())"));
  }
}

absl::Status RunEntry(Channel& control) {
  TENON_ASSIGN_OR_RETURN(Handover handover, ReceiveFirst(control));
  const StartMessage& start = handover.start;
  ApplySignals(start.ignore_interrupt);
  TENON_RETURN_IF_ERROR(StartOrphanWatch(std::move(handover.parent),
                                         start.orphan_grace, kOrphanExitCode));
  const absl::Status received = ReceiveRest(control, handover);
  // Without all of its descriptors, the entry point has nothing to end orderly.
  if (absl::IsUnavailable(received)) _exit(kOrphanExitCode);
  TENON_RETURN_IF_ERROR(received);
  SetSharingStrategy(start.sharing_strategy);
  const EntryFunction function = FindEntry(start.entry);
  if (function == nullptr) {
    return absl::NotFoundError(absl::StrCat(
        "the child has no such entry point when Init() runs (is it in a "
        "library that is loaded later?); there are: ",
        absl::StrJoin(EntryNames(), ", ")));
  }
  Child child(start.index, std::move(handover.argument),
              std::move(handover.fds));
  return CallEntry(function, child, control);
}

[[noreturn]] void RunChild() {
  OccupyStandardStreams();
  NameProcess();
  // The user's descriptors may be anything, ends of channels among them.
  absl::StatusOr<Channel> control =
      Channel::Adopt(UniqueFd(kControlFd), {.allow_sockets = true});
  if (!control.ok()) RefuseFlag(control.status());
  Finish(*control, RunEntry(*control));
}

}  // namespace

void Init(int argc, char** argv) {
  RememberProgram(argc > 0 ? argv[0] : "");
  if (argc == 2 && absl::string_view(argv[1]) == kChildFlag) RunChild();
}

bool IsInitialized() { return IsProgramRemembered(); }

}  // namespace tenon::spawn

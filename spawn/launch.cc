// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/launch.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <sys/types.h>
#include <unistd.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/shm/posix_error.h"
#include "tenon/spawn/program.h"

namespace tenon::spawn {
namespace {

// Not a path to the file: that may have been replaced since, and the child must
// be the same program.
constexpr char kProgram[] = "/proc/self/exe";

// What the child is to do before exec. The first error of its making is kept.
class Plan {
 public:
  Plan(int control_fd, bool hold_interrupt) {
    Note(posix_spawn_file_actions_init(&actions_));
    Note(posix_spawnattr_init(&attributes_));
    // If the descriptor is there already, this takes its close-on-exec away.
    Note(posix_spawn_file_actions_adddup2(&actions_, control_fd, kControlFd));
    Note(posix_spawn_file_actions_addclosefrom_np(&actions_, kControlFd + 1));
    sigset_t signals;
    sigfillset(&signals);
    Note(posix_spawnattr_setsigdefault(&attributes_, &signals));
    sigemptyset(&signals);
    if (hold_interrupt) sigaddset(&signals, SIGINT);
    Note(posix_spawnattr_setsigmask(&attributes_, &signals));
    Note(posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK));
  }
  ~Plan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  // Returns an errno; 0 if `*pid` has been started.
  int Run(const char* path, char* const argv[], pid_t* pid) const {
    if (error_ != 0) return error_;
    return posix_spawn(pid, path, &actions_, &attributes_, argv, environ);
  }

 private:
  void Note(int error) {
    if (error_ == 0) error_ = error;
  }

  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
  int error_ = 0;
};

}  // namespace

absl::StatusOr<pid_t> Launch(int control_fd, bool hold_interrupt) {
  char* const argv[] = {const_cast<char*>(ProgramName().c_str()),
                        const_cast<char*>(kChildFlag), nullptr};
  pid_t pid = -1;
  const int error = Plan(control_fd, hold_interrupt).Run(kProgram, argv, &pid);
  if (error == 0) return pid;
  absl::Status status = PosixError(error, "posix_spawn", kProgram);
  if (error != EAGAIN) return status;
  return absl::ResourceExhaustedError(status.message());
}

}  // namespace tenon::spawn

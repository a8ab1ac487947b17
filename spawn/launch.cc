// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/launch.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
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
  Plan(int control_fd, const LaunchOptions& options) {
    Note(posix_spawn_file_actions_init(&actions_));
    Note(posix_spawnattr_init(&attributes_));
    // If the descriptor is there already, this takes its close-on-exec away.
    Note(posix_spawn_file_actions_adddup2(&actions_, control_fd, kControlFd));
    // After it, since it may be one of those two.
    Redirect(options.stdout_fd, STDOUT_FILENO);
    Redirect(options.stderr_fd, STDERR_FILENO);
    Note(posix_spawn_file_actions_addclosefrom_np(&actions_, kControlFd + 1));
    sigset_t signals;
    sigfillset(&signals);
    Note(posix_spawnattr_setsigdefault(&attributes_, &signals));
    sigemptyset(&signals);
    if (options.hold_interrupt) sigaddset(&signals, SIGINT);
    Note(posix_spawnattr_setsigmask(&attributes_, &signals));
    int flags = POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK;
    if (options.own_group) flags |= POSIX_SPAWN_SETPGROUP;  // To its own pid.
    Note(posix_spawnattr_setflags(&attributes_, static_cast<short>(flags)));
  }
  ~Plan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  // Returns an errno; 0 if `*pid` has been started.
  int Run(const char* path, char* const argv[], char* const env[],
          pid_t* pid) const {
    if (error_ != 0) return error_;
    return posix_spawn(pid, path, &actions_, &attributes_, argv, env);
  }

 private:
  void Note(int error) {
    if (error_ == 0) error_ = error;
  }
  void Redirect(int from, int to) {
    if (from < 0) return;
    Note(posix_spawn_file_actions_adddup2(&actions_, from, to));
  }

  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
  int error_ = 0;
};

// The environment with what is added; valid while this lives.
class Environment {
 public:
  explicit Environment(
      const std::vector<std::pair<std::string, std::string>>& added) {
    for (const auto& [name, value] : added) {
      added_.push_back(absl::StrCat(name, "=", value));
    }
    for (char** one = environ; one != nullptr && *one != nullptr; ++one) {
      if (!IsReplaced(*one, added)) all_.push_back(*one);
    }
    for (std::string& one : added_) all_.push_back(one.data());
    all_.push_back(nullptr);
  }

  char* const* get() const { return all_.data(); }

 private:
  static bool IsReplaced(
      absl::string_view one,
      const std::vector<std::pair<std::string, std::string>>& added) {
    for (const auto& [name, value] : added) {
      if (one.size() > name.size() && one[name.size()] == '=' &&
          absl::StartsWith(one, name)) {
        return true;
      }
    }
    return false;
  }

  std::vector<std::string> added_;
  std::vector<char*> all_;
};

absl::Status StartError(int error, const char* call) {
  absl::Status status = PosixError(error, call, kProgram);
  if (error != EAGAIN) return status;
  return absl::ResourceExhaustedError(status.message());
}

// In a forked child.
void ArrangeFds(int control_fd, const LaunchOptions& options) {
  dup2(control_fd, kControlFd);
  if (options.stdout_fd >= 0) dup2(options.stdout_fd, STDOUT_FILENO);
  if (options.stderr_fd >= 0) dup2(options.stderr_fd, STDERR_FILENO);
  close_range(kControlFd + 1, ~0U, 0);
}

void ArrangeSignals(bool hold_interrupt) {
  for (int signal = 1; signal < NSIG; ++signal) {
    if (signal == SIGKILL || signal == SIGSTOP) continue;
    struct sigaction action = {};
    action.sa_handler = SIG_DFL;
    sigaction(signal, &action, nullptr);
  }
  sigset_t mask;
  sigemptyset(&mask);
  if (hold_interrupt) sigaddset(&mask, SIGINT);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
}

}  // namespace

absl::StatusOr<pid_t> Launch(int control_fd, const LaunchOptions& options) {
  char* const argv[] = {const_cast<char*>(ProgramName().c_str()),
                        const_cast<char*>(kChildFlag), nullptr};
  const Plan plan(control_fd, options);
  pid_t pid = -1;
  const int error =
      options.environment.empty()
          ? plan.Run(kProgram, argv, environ, &pid)
          : plan.Run(kProgram, argv, Environment(options.environment).get(),
                     &pid);
  if (error == 0) return pid;
  return StartError(error, "posix_spawn");
}

absl::StatusOr<pid_t> LaunchByFork(int control_fd, const LaunchOptions& options,
                                   void (*run)()) {
  std::fflush(stdout);
  std::fflush(stderr);
  // None must reach a handler of this process in the child.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = fork();
  const int error = errno;
  if (pid == 0) {
    if (options.own_group) setpgid(0, 0);
    ArrangeFds(control_fd, options);
    ArrangeSignals(options.hold_interrupt);
    for (const auto& [name, value] : options.environment) {
      setenv(name.c_str(), value.c_str(), 1);
    }
    run();
    std::abort();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return StartError(error, "fork");
  return pid;
}

std::vector<std::string> MergedEnvironment(
    const std::vector<std::pair<std::string, std::string>>& added) {
  const Environment merged(added);
  std::vector<std::string> all;
  for (char* const* one = merged.get(); *one != nullptr; ++one) {
    all.emplace_back(*one);
  }
  return all;
}

int CountThreads() {
  // A directory has a link for itself, one for its name, and one for each
  // directory in it: one call in place of a listing.
  struct stat tasks = {};
  if (stat("/proc/self/task", &tasks) != 0) return 0;
  return static_cast<int>(tasks.st_nlink) - 2;
}

}  // namespace tenon::spawn

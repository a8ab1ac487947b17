// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>
#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#endif

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tenon/shm/posix_error.h"
#include "tenon/spawn/close_from.h"
#include "tenon/spawn/guardian.h"
#include "tenon/spawn/program.h"

namespace tenon::spawn {
namespace {

// Not a path to the file: that may have been replaced since, and the child must
// be the same program.
constexpr char kProgram[] = "/proc/self/exe";

sigset_t BlockedSignals(bool hold_interrupt) {
  sigset_t signals;
  sigemptyset(&signals);
  if (hold_interrupt) sigaddset(&signals, SIGINT);
  return signals;
}

// What the child is to do before exec. The first error of its making is kept.
class SpawnPlan {
 public:
  SpawnPlan(const ChildFds& fds, int leash_fd, const LaunchOptions& options) {
    Note(posix_spawn_file_actions_init(&actions_));
    Note(posix_spawnattr_init(&attributes_));
    // If the descriptor is there already, this takes its close-on-exec away.
    Note(posix_spawn_file_actions_adddup2(&actions_, fds.control, kControlFd));
    // After it, since it may be one of those two.
    Redirect(fds.standard_output, STDOUT_FILENO);
    Redirect(fds.standard_error, STDERR_FILENO);
    // After them, since one of them may be it.
    Redirect(leash_fd, kLeashFd);
    Note(posix_spawn_file_actions_addclosefrom_np(&actions_, kLeashFd + 1));
    const sigset_t blocked = BlockedSignals(options.hold_interrupt);
    Note(posix_spawnattr_setsigmask(&attributes_, &blocked));
    int flags = POSIX_SPAWN_SETSIGMASK;
    if (options.guardian.own_group)
      flags |= POSIX_SPAWN_SETPGROUP;  // To its own pid.
    Note(posix_spawnattr_setflags(&attributes_, static_cast<short>(flags)));
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

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

// In a forked child. The C library has told the kernel where to say on which
// processor a thread runs; the kernel has forgotten that for the guardian,
// which shared memory, and so for the child, whose C library believes it still.
void RegisterRseq() {
#ifdef RSEQ_SIG
  if (__rseq_size == 0) return;
  constexpr unsigned kSize = 32;  // Of the first version, which all accept.
  syscall(SYS_rseq,
          static_cast<char*>(__builtin_thread_pointer()) + __rseq_offset, kSize,
          0, RSEQ_SIG);
#endif
}

// In a forked child.
void ArrangeFds(const ChildFds& fds, int leash_fd) {
  dup2(fds.control, kControlFd);
  if (fds.standard_output >= 0) dup2(fds.standard_output, STDOUT_FILENO);
  if (fds.standard_error >= 0) dup2(fds.standard_error, STDERR_FILENO);
  // After them, since one of them may be it.
  dup2(leash_fd, kLeashFd);
  // As exec would: it stands where a standard stream was closed, and may be the
  // other end of a leash.
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    const int flags = fcntl(fd, F_GETFD);
    if (flags >= 0 && (flags & FD_CLOEXEC) != 0) close(fd);
  }
  CloseFrom(kLeashFd + 1);
}

// In a forked child.
[[noreturn]] void BeChild(const ChildFds& fds, int leash_fd,
                          const LaunchOptions& options, void (*run)()) {
  RegisterRseq();
  if (options.guardian.own_group) setpgid(0, 0);
  ArrangeFds(fds, leash_fd);
  const sigset_t blocked = BlockedSignals(options.hold_interrupt);
  sigprocmask(SIG_SETMASK, &blocked, nullptr);
  for (const auto& [name, value] : options.environment) {
    setenv(name.c_str(), value.c_str(), 1);
  }
  run();
  std::abort();
}

}  // namespace

absl::StatusOr<GuardedChildren> Launch(absl::Span<const ChildFds> fds,
                                       const LaunchOptions& options) {
  char* const argv[] = {const_cast<char*>(ProgramName().c_str()),
                        const_cast<char*>(kChildFlag), nullptr};
  std::optional<Environment> merged;
  if (!options.environment.empty()) merged.emplace(options.environment);
  char* const* const env = merged ? merged->get() : environ;
  return StartGuarded(
      options.guardian, fds.size(),
      [&](size_t index, int leash_fd, pid_t* pid) {
        return SpawnPlan(fds[index], leash_fd, options)
            .Run(kProgram, argv, env, pid);
      },
      [](int error) { return StartError(error, "posix_spawn"); });
}

absl::StatusOr<GuardedChildren> LaunchByFork(absl::Span<const ChildFds> fds,
                                             const LaunchOptions& options,
                                             void (*run)()) {
  std::fflush(stdout);
  std::fflush(stderr);
  return StartGuarded(
      options.guardian, fds.size(),
      [&](size_t index, int leash_fd, pid_t* pid) {
        *pid = fork();
        if (*pid == 0) BeChild(fds[index], leash_fd, options, run);
        return *pid > 0 ? 0 : errno;
      },
      [](int error) { return StartError(error, "fork"); });
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

}  // namespace tenon::spawn

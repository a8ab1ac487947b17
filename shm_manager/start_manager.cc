// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm_manager/start_manager.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/pid_fd.h"

namespace tenon {
namespace {

constexpr size_t kMaxText = 4096;
// For the end of a process that was killed.
constexpr absl::Duration kReapPatience = absl::Seconds(1);

// The attributes and actions of posix_spawn(): destroyed on every path.
class SpawnSettings {
 public:
  SpawnSettings() {
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_init(&actions);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  // No signal is blocked or ignored, 0 and 1 are /dev/null, 2 is `errors`.
  int Prepare(int errors) {
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    // First, as `errors` may be 0 or 1.
    int error =
        posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
    if (error == 0) {
      error = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO,
                                               "/dev/null", O_RDWR, 0);
    }
    if (error == 0) {
      error = posix_spawn_file_actions_adddup2(&actions, STDIN_FILENO,
                                               STDOUT_FILENO);
    }
    return error;
  }

  posix_spawnattr_t attributes;
  posix_spawn_file_actions_t actions;
};

// Appends what has been written so far. False at the end.
bool ReadAvailable(int fd, std::string* text) {
  for (;;) {
    char bytes[512];
    const ssize_t got =
        RetryOnEintr([&] { return read(fd, bytes, sizeof(bytes)); });
    if (got <= 0) return got < 0 && errno == EAGAIN;
    if (text->size() < kMaxText) text->append(bytes, static_cast<size_t>(got));
  }
}

// The text that the program writes until it ends. The end of the pipe may come
// much later: a child that another thread forks meanwhile has it open.
absl::StatusOr<std::string> ReadUntilEnd(int fd, const PidFd& program,
                                         absl::string_view name,
                                         Deadline deadline) {
  std::string text;
  pollfd fds[] = {{.fd = program.fd(), .events = POLLIN, .revents = 0},
                  {.fd = fd, .events = POLLIN, .revents = 0}};
  for (;;) {
    TENON_ASSIGN_OR_RETURN(const int ready, PollUntil(fds, deadline));
    if (ready == 0) {
      return absl::DeadlineExceededError(
          absl::StrCat(name, " has not begun to listen before the deadline"));
    }
    if (!ReadAvailable(fd, &text)) fds[1].fd = -1;
    if (fds[0].revents != 0) {
      ReadAvailable(fd, &text);  // Written since.
      return text;
    }
  }
}

// Without the variables of socket activation, which are not for the program.
std::vector<char*> EnvironmentOfProgram() {
  std::vector<char*> result;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!absl::StartsWith(*variable, "LISTEN_")) result.push_back(*variable);
  }
  result.push_back(nullptr);
  return result;
}

}  // namespace

absl::Status StartManager(const std::string& program, const std::string& path,
                          absl::Duration idle_exit, Deadline deadline) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return PosixError(errno, "pipe2", program);
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  if (fcntl(reader.get(), F_SETFL, O_NONBLOCK) != 0) {
    return PosixError(errno, "fcntl", program);
  }
  SpawnSettings settings;
  int error = settings.Prepare(writer.get());
  if (error != 0) return PosixError(error, "posix_spawn", program);
  std::string words[] = {
      program, absl::StrCat("--path=", path),
      absl::StrCat("--idle_exit=", absl::FormatDuration(idle_exit)),
      "--detach"};
  char* arguments[] = {words[0].data(), words[1].data(), words[2].data(),
                       words[3].data(), nullptr};
  pid_t pid = 0;
  error = posix_spawn(&pid, program.c_str(), &settings.actions,
                      &settings.attributes, arguments,
                      EnvironmentOfProgram().data());
  if (error != 0) return PosixError(error, "posix_spawn", program);
  writer.Reset();
  absl::StatusOr<PidFd> process = PidFd::Open(pid);
  if (!process.ok()) {
    // Ignored SIGCHLD, or a thread that reaps all children: the caller learns
    // by connecting whether there is a daemon. Else at a limit: wait here.
    RetryOnEintr([&] { return waitpid(pid, nullptr, 0); });
    return absl::IsNotFound(process.status()) ? absl::OkStatus()
                                              : process.status();
  }
  // The program exits when its daemon listens.
  const absl::StatusOr<std::string> text =
      ReadUntilEnd(reader.get(), *process, program, deadline);
  if (!text.ok()) process->SendSignal(SIGKILL).IgnoreError();
  const absl::StatusOr<ExitStatus> exit =
      process->Reap(Deadline::After(kReapPatience));
  TENON_RETURN_IF_ERROR(text.status());
  // Killed, it may have left a daemon that listens. Its status may have been
  // taken, as above.
  if (!exit.ok() || exit->signal != 0 || exit->exit_code == 0) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(absl::StrCat(
      program, " failed: ", absl::StripTrailingAsciiWhitespace(*text)));
}

}  // namespace tenon

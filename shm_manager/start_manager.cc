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

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {
namespace {

constexpr size_t kMaxText = 4096;

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

// What is written until the last writer has closed its end.
absl::StatusOr<std::string> ReadToEnd(int fd, absl::string_view program,
                                      Deadline deadline) {
  std::string text;
  for (;;) {
    pollfd poll_fd = {.fd = fd, .events = POLLIN, .revents = 0};
    TENON_ASSIGN_OR_RETURN(const int ready, PollUntil(&poll_fd, 1, deadline));
    if (ready == 0) {
      return absl::DeadlineExceededError(absl::StrCat(
          program, " has not begun to listen before the deadline"));
    }
    char bytes[512];
    const ssize_t got =
        RetryOnEintr([&] { return read(fd, bytes, sizeof(bytes)); });
    if (got < 0) return PosixError(errno, "read", program);
    if (got == 0) return text;
    if (text.size() < kMaxText) text.append(bytes, static_cast<size_t>(got));
  }
}

}  // namespace

absl::Status StartManager(const std::string& program, const std::string& path,
                          absl::Duration idle_exit, Deadline deadline) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return PosixError(errno, "pipe2", program);
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
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
                      &settings.attributes, arguments, environ);
  if (error != 0) return PosixError(error, "posix_spawn", program);
  writer.Reset();
  // The program closes its end, and exits, when its daemon listens.
  const auto text = ReadToEnd(reader.get(), program, deadline);
  // Not reaped yet: the number is still its own.
  if (!text.ok()) kill(pid, SIGKILL);
  int status = 0;
  // Fails if SIGCHLD is ignored, or another thread reaps all children: then the
  // caller learns by connecting whether there is a daemon.
  const pid_t reaped = RetryOnEintr([&] { return waitpid(pid, &status, 0); });
  TENON_RETURN_IF_ERROR(text.status());
  if (reaped != pid || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(absl::StrCat(
      program, " failed: ", absl::StripTrailingAsciiWhitespace(*text)));
}

}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/examples/testing/program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/pid_fd.h"

namespace tenon {
namespace {

Deadline Watchdog() { return Deadline::After(absl::Minutes(2)); }

std::vector<char*> Argv(const std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  return argv;
}

std::vector<pid_t> ChildrenOf(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/task/", pid, "/children"));
  std::vector<pid_t> children;
  pid_t child;
  while (file >> child) children.push_back(child);
  return children;
}

}  // namespace

Program::Program(const std::vector<std::string>& arguments) {
  int ends[2];
  TENON_CHECK(pipe2(ends, O_CLOEXEC) == 0, "pipe2");
  output_fd_.Reset(ends[0]);
  const UniqueFd write_end(ends[1]);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, write_end.get(), 1);
  posix_spawn_file_actions_adddup2(&files, write_end.get(), 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  const int error = posix_spawn(&pid_, arguments[0].c_str(), &files,
                                &attributes, Argv(arguments).data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) {
    Abort(absl::StrCat("cannot start ", arguments[0], ": ", error));
  }
}

Program::~Program() {
  if (reaped_) return;
  SignalGroup(SIGKILL);
  Wait();
}

std::vector<pid_t> Program::Workers() const {
  std::vector<pid_t> workers;
  for (const pid_t supervisor : ChildrenOf(pid_)) {
    for (const pid_t worker : ChildrenOf(supervisor)) workers.push_back(worker);
  }
  return workers;
}

void Program::Signal(int signal) const { kill(pid_, signal); }

void Program::SignalGroup(int signal) const { kill(-pid_, signal); }

bool Program::Read() {
  pollfd poll_fd = {.fd = output_fd_.get(), .events = POLLIN, .revents = 0};
  const auto ready = PollUntil({&poll_fd, 1}, Watchdog());
  if (!ready.ok() || *ready == 0) {
    SignalGroup(SIGKILL);
    Abort(absl::StrCat("the program hangs; so far: ", output_));
  }
  char buffer[4096];
  const ssize_t n = RetryOnEintr(
      [&] { return read(output_fd_.get(), buffer, sizeof(buffer)); });
  if (n > 0) output_.append(buffer, static_cast<size_t>(n));
  return n > 0;
}

bool Program::WaitForOutput(const std::string& text) {
  while (output_.find(text) == std::string::npos) {
    if (!Read()) return false;
  }
  return true;
}

ExitStatus Program::Wait() {
  while (Read()) {
  }
  const auto process = PidFd::Open(pid_);
  TENON_CHECK(process.ok(), "pidfd_open");
  const auto status = process->Reap(Watchdog());
  TENON_CHECK(status.ok(), "the program does not end");
  reaped_ = true;
  return *status;
}

bool Program::GroupIsGone() const {
  const Deadline deadline = Deadline::After(absl::Seconds(20));
  while (kill(-pid_, 0) == 0) {
    if (deadline.has_passed()) return false;
    absl::SleepFor(absl::Milliseconds(2));
  }
  return errno == ESRCH;
}

}  // namespace tenon

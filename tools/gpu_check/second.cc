// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/tools/gpu_check/second.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/tools/gpu_check/check.h"

namespace tenon::gpu_check {
namespace {

constexpr int kMillisecondsToAnswer = 20'000;

// A duplicate that is none of the descriptors of the second process.
UniqueFd Above(int fd) {
  return UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, kSecondMemory + 1));
}

}  // namespace

void Wire::WriteBytes(const void* data, size_t size) const {
  if (send(socket_.get(), data, size, MSG_NOSIGNAL) !=
      static_cast<ssize_t>(size)) {
    throw Broken("the other process has ended");
  }
}

void Wire::ReadBytes(void* data, size_t size) const {
  for (size_t read = 0; read < size;) {
    pollfd readable = {.fd = socket_.get(), .events = POLLIN, .revents = 0};
    if (poll(&readable, 1, kMillisecondsToAnswer) != 1) {
      throw Broken("the other process did not answer within 20 s");
    }
    const ssize_t got =
        recv(socket_.get(), static_cast<char*>(data) + read, size - read, 0);
    if (got <= 0) throw Broken("the other process has ended");
    read += static_cast<size_t>(got);
  }
}

void Wire::AwaitEnd() const {
  for (char byte = 0; recv(socket_.get(), &byte, 1, 0) > 0;) {
  }
}

SecondProcess::SecondProcess(const std::string& role, int memory) {
  std::array<int, 2> ends = {};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw Broken("socketpair() failed");
  }
  wire_ = Wire(UniqueFd(ends[0]));
  const UniqueFd end(ends[1]);
  const UniqueFd theirs = Above(end.get());
  const UniqueFd passed = memory < 0 ? UniqueFd() : Above(memory);
  std::string arguments[] = {"checks", "--second", role,
                             memory < 0 ? "" : "memory"};
  char* argv[] = {arguments[0].data(), arguments[1].data(), arguments[2].data(),
                  memory < 0 ? nullptr : arguments[3].data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, theirs.get(), kSecondWire);
  if (passed.valid()) {
    posix_spawn_file_actions_adddup2(&actions, passed.get(), kSecondMemory);
  }
  const int error =
      posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw Broken(absl::StrCat("posix_spawn() failed: ", error));
}

SecondProcess::~SecondProcess() { Kill(); }

void SecondProcess::End() {
  shutdown(wire_.fd(), SHUT_WR);
  Reap();
}

void SecondProcess::Kill() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  Reap();
}

void SecondProcess::Reap() {
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

}  // namespace tenon::gpu_check

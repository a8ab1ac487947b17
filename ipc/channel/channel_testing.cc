// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/channel/channel_testing.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/frame.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {
Deadline Watchdog() { return Deadline::After(absl::Seconds(60)); }

UniqueFd FileWith(absl::string_view content) {
  UniqueFd fd(memfd_create("channel_test", MFD_CLOEXEC));
  const ssize_t written = pwrite(fd.get(), content.data(), content.size(), 0);
  EXPECT_EQ(written, static_cast<ssize_t>(content.size())) << strerror(errno);
  return fd;
}

std::string ContentOf(int fd) {
  char content[256];
  const ssize_t size = pread(fd, content, sizeof(content), 0);
  if (size < 0) return std::string("pread: ") + strerror(errno);
  return std::string(content, static_cast<size_t>(size));
}

bool IsCloseOnExec(int fd) {
  const int flags = fcntl(fd, F_GETFD);
  EXPECT_GE(flags, 0) << "descriptor " << fd << " is not open";
  return (flags & FD_CLOEXEC) != 0;
}

std::pair<UniqueFd, UniqueFd> SocketPair() {
  int fds[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0)
      << strerror(errno);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

bool SendRaw(int socket, absl::string_view bytes, absl::Span<const int> fds) {
  iovec part = {const_cast<char*>(bytes.data()), bytes.size()};
  msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 253)] = {};
  const size_t fd_bytes = fds.size() * sizeof(int);
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fd_bytes);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fd_bytes);
    std::memcpy(CMSG_DATA(header), fds.data(), fd_bytes);
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(bytes.size());
}

std::string GoodFrame(absl::string_view payload, size_t fd_count) {
  const FrameHeader header = {
      .payload_bytes = static_cast<uint32_t>(payload.size()),
      .fd_count = static_cast<uint16_t>(fd_count)};
  std::string frame(sizeof(header), '\0');
  std::memcpy(frame.data(), &header, sizeof(header));
  return frame.append(payload.data(), payload.size());
}

pid_t StartChild(absl::FunctionRef<void()> body) {
  fflush(nullptr);
  const pid_t child = fork();
  EXPECT_GE(child, 0) << strerror(errno);
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(120);
  body();
  fflush(nullptr);
  _exit(::testing::Test::HasFailure() ? 1 : 0);
}

int ExitCodeOf(pid_t child) {
  int status = 0;
  EXPECT_EQ(RetryOnEintr([&] { return waitpid(child, &status, 0); }), child)
      << strerror(errno);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void SkipInChild(absl::string_view why) {
  printf("skipped: %.*s\n", static_cast<int>(why.size()), why.data());
  fflush(nullptr);
  _exit(kSkipped);
}

}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/reporter.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {
namespace {

// With its kind and its end a message stays below PIPE_BUF (4096), so that
// messages of several writers do not mix.
constexpr size_t kMaxText = 4000;

}  // namespace

void Reporter::Write(char kind, absl::string_view text) const {
  const int saved_errno = errno;
  std::string message(1, kind);
  message.append(text.data(), std::min(text.size(), kMaxText));
  std::replace(message.begin(), message.end(), '\0', ' ');
  message.push_back('\0');
  (void)RetryOnEintr(
      [&] { return write(fd_, message.data(), message.size()); });
  errno = saved_errno;
}

absl::StatusOr<ReportPipe> ReportPipe::Create() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0) {
    return PosixError(errno, "pipe2", "report pipe");
  }
  return ReportPipe(UniqueFd(fds[0]), UniqueFd(fds[1]));
}

const Report& ReportPipe::Drain() {
  char buffer[4096];
  for (;;) {
    const ssize_t size = RetryOnEintr(
        [&] { return read(read_end_.get(), buffer, sizeof(buffer)); });
    if (size <= 0) return report_;
    unfinished_.append(buffer, static_cast<size_t>(size));
    size_t begin = 0;
    for (;;) {
      const size_t end = unfinished_.find('\0', begin);
      if (end == std::string::npos) break;
      Add(absl::string_view(unfinished_).substr(begin, end - begin));
      begin = end + 1;
    }
    unfinished_.erase(0, begin);
  }
}

void ReportPipe::Add(absl::string_view message) {
  const std::string text(message.substr(1));
  switch (message[0]) {
    case 'F':
      report_.failures.push_back(text);
      break;
    case 'N':
      ++report_.notes[text];
      break;
    default:
      report_.will_die = true;
  }
}

}  // namespace tenon

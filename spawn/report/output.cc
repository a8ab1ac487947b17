// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/report/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/spawn/settings/process_options.h"
#include "tenon/spawn/supervisor/program.h"

namespace tenon::spawn {
namespace {

// Above the descriptor numbers that a child uses.
absl::StatusOr<UniqueFd> MoveUp(UniqueFd fd) {
  UniqueFd moved(fcntl(fd.get(), F_DUPFD_CLOEXEC, kControlFd + 1));
  if (moved.valid()) return moved;
  return PosixError(errno, "fcntl(F_DUPFD_CLOEXEC)", "output of a child");
}

absl::StatusOr<UniqueFd> OpenLog(const std::string& path, int flags) {
  UniqueFd fd(RetryOnEintr([&] {
    return open(path.c_str(),
                O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | flags,
                0600);
  }));
  if (!fd.valid()) return PosixError(errno, "open", path);
  return MoveUp(std::move(fd));
}

// Whether it can be reopened: reopening the master of a terminal creates
// another terminal.
bool IsPipeOrTerminal(int fd) {
  struct stat about = {};
  int number = 0;
  return fstat(fd, &about) == 0 &&
         (S_ISFIFO(about.st_mode) ||
          (isatty(fd) != 0 && ioctl(fd, TIOCGPTN, &number) != 0));
}

// This process's own stream, for writes that do not block. A pipe or a terminal
// is reopened, because O_NONBLOCK on the stream itself would affect all
// processes that share it. Invalid if the stream is closed.
UniqueFd OpenOwn(int stream) {
  if (IsPipeOrTerminal(stream)) {
    UniqueFd anew(open(absl::StrCat("/proc/self/fd/", stream).c_str(),
                       O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
    if (anew.valid()) return anew;
  }
  // Without /proc, or if the file belongs to another user: a write may block if
  // another process writes to it, too, between poll() and write().
  return UniqueFd(fcntl(stream, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
}

// Writes a part that does not block after poll() has returned POLLOUT: a pipe
// then accepts PIPE_BUF bytes.
ssize_t WriteSome(int fd, const char* data, size_t size) {
  const size_t part = std::min(size, size_t{PIPE_BUF});
  const ssize_t sent = RetryOnEintr(
      [&] { return send(fd, data, part, MSG_DONTWAIT | MSG_NOSIGNAL); });
  if (sent >= 0 || errno != ENOTSOCK) return sent;
  return RetryOnEintr([&] { return write(fd, data, part); });
}

}  // namespace

absl::StatusOr<std::unique_ptr<Output>> Output::Create(
    const ProcessOptions& options) {
  std::unique_ptr<Output> output(new Output);
  const std::string* const paths[] = {&options.stdout_file,
                                      &options.stderr_file};
  for (size_t which = 0; which < 2; ++which) {
    const bool tail = which == 1 && options.keep_stderr_tail;
    const bool tee = options.tee && !paths[which]->empty();
    if (tail || tee) {
      TENON_RETURN_IF_ERROR(output->AddPipe(which, options, *paths[which]));
    } else if (!paths[which]->empty()) {
      TENON_RETURN_IF_ERROR(output->AddFile(which, *paths[which]));
    }
  }
  if (!output->streams_.empty()) {
    output->stop_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!output->stop_.valid()) return PosixError(errno, "eventfd", "output");
  }
  return output;
}

Output::~Output() { Finish(Deadline::Never()).IgnoreError(); }

absl::Status Output::AddFile(size_t which, const std::string& path) {
  TENON_ASSIGN_OR_RETURN(child_ends_[which], OpenLog(path, 0));
  return absl::OkStatus();
}

absl::Status Output::AddPipe(size_t which, const ProcessOptions& options,
                             const std::string& path) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return PosixError(errno, "pipe2", "output of a child");
  }
  Stream stream;
  stream.pipe = UniqueFd(ends[0]);
  UniqueFd writing(ends[1]);
  if (fcntl(stream.pipe.get(), F_SETFL, O_NONBLOCK) != 0) {
    return PosixError(errno, "fcntl(F_SETFL)", "output of a child");
  }
  TENON_ASSIGN_OR_RETURN(child_ends_[which], MoveUp(std::move(writing)));
  if (!path.empty()) {
    TENON_ASSIGN_OR_RETURN(UniqueFd file, OpenLog(path, O_NONBLOCK));
    stream.sinks.push_back(std::move(file));
  }
  // With a kept tail alone, the output still goes to its previous destination.
  if (path.empty() || options.tee) {
    UniqueFd own = OpenOwn(which == 0 ? STDOUT_FILENO : STDERR_FILENO);
    if (own.valid()) stream.sinks.push_back(std::move(own));
  }
  stream.is_stderr = which == 1;
  streams_.push_back(std::move(stream));
  return absl::OkStatus();
}

absl::Status Output::Begin() {
  for (UniqueFd& end : child_ends_) end.Reset();
  if (streams_.empty()) return absl::OkStatus();
  // Signals are left to the user's threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  absl::Status status;
  try {
    thread_ = std::thread([this] { Pump(); });
  } catch (const std::system_error& e) {
    status = absl::ResourceExhaustedError(
        absl::StrCat("pthread_create: output of a child: ", e.what()));
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return status;
}

void Output::Stop() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  RetryOnEintr([&] { return write(stop_.get(), &one, sizeof(one)); });
}

absl::Status Output::Finish(Deadline deadline) {
  if (!thread_.joinable()) return absl::OkStatus();
  Stop();
  std::unique_lock<std::mutex> lock(mutex_);
  while (!ended_.wait_for(lock,
                          absl::ToChronoNanoseconds(
                              std::min(deadline.Remaining(), absl::Hours(24))),
                          [&] { return has_ended_; })) {
    if (deadline.has_passed()) {
      return absl::DeadlineExceededError(
          "it has ended, but the rest of its output is not written yet");
    }
  }
  lock.unlock();
  thread_.join();
  streams_.clear();
  stop_.Reset();
  return absl::OkStatus();
}

void Output::Pump() {
  PassOnUntilStopped();
  if (give_up_.is_never()) give_up_ = Deadline::After(kPatience);
  // Here too, as SIGPIPE is blocked on this thread.
  for (Stream& stream : streams_) PassOnRest(stream);
  const std::lock_guard<std::mutex> lock(mutex_);
  has_ended_ = true;
  ended_.notify_all();
}

void Output::PassOnUntilStopped() {
  std::vector<pollfd> fds = {
      {.fd = stop_.get(), .events = POLLIN, .revents = 0}};
  for (const Stream& stream : streams_) {
    fds.push_back({.fd = stream.pipe.get(), .events = POLLIN, .revents = 0});
  }
  for (;;) {
    if (!PollUntil(fds.data(), fds.size(), Deadline::Never()).ok()) return;
    if (fds[0].revents != 0) return;
    for (size_t i = 0; i < streams_.size(); ++i) {
      if (fds[i + 1].revents == 0) continue;
      // poll() skips a negative descriptor.
      if (PassOn(streams_[i]) == 0 && (fds[i + 1].revents & POLLIN) == 0) {
        fds[i + 1].fd = -1;
      }
    }
  }
}

void Output::PassOnRest(Stream& stream) {
  // No more than now: stray descendants of the child may write forever.
  int left = 0;
  if (ioctl(stream.pipe.get(), FIONREAD, &left) != 0) return;
  while (left > 0) {
    const size_t passed = PassOn(stream);
    if (passed == 0) return;
    left -= static_cast<int>(passed);
  }
}

size_t Output::PassOn(Stream& stream) {
  char buffer[16 * 1024];
  const ssize_t got = RetryOnEintr(
      [&] { return read(stream.pipe.get(), buffer, sizeof(buffer)); });
  if (got <= 0) return 0;
  const size_t size = static_cast<size_t>(got);
  if (stream.is_stderr) KeepTail(buffer, size);
  for (const UniqueFd& sink : stream.sinks) WriteAll(sink.get(), buffer, size);
  return size;
}

void Output::WriteAll(int sink, const char* data, size_t size) {
  while (size > 0 && AwaitRoom(sink)) {
    const ssize_t written = WriteSome(sink, data, size);
    if (written < 0 && errno == EAGAIN && !give_up_.has_passed()) continue;
    if (written <= 0) break;
    data += written;
    size -= static_cast<size_t>(written);
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  lost_bytes_ += static_cast<int64_t>(size);
}

bool Output::AwaitRoom(int sink) {
  // poll() skips a negative descriptor.
  pollfd fds[] = {
      {.fd = sink, .events = POLLOUT, .revents = 0},
      {.fd = give_up_.is_never() ? stop_.get() : -1,
       .events = POLLIN,
       .revents = 0},
  };
  if (!PollUntil(fds, std::size(fds), give_up_).ok()) return false;
  if (fds[0].revents != 0) return true;
  if (fds[1].revents == 0) return false;
  give_up_ = Deadline::After(kPatience);
  return AwaitRoom(sink);
}

void Output::KeepTail(const char* data, size_t size) {
  const std::lock_guard<std::mutex> lock(mutex_);
  tail_.append(data, size);
  if (tail_.size() > kTailBytes) tail_.erase(0, tail_.size() - kTailBytes);
}

int64_t Output::lost_bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return lost_bytes_;
}

std::string Output::StderrTail() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return tail_;
}

}  // namespace tenon::spawn

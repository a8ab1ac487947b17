// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/report/output_pump.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
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
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon::spawn {
namespace {

// Writes a part that does not block after poll() has said POLLOUT: a pipe has
// room for PIPE_BUF bytes then. A terminal may have less, and another process
// may write to the same pipe first: the write blocks then, if the stream could
// not be opened anew.
ssize_t WriteSome(int fd, const char* data, size_t size) {
  const size_t part = std::min(size, size_t{PIPE_BUF});
  const ssize_t sent = RetryOnEintr(
      [&] { return send(fd, data, part, MSG_DONTWAIT | MSG_NOSIGNAL); });
  if (sent >= 0 || errno != ENOTSOCK) return sent;
  return RetryOnEintr([&] { return write(fd, data, part); });
}

int BytesIn(const UniqueFd& pipe) {
  int bytes = 0;
  return ioctl(pipe.get(), FIONREAD, &bytes) == 0 ? bytes : 0;
}

}  // namespace

absl::StatusOr<std::shared_ptr<OutputPump>> OutputPump::Create(
    std::vector<OutputStream> streams) {
  UniqueFd stop(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop.valid()) return PosixError(errno, "eventfd", "output");
  return std::shared_ptr<OutputPump>(
      new OutputPump(std::move(streams), std::move(stop)));
}

absl::Status OutputPump::Begin() {
  // Signals are for the user's threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  absl::Status status;
  try {
    thread_ = std::thread([self = shared_from_this()] { self->Run(); });
  } catch (const std::system_error& e) {
    status = absl::ResourceExhaustedError(
        absl::StrCat("pthread_create: output of a child: ", e.what()));
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return status;
}

void OutputPump::Stop() {
  if (!thread_.joinable()) return;
  if (leave_.is_never()) leave_ = Deadline::After(2 * kPatience);
  const uint64_t one = 1;
  RetryOnEintr([&] { return write(stop_.get(), &one, sizeof(one)); });
}

absl::Status OutputPump::Finish(Deadline deadline) {
  if (!thread_.joinable()) return absl::OkStatus();
  Stop();
  {
    const ThreadLock lock(&mutex_);
    while (!has_ended_) {
      if (leave_.has_passed()) {
        LeaveBehind();
        return absl::OkStatus();
      }
      if (deadline.has_passed()) {
        return absl::DeadlineExceededError(
            "it has ended, and the last of its output is not written yet");
      }
      ended_.WaitFor(&mutex_, Earlier(deadline, leave_).Remaining());
    }
  }
  thread_.join();
  streams_.clear();
  stop_.Reset();
  return absl::OkStatus();
}

void OutputPump::LeaveBehind() {
  is_left_behind_ = true;
  lost_bytes_ += std::exchange(in_flight_bytes_, 0);
  for (const OutputStream& stream : streams_) {
    lost_bytes_ += BytesIn(stream.pipe) * std::ssize(stream.sinks);
  }
  thread_.detach();
}

void OutputPump::Run() {
  PassOnUntilStopped();
  if (give_up_.is_never()) give_up_ = Deadline::After(kPatience);
  // Here too, as SIGPIPE is blocked on this thread.
  for (const OutputStream& stream : streams_) PassOnRest(stream);
  const ThreadLock lock(&mutex_);
  has_ended_ = true;
  ended_.NotifyAll();
}

void OutputPump::PassOnUntilStopped() {
  std::vector<pollfd> fds = {
      {.fd = stop_.get(), .events = POLLIN, .revents = 0}};
  for (const OutputStream& stream : streams_) {
    fds.push_back({.fd = stream.pipe.get(), .events = POLLIN, .revents = 0});
  }
  for (;;) {
    if (!PollUntil(fds, Deadline::Never()).ok()) return;
    if (fds[0].revents != 0) return;
    for (size_t i = 0; i < streams_.size(); ++i) {
      if (fds[i + 1].revents == 0) continue;
      // poll() passes over a negative one.
      if (PassOn(streams_[i]) == 0 && (fds[i + 1].revents & POLLIN) == 0) {
        fds[i + 1].fd = -1;
      }
    }
  }
}

void OutputPump::PassOnRest(const OutputStream& stream) {
  // No more: descendants that the child has left behind may write for ever.
  int left = BytesIn(stream.pipe);
  while (left > 0) {
    const size_t passed = PassOn(stream);
    if (passed == 0) return;
    left -= static_cast<int>(passed);
  }
}

size_t OutputPump::PassOn(const OutputStream& stream) {
  char buffer[16 * 1024];
  const ssize_t got = RetryOnEintr(
      [&] { return read(stream.pipe.get(), buffer, sizeof(buffer)); });
  if (got <= 0) return 0;
  const size_t size = static_cast<size_t>(got);
  if (!NoteRead(stream, buffer, size)) return 0;
  for (const UniqueFd& sink : stream.sinks) {
    if (!WriteAll(sink.get(), buffer, size)) return 0;
  }
  return size;
}

bool OutputPump::WriteAll(int sink, const char* data, size_t size) {
  while (size > 0 && AwaitRoom(sink)) {
    const ssize_t written = WriteSome(sink, data, size);
    if (written < 0 && errno == EAGAIN && !give_up_.has_passed()) continue;
    if (written <= 0) break;
    data += written;
    size -= static_cast<size_t>(written);
    if (!NoteWritten(static_cast<size_t>(written))) return false;
  }
  return NoteLost(size);
}

bool OutputPump::AwaitRoom(int sink) {
  // poll() passes over a negative one.
  pollfd fds[] = {
      {.fd = sink, .events = POLLOUT, .revents = 0},
      {.fd = give_up_.is_never() ? stop_.get() : -1,
       .events = POLLIN,
       .revents = 0},
  };
  if (!PollUntil(fds, give_up_).ok()) return false;
  if (fds[0].revents != 0) return true;
  if (fds[1].revents == 0) return false;
  give_up_ = Deadline::After(kPatience);
  return AwaitRoom(sink);
}

bool OutputPump::NoteRead(const OutputStream& stream, const char* data,
                          size_t size) {
  const ThreadLock lock(&mutex_);
  if (is_left_behind_) return false;
  in_flight_bytes_ += static_cast<int64_t>(size) * std::ssize(stream.sinks);
  if (!stream.is_stderr) return true;
  tail_.append(data, size);
  if (tail_.size() > kTailBytes) tail_.erase(0, tail_.size() - kTailBytes);
  return true;
}

bool OutputPump::NoteWritten(size_t size) {
  const ThreadLock lock(&mutex_);
  if (is_left_behind_) return false;
  in_flight_bytes_ -= static_cast<int64_t>(size);
  return true;
}

bool OutputPump::NoteLost(size_t size) {
  const ThreadLock lock(&mutex_);
  if (is_left_behind_) return false;
  in_flight_bytes_ -= static_cast<int64_t>(size);
  lost_bytes_ += static_cast<int64_t>(size);
  return true;
}

int64_t OutputPump::lost_bytes() const {
  const ThreadLock lock(&mutex_);
  return lost_bytes_;
}

std::string OutputPump::StderrTail() const {
  const ThreadLock lock(&mutex_);
  return tail_;
}

}  // namespace tenon::spawn

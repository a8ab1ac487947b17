// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/report/output.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/spawn/report/output_pump.h"
#include "tenon/spawn/settings/process_options.h"
#include "tenon/spawn/supervisor/program.h"

namespace tenon::spawn {
namespace {

// Above the descriptor numbers that a child uses. In a process without stdout
// or stderr a descriptor must not take that number: OpenOwn() would find it,
// and the output would be copied into its own pipe.
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
absl::StatusOr<UniqueFd> OpenOwn(int stream) {
  if (IsPipeOrTerminal(stream)) {
    UniqueFd anew(open(absl::StrCat("/proc/self/fd/", stream).c_str(),
                       O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
    if (anew.valid()) return MoveUp(std::move(anew));
  }
  // Without /proc, or if the file belongs to another user: a write may block
  // (output_pump.h).
  UniqueFd own(fcntl(stream, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (own.valid() || errno == EBADF) return own;
  return PosixError(errno, "fcntl(F_DUPFD_CLOEXEC)",
                    absl::StrCat("this process's descriptor ", stream));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Output>> Output::Create(
    const ProcessOptions& options) {
  std::unique_ptr<Output> output(new Output);
  std::vector<OutputStream> streams;
  const std::string* const paths[] = {&options.stdout_file,
                                      &options.stderr_file};
  for (size_t which = 0; which < 2; ++which) {
    const bool tail = which == 1 && options.keep_stderr_tail;
    const bool tee = options.tee && !paths[which]->empty();
    if (tail || tee) {
      TENON_ASSIGN_OR_RETURN(OutputStream stream,
                             output->AddPipe(which, options, *paths[which]));
      streams.push_back(std::move(stream));
    } else if (!paths[which]->empty()) {
      TENON_RETURN_IF_ERROR(output->AddFile(which, *paths[which]));
    }
  }
  if (!streams.empty()) {
    TENON_ASSIGN_OR_RETURN(output->pump_,
                           OutputPump::Create(std::move(streams)));
  }
  return output;
}

Output::~Output() { Finish(Deadline::Never()).IgnoreError(); }

absl::Status Output::AddFile(size_t which, const std::string& path) {
  TENON_ASSIGN_OR_RETURN(child_ends_[which], OpenLog(path, 0));
  return absl::OkStatus();
}

absl::StatusOr<OutputStream> Output::AddPipe(size_t which,
                                             const ProcessOptions& options,
                                             const std::string& path) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return PosixError(errno, "pipe2", "output of a child");
  }
  UniqueFd reading(ends[0]), writing(ends[1]);
  OutputStream stream;
  TENON_ASSIGN_OR_RETURN(stream.pipe, MoveUp(std::move(reading)));
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
    TENON_ASSIGN_OR_RETURN(UniqueFd own,
                           OpenOwn(which == 0 ? STDOUT_FILENO : STDERR_FILENO));
    if (own.valid()) stream.sinks.push_back(std::move(own));
  }
  stream.is_stderr = which == 1;
  return stream;
}

absl::Status Output::Begin() {
  for (UniqueFd& end : child_ends_) end.Reset();
  return pump_ == nullptr ? absl::OkStatus() : pump_->Begin();
}

void Output::Stop() {
  if (pump_ != nullptr) pump_->Stop();
}

absl::Status Output::Finish(Deadline deadline) {
  return pump_ == nullptr ? absl::OkStatus() : pump_->Finish(deadline);
}

int64_t Output::lost_bytes() const {
  return pump_ == nullptr ? 0 : pump_->lost_bytes();
}

std::string Output::StderrTail() const {
  return pump_ == nullptr ? "" : pump_->StderrTail();
}

}  // namespace tenon::spawn

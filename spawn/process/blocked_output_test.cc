// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A parent whose own stdout and stderr accept no output: a pager, a stopped
// terminal, a dead connection. Its children's output goes there.

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/process/processes.h"
#include "tenon/spawn/report/process_error.h"
#include "tenon/spawn/testing/child_testing.h"

namespace tenon::spawn {
namespace {

using ::testing::HasSubstr;

// The argument of a parent: "pipe", "socket", "terminal" or "emulator", a
// space, the name of a file.
std::string KindOf(Child& child) {
  return child.argument().substr(0, child.argument().find(' '));
}
std::string FileOf(Child& child) {
  return child.argument().substr(child.argument().find(' ') + 1);
}

// The end that a terminal emulator has. It cannot be opened anew, and a write
// to it blocks although poll() has found room for a part.
bool OpenEmulator(int (&ends)[2]) {
  ends[1] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (grantpt(ends[1]) != 0 || unlockpt(ends[1]) != 0) return false;
  ends[0] = open(ptsname(ends[1]), O_RDWR | O_NOCTTY | O_CLOEXEC);
  termios raw;
  if (tcgetattr(ends[0], &raw) != 0) return false;
  cfmakeraw(&raw);  // Nothing is dropped.
  return tcsetattr(ends[0], TCSANOW, &raw) == 0;
}

// The end to read from, and the end to write to.
bool OpenStream(const std::string& kind, int (&ends)[2]) {
  if (kind == "emulator") return OpenEmulator(ends);
  if (kind == "pipe") return pipe2(ends, O_CLOEXEC) == 0;
  if (kind == "socket") {
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0;
  }
  ends[0] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (grantpt(ends[0]) != 0 || unlockpt(ends[0]) != 0) return false;
  ends[1] = open(ptsname(ends[0]), O_RDWR | O_NOCTTY | O_CLOEXEC);
  return tcflow(ends[1], TCOOFF) == 0;  // Ctrl-S.
}

// Makes stdout and stderr of this process one full stream. Returns the reading
// end, which is not read.
absl::StatusOr<UniqueFd> BlockStreams(const std::string& kind) {
  int ends[2];
  if (!OpenStream(kind, ends)) return absl::ErrnoToStatus(errno, kind);
  UniqueFd reading(ends[0]);
  const UniqueFd writing(ends[1]);
  const int flags = fcntl(writing.get(), F_GETFL);
  fcntl(writing.get(), F_SETFL, flags | O_NONBLOCK);
  const std::string zeros(4096, 'z');
  while (write(writing.get(), zeros.data(), zeros.size()) > 0) {
  }
  fcntl(writing.get(), F_SETFL, flags);
  dup2(writing.get(), STDOUT_FILENO);
  dup2(writing.get(), STDERR_FILENO);
  return reading;
}

absl::Status WaitForEnd(const Process& process) {
  pollfd end = {.fd = process.end_fd(), .events = POLLIN, .revents = 0};
  TENON_ASSIGN_OR_RETURN(const int count, PollUntil({&end, 1}, Watchdog()));
  return count > 0 ? absl::OkStatus() : absl::DeadlineExceededError("runs");
}

absl::Status Say(absl::string_view what, int64_t value, int64_t expected) {
  if (value == expected) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(what, ": ", value, ", not ", expected));
}

absl::Status Greet(Child&) {
  fprintf(stdout, "out\n");
  fprintf(stderr, "err\n");
  return absl::OkStatus();
}
TENON_SPAWN_ENTRY("greet", Greet);

absl::StatusOr<Process> StartGreeter(Child& parent) {
  return Process::Start({.entry = "greet",
                         .stdout_file = FileOf(parent),
                         .stderr_file = FileOf(parent),
                         .tee = true});
}

// Writes to stderr until it is killed, starting with more than a kept tail.
absl::Status WriteOnAndOn(Child&) {
  fputs(std::string(8192, '-').c_str(), stderr);
  for (;;) fprintf(stderr, "on and on\n");
}
TENON_SPAWN_ENTRY("write-on-and-on", WriteOnAndOn);

absl::Status JoinWithoutDeadline(Child& self) {
  TENON_ASSIGN_OR_RETURN(const UniqueFd end, BlockStreams(KindOf(self)));
  TENON_ASSIGN_OR_RETURN(Process child, StartGreeter(self));
  TENON_RETURN_IF_ERROR(child.Join(Deadline::Never()));
  return Say("lost bytes", child.lost_output_bytes(), 8);
}
TENON_SPAWN_ENTRY("join-without-deadline", JoinWithoutDeadline);

absl::Status JoinWithDeadline(Child& self) {
  TENON_ASSIGN_OR_RETURN(const UniqueFd end, BlockStreams(KindOf(self)));
  TENON_ASSIGN_OR_RETURN(Process child, StartGreeter(self));
  TENON_RETURN_IF_ERROR(WaitForEnd(child));
  for (;;) {
    absl::Status how = child.Join(Deadline::Passed());
    if (child.joined()) return how;
    if (!absl::IsDeadlineExceeded(how)) return how;
  }
}
TENON_SPAWN_ENTRY("join-with-deadline", JoinWithDeadline);

absl::Status JoinKilled(Child& self) {
  TENON_ASSIGN_OR_RETURN(const UniqueFd end, BlockStreams(KindOf(self)));
  TENON_ASSIGN_OR_RETURN(Process child,
                         Process::Start({.entry = "write-on-and-on",
                                         .stderr_file = FileOf(self),
                                         .tee = true,
                                         .keep_stderr_tail = true}));
  const Deadline watchdog = Watchdog();
  while (std::filesystem::file_size(FileOf(self)) == 0) {
    if (watchdog.has_passed()) return absl::InternalError("nothing is written");
  }
  TENON_RETURN_IF_ERROR(child.Kill());
  const absl::Status how = child.Join(Deadline::Never());
  const auto exited = GetProcessExited(how);
  if (!exited) return how;
  TENON_RETURN_IF_ERROR(Say("bytes of the tail",
                            static_cast<int64_t>(exited->stderr_tail.size()),
                            4096));
  const std::string lost =
      absl::StrCat(child.lost_output_bytes(), " bytes of its output");
  if (!absl::StrContains(how.message(), lost)) return how;
  return Say("lost bytes", child.lost_output_bytes(),
             static_cast<int64_t>(std::filesystem::file_size(FileOf(self))));
}
TENON_SPAWN_ENTRY("join-killed", JoinKilled);

// Worker 0 fails with output that cannot be written; the other one lives.
absl::Status GreetAndFailOrSleep(Child& child) {
  if (child.index() > 0) {
    for (;;) pause();
  }
  Greet(child).IgnoreError();
  return absl::NotFoundError("no image");
}
TENON_SPAWN_ENTRY("greet-and-fail-or-sleep", GreetAndFailOrSleep);

absl::Status JoinBesideASleeper(Child& self) {
  TENON_ASSIGN_OR_RETURN(const UniqueFd end, BlockStreams(KindOf(self)));
  TENON_ASSIGN_OR_RETURN(
      Processes children,
      Processes::Start(2, {.entry = "greet-and-fail-or-sleep",
                           .stdout_file = FileOf(self),
                           .stderr_file = FileOf(self),
                           .tee = true}));
  TENON_RETURN_IF_ERROR(WaitForEnd(children[0]));
  for (;;) {
    const absl::Status how = children.Join(Deadline::Passed());
    if (absl::IsDeadlineExceeded(how)) continue;
    return absl::IsNotFound(how) ? absl::OkStatus() : how;
  }
}
TENON_SPAWN_ENTRY("join-beside-a-sleeper", JoinBesideASleeper);

// The pump finds room in the stream, and less than it writes.
absl::Status JoinInAWrite(Child& self) {
  TENON_ASSIGN_OR_RETURN(const UniqueFd end, BlockStreams(KindOf(self)));
  pollfd room = {.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  do {
    char some[1024];
    if (read(end.get(), some, sizeof(some)) <= 0) {
      return absl::InternalError("nothing to read");
    }
  } while (poll(&room, 1, 10) == 0);
  TENON_ASSIGN_OR_RETURN(Process child,
                         Process::Start({.entry = "write-on-and-on",
                                         .stderr_file = FileOf(self),
                                         .tee = true}));
  while (std::filesystem::file_size(FileOf(self)) == 0) {
  }
  TENON_RETURN_IF_ERROR(child.Kill());
  const absl::Status how = child.Join(Deadline::Never());
  if (!GetProcessExited(how)) return how;
  return child.lost_output_bytes() > 0
             ? absl::OkStatus()
             : absl::InternalError("no bytes are lost");
}
TENON_SPAWN_ENTRY("join-in-a-write", JoinInAWrite);

absl::Status DropOne(Child& self) {
  TENON_ASSIGN_OR_RETURN(const UniqueFd end, BlockStreams(KindOf(self)));
  TENON_ASSIGN_OR_RETURN(Process child, StartGreeter(self));
  return WaitForEnd(child);
}
TENON_SPAWN_ENTRY("drop-one", DropOne);

absl::Status DropMany(Child& self) {
  TENON_ASSIGN_OR_RETURN(const UniqueFd end, BlockStreams(KindOf(self)));
  TENON_ASSIGN_OR_RETURN(const Processes children,
                         Processes::Start(8, {.entry = "greet",
                                              .stdout_file = FileOf(self),
                                              .keep_stderr_tail = true}));
  return WaitForEnd(children[7]);
}
TENON_SPAWN_ENTRY("drop-many", DropMany);

absl::Status CloseEnded(Child& self) {
  TENON_ASSIGN_OR_RETURN(const UniqueFd end, BlockStreams(KindOf(self)));
  TENON_ASSIGN_OR_RETURN(Process child, StartGreeter(self));
  TENON_RETURN_IF_ERROR(WaitForEnd(child));
  return child.Close();
}
TENON_SPAWN_ENTRY("close-ended", CloseEnded);

// The parent's stream is read after all, while the child lives.
absl::Status JoinReadInTime(Child& self) {
  TENON_ASSIGN_OR_RETURN(UniqueFd end, BlockStreams(KindOf(self)));
  TENON_ASSIGN_OR_RETURN(Process child,
                         Process::Start({.entry = "write-on-and-on",
                                         .stderr_file = FileOf(self),
                                         .tee = true}));
  tcflow(STDOUT_FILENO, TCOON);  // Of a terminal, Ctrl-Q.
  std::string all;
  char buffer[4096];
  while (!absl::StrContains(all, "on and on")) {
    const ssize_t got = read(end.get(), buffer, sizeof(buffer));
    if (got <= 0) return absl::InternalError("nothing to read");
    all.append(buffer, static_cast<size_t>(got));
  }
  return absl::OkStatus();
}
TENON_SPAWN_ENTRY("join-read-in-time", JoinReadInTime);

class BlockedOutputTest : public ChildTest,
                          public testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    file_ = absl::StrCat(testing::TempDir(), "/blocked_output_", getpid());
    ChildTest::SetUp();
  }
  void TearDown() override {
    ChildTest::TearDown();
    std::filesystem::remove(file_);
  }

  // The outcome of the parent `entry`.
  absl::Status Run(const std::string& entry) {
    TENON_ASSIGN_OR_RETURN(
        Process parent,
        Process::Start({.entry = entry,
                        .argument = absl::StrCat(GetParam(), " ", file_)}));
    return parent.Join(Watchdog());
  }
  std::string Contents() const {
    std::ifstream file(file_, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

 private:
  std::string file_;
};

TEST_P(BlockedOutputTest, JoinReturnsAndSaysWhatIsLost) {
  EXPECT_THAT(Run("join-without-deadline"), IsOk());
  EXPECT_THAT(Contents(), HasSubstr("out\n"));
  EXPECT_THAT(Contents(), HasSubstr("err\n"));
}

TEST_P(BlockedOutputTest, DeadlinesHold) {
  EXPECT_THAT(Run("join-with-deadline"), IsOk());
}

TEST_P(BlockedOutputTest, DeadlinesHoldBesideAWorkerThatLives) {
  EXPECT_THAT(Run("join-beside-a-sleeper"), IsOk());
}

TEST_P(BlockedOutputTest, TheErrorOfAKilledChildHasTheEndAndSaysWhatIsLost) {
  EXPECT_THAT(Run("join-killed"), IsOk());
}

TEST_P(BlockedOutputTest, AChildIsDropped) {
  EXPECT_THAT(Run("drop-one"), IsOk());
}

TEST_P(BlockedOutputTest, ManyChildrenAreDropped) {
  EXPECT_THAT(Run("drop-many"), IsOk());
}

TEST_P(BlockedOutputTest, AnEndedChildIsClosed) {
  EXPECT_THAT(Run("close-ended"), IsOk());
}

TEST_P(BlockedOutputTest, WhatIsReadAgainGoesOn) {
  EXPECT_THAT(Run("join-read-in-time"), IsOk());
}

INSTANTIATE_TEST_SUITE_P(Streams, BlockedOutputTest,
                         testing::Values("pipe", "socket", "terminal"),
                         [](const auto& one) { return one.param; });

// A test of one kind of stream.
class BlockedWriteTest : public BlockedOutputTest {};

TEST_P(BlockedWriteTest, IsLeftBehind) {
  EXPECT_THAT(Run("join-in-a-write"), IsOk());
}

INSTANTIATE_TEST_SUITE_P(Streams, BlockedWriteTest, testing::Values("emulator"),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace tenon::spawn

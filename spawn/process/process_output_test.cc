// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Destinations of a child's output, and its kept tail.

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
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

using ::testing::EndsWith;
using ::testing::HasSubstr;

class ProcessOutputTest : public ChildTest {
 protected:
  void SetUp() override {
    directory_ = absl::StrCat(testing::TempDir(), "/output_test_", getpid());
    std::filesystem::create_directory(directory_);
    ChildTest::SetUp();
  }
  void TearDown() override {
    ChildTest::TearDown();
    std::filesystem::remove_all(directory_);
  }
  std::string File(const std::string& name) const {
    return absl::StrCat(directory_, "/", name);
  }
  std::string Contents(const std::string& name) const {
    std::ifstream file(File(name), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

 private:
  std::string directory_;
};

absl::Status Print(Child& child) {
  printf("out %d\n", child.index());
  fprintf(stderr, "err %d\n", child.index());
  return absl::OkStatus();
}
TENON_SPAWN_ENTRY("print", Print);

TEST_F(ProcessOutputTest, IntoFilesOfEach) {
  for (int round = 0; round < 2; ++round) {
    TENON_ASSERT_OK_AND_ASSIGN(
        Processes two,
        Processes::Start(2, {.entry = "print",
                             .stdout_file = File("out.{index}"),
                             .stderr_file = File("err.{index}")}));
    EXPECT_THAT(two.Join(Watchdog()), IsOk());
  }
  EXPECT_EQ(Contents("out.0"), "out 0\nout 0\n") << "appended";
  EXPECT_EQ(Contents("out.1"), "out 1\nout 1\n");
  EXPECT_EQ(Contents("err.1"), "err 1\nerr 1\n");
}

TEST_F(ProcessOutputTest, BothIntoOneFile) {
  TENON_ASSERT_OK_AND_ASSIGN(Process one,
                             Process::Start({.entry = "print",
                                             .stdout_file = File("both"),
                                             .stderr_file = File("both")}));
  EXPECT_THAT(one.Join(Watchdog()), IsOk());
  EXPECT_THAT(Contents("both"), HasSubstr("out 0\n"));
  EXPECT_THAT(Contents("both"), HasSubstr("err 0\n"));
}

TEST_F(ProcessOutputTest, FileThatCannotBeOpenedIsToldAtTheStart) {
  EXPECT_THAT(
      Process::Start({.entry = "print", .stdout_file = File("no such/file")}),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("no such/file")));
}

// Starts a child whose output goes to a file and to this process's streams.
absl::Status PrintByChild(Child& child) {
  absl::StatusOr<Process> one =
      Process::Start({.entry = "print",
                      .index = 7,
                      .stdout_file = child.argument() + ".out",
                      .stderr_file = child.argument() + ".err",
                      .tee = true});
  TENON_RETURN_IF_ERROR(one.status());
  return one->Join(Watchdog());
}
TENON_SPAWN_ENTRY("print-by-child", PrintByChild);

TEST_F(ProcessOutputTest, TeeGoesToBoth) {
  TENON_ASSERT_OK_AND_ASSIGN(Process one,
                             Process::Start({.entry = "print-by-child",
                                             .argument = File("child"),
                                             .stdout_file = File("out"),
                                             .stderr_file = File("err")}));
  EXPECT_THAT(one.Join(Watchdog()), IsOk());
  for (const char* out : {"out", "child.out"}) {
    EXPECT_EQ(Contents(out), "out 7\n") << out;
  }
  for (const char* err : {"err", "child.err"}) {
    EXPECT_EQ(Contents(err), "err 7\n") << err;
  }
}

// Writes the number of lines given by the argument, and dies.
absl::Status PrintAndDie(Child& child) {
  const int lines = std::stoi(child.argument());
  for (int i = 0; i < lines; ++i) fprintf(stderr, "line %d\n", i);
  _exit(3);
}
TENON_SPAWN_ENTRY("print-and-die", PrintAndDie);

TEST_F(ProcessOutputTest, EndOfStderrIsInTheError) {
  TENON_ASSERT_OK_AND_ASSIGN(Process one,
                             Process::Start({.entry = "print-and-die",
                                             .argument = "100000",
                                             .stderr_file = File("err"),
                                             .keep_stderr_tail = true}));
  const absl::Status how = one.Join(Watchdog());
  const auto exited = GetProcessExited(how);
  ASSERT_TRUE(exited.has_value());
  EXPECT_EQ(exited->stderr_tail.size(), 4096u);
  EXPECT_THAT(exited->stderr_tail, EndsWith("line 99998\nline 99999\n"));
  EXPECT_THAT(std::string(how.message()), HasSubstr("line 99999"));
  EXPECT_THAT(Contents("err"), EndsWith(exited->stderr_tail));
  EXPECT_THAT(Contents("err"), HasSubstr("line 0\n"));
}

TEST_F(ProcessOutputTest, NothingIsKeptUnlessAskedFor) {
  TENON_ASSERT_OK_AND_ASSIGN(Process one,
                             Process::Start({.entry = "print-and-die",
                                             .argument = "1",
                                             .stderr_file = File("err")}));
  EXPECT_EQ(GetProcessExited(one.Join(Watchdog()))->stderr_tail, "");
}

TEST_F(ProcessOutputTest, DroppedWhileItPrints) {
  for (int i = 0; i < 20; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(Process one,
                               Process::Start({.entry = "print-and-die",
                                               .argument = "100000000",
                                               .stderr_file = "/dev/null",
                                               .keep_stderr_tail = true}));
  }
}

// Leaves descendants outside its process group that write forever.
absl::Status LeaveWriters(Child&) {
  for (int i = 0; i < 4; ++i) {
    if (fork() != 0) continue;
    setsid();
    alarm(20);
    const std::string line(64 * 1024, 'x');
    while (write(STDERR_FILENO, line.data(), line.size()) > 0) {
    }
    _exit(0);  // The reading end is closed.
  }
  absl::SleepFor(absl::Milliseconds(10));  // Time for them to begin.
  return absl::OkStatus();
}
TENON_SPAWN_ENTRY("leave-writers", LeaveWriters);

TEST_F(ProcessOutputTest, ThoseWhomAChildLeavesBehindHoldUpNobody) {
  // A file that accepts only some 0.8 MB a second, so that writing to it never
  // finishes.
  ASSERT_EQ(mkfifo(File("slow").c_str(), 0600), 0);
  const UniqueFd slow(open(File("slow").c_str(), O_RDWR | O_CLOEXEC));
  std::atomic<bool> joined = false;
  size_t bytes = 0;
  std::thread reader([&] {
    char buffer[16 * 1024];
    while (!joined) {
      pollfd readable = {.fd = slow.get(), .events = POLLIN, .revents = 0};
      if (poll(&readable, 1, 20) != 1) continue;
      const ssize_t got = read(slow.get(), buffer, sizeof(buffer));
      bytes += got > 0 ? static_cast<size_t>(got) : 0;
      absl::SleepFor(absl::Milliseconds(20));
    }
  });
  absl::StatusOr<Process> one = Process::Start({.entry = "leave-writers",
                                                .stderr_file = File("slow"),
                                                .keep_stderr_tail = true});
  EXPECT_THAT(one, IsOk());
  if (one.ok()) {
    EXPECT_THAT(one->Join(Watchdog()), IsOk());
  }
  joined = true;
  reader.join();
  EXPECT_GT(bytes, 0u);
  EXPECT_LT(bytes, size_t{8} << 20) << "of the 16 MB until they end";
}

// Unflushed output of the parent appears once, not again from each child.
absl::Status PrintAndFork(Child&) {
  printf("before ");
  absl::StatusOr<Process> one = Process::Start({.entry = "print",
                                                .method = StartMethod::kFork,
                                                .fork_with_threads = true});
  TENON_RETURN_IF_ERROR(one.status());
  return one->Join(Watchdog());
}
TENON_SPAWN_ENTRY("print-and-fork", PrintAndFork);

TEST_F(ProcessOutputTest, NothingIsPrintedTwiceByFork) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer ends a fork of several threads";
#endif
  TENON_ASSERT_OK_AND_ASSIGN(Process one,
                             Process::Start({.entry = "print-and-fork",
                                             .stdout_file = File("out"),
                                             .stderr_file = File("err")}));
  EXPECT_THAT(one.Join(Watchdog()), IsOk());
  EXPECT_EQ(Contents("out"), "before out 0\n");
}

}  // namespace
}  // namespace tenon::spawn

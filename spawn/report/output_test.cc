// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The test writes in the place of a child.

#include "tenon/spawn/report/output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/settings/process_options.h"

namespace tenon::spawn {
namespace {

using ::testing::HasSubstr;

// Makes stdout of this process a pipe, meanwhile.
class PipeAsStdout {
 public:
  PipeAsStdout() {
    fflush(stdout);
    saved_ = UniqueFd(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    reading_ = UniqueFd(ends[0]);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[1]);
  }
  ~PipeAsStdout() { Restore(); }

  void Restore() {
    if (!saved_.valid()) return;
    dup2(saved_.get(), STDOUT_FILENO);
    saved_.Reset();
  }

  void Fill() {
    const int flags = fcntl(STDOUT_FILENO, F_GETFL);
    fcntl(STDOUT_FILENO, F_SETFL, flags | O_NONBLOCK);
    const std::string zeros(4096, 'z');
    while (write(STDOUT_FILENO, zeros.data(), zeros.size()) > 0) {
    }
    fcntl(STDOUT_FILENO, F_SETFL, flags);
  }

  // All that was written, once no writer is left.
  std::string ReadAll() {
    Restore();
    std::string all;
    char part[4096];
    for (ssize_t got; (got = read(reading_.get(), part, sizeof(part))) > 0;) {
      all.append(part, static_cast<size_t>(got));
    }
    return all;
  }

 private:
  UniqueFd saved_;
  UniqueFd reading_;
};

std::string Numbers(size_t size) {
  std::string text;
  for (int i = 0; text.size() < size; ++i) absl::StrAppend(&text, i, " ");
  text.resize(size);
  return text;
}

class OutputTest : public testing::Test {
 protected:
  void SetUp() override {
    fds_before_ = CountOpenFds();
    directory_ = absl::StrCat(testing::TempDir(), "/output_test_", getpid());
    std::filesystem::create_directory(directory_);
  }
  void TearDown() override {
    std::filesystem::remove_all(directory_);
    EXPECT_EQ(CountOpenFds(), fds_before_);
  }

  std::string Path(const std::string& name) const {
    return directory_ + "/" + name;
  }
  std::string ContentsOf(const std::string& name) const {
    std::ifstream file(Path(name), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

  // Copies of the child's ends, which Begin() closes here.
  static UniqueFd ChildsEnd(int fd) {
    return UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 3));
  }
  static void Write(const UniqueFd& to, absl::string_view text) {
    ASSERT_EQ(write(to.get(), text.data(), text.size()),
              static_cast<ssize_t>(text.size()));
  }

 private:
  std::string directory_;
  size_t fds_before_ = 0;
};

TEST_F(OutputTest, WithoutOptionsStreamsAreInherited) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto output, Output::Create({}));
  EXPECT_EQ(output->stdout_fd(), -1);
  EXPECT_EQ(output->stderr_fd(), -1);
  EXPECT_THAT(output->Begin(), IsOk());
  output->Stop();
  EXPECT_THAT(output->Finish(Deadline::Passed()), IsOk());
  EXPECT_EQ(output->StderrTail(), "");
  EXPECT_EQ(output->lost_bytes(), 0);
}

TEST_F(OutputTest, OneFileIsTheChildsOwn) {
  std::ofstream(Path("out")) << "before ";
  TENON_ASSERT_OK_AND_ASSIGN(const auto output,
                             Output::Create({.stdout_file = Path("out")}));
  EXPECT_GT(output->stdout_fd(), 3) << "a number that the child uses";
  EXPECT_EQ(output->stderr_fd(), -1);
  const UniqueFd child = ChildsEnd(output->stdout_fd());
  EXPECT_THAT(output->Begin(), IsOk());
  EXPECT_THAT(output->Finish(Deadline::Passed()), IsOk());
  // It needs no thread, so it writes for as long as it likes.
  Write(child, "after");
  EXPECT_EQ(ContentsOf("out"), "before after");
}

TEST_F(OutputTest, AFileThatCannotBeOpenedIsNamed) {
  for (const bool tee : {false, true}) {
    EXPECT_THAT(
        Output::Create({.stderr_file = Path("no/such/file"), .tee = tee}),
        StatusIs(absl::StatusCode::kNotFound, HasSubstr("no/such/file")));
  }
}

TEST_F(OutputTest, TheTailIsTheEndOfStderr) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto output,
                             Output::Create({.stdout_file = Path("out"),
                                             .stderr_file = Path("err"),
                                             .keep_stderr_tail = true}));
  const UniqueFd out = ChildsEnd(output->stdout_fd());
  const UniqueFd err = ChildsEnd(output->stderr_fd());
  EXPECT_THAT(output->Begin(), IsOk());
  const std::string text = Numbers(20'000);
  Write(err, absl::string_view(text).substr(0, 9'000));
  Write(out, "not of stderr");
  Write(err, absl::string_view(text).substr(9'000));
  EXPECT_THAT(output->Finish(Deadline::Never()), IsOk());
  EXPECT_EQ(output->StderrTail(), text.substr(20'000 - Output::kTailBytes));
  EXPECT_EQ(ContentsOf("err"), text);
  EXPECT_EQ(ContentsOf("out"), "not of stderr");
  EXPECT_EQ(output->lost_bytes(), 0);
}

TEST_F(OutputTest, AShortTailIsWhole) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto output,
      Output::Create({.stderr_file = Path("err"), .keep_stderr_tail = true}));
  const UniqueFd err = ChildsEnd(output->stderr_fd());
  EXPECT_THAT(output->Begin(), IsOk());
  Write(err, "one\n");
  Write(err, "two\n");
  EXPECT_THAT(output->Finish(Deadline::Never()), IsOk());
  EXPECT_EQ(output->StderrTail(), "one\ntwo\n");
}

TEST_F(OutputTest, TeeIsTheFileAndTheOwnStream) {
  PipeAsStdout own;
  const std::string text = Numbers(20'000);
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto output,
      Output::Create({.stdout_file = Path("out"), .tee = true}));
  const UniqueFd child = ChildsEnd(output->stdout_fd());
  EXPECT_THAT(output->Begin(), IsOk());
  Write(child, text);
  EXPECT_THAT(output->Finish(Deadline::Never()), IsOk());
  EXPECT_EQ(own.ReadAll(), text);
  EXPECT_EQ(ContentsOf("out"), text);
  EXPECT_EQ(output->lost_bytes(), 0);
}

// One sink is full for good; the other one has everything.
TEST_F(OutputTest, WhatADiskDoesNotTakeIsCounted) {
  PipeAsStdout own;
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto output,
      Output::Create({.stdout_file = "/dev/full", .tee = true}));
  const UniqueFd child = ChildsEnd(output->stdout_fd());
  EXPECT_THAT(output->Begin(), IsOk());
  Write(child, "ten bytes\n");
  EXPECT_THAT(output->Finish(Deadline::Never()), IsOk());
  EXPECT_EQ(own.ReadAll(), "ten bytes\n");
  EXPECT_EQ(output->lost_bytes(), 10);
}

// Nor is a descriptor that takes its number, as one of the output's own would.
TEST_F(OutputTest, AClosedOwnStreamIsNoSink) {
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
    const std::string name = absl::StrCat(stream);
    ProcessOptions options = {.tee = true};
    (stream == STDOUT_FILENO ? options.stdout_file : options.stderr_file) =
        Path(name);
    const UniqueFd saved(fcntl(stream, F_DUPFD_CLOEXEC, 3));
    close(stream);
    const auto output = Output::Create(options);
    ASSERT_THAT(output, IsOk());
    const UniqueFd child =
        ChildsEnd(stream == STDOUT_FILENO ? (*output)->stdout_fd()
                                          : (*output)->stderr_fd());
    EXPECT_THAT((*output)->Begin(), IsOk());
    Write(child, "text");
    const Deadline soon = Deadline::After(absl::Minutes(1));
    while (ContentsOf(name).empty() && !soon.has_passed()) usleep(100);
    EXPECT_THAT((*output)->Finish(Deadline::Never()), IsOk());
    dup2(saved.get(), stream);
    EXPECT_EQ(ContentsOf(name), "text");
    EXPECT_EQ((*output)->lost_bytes(), 0);
  }
}

TEST_F(OutputTest, FinishAtADeadlineChangesNothing) {
  PipeAsStdout own;
  own.Fill();
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto output,
      Output::Create({.stdout_file = Path("out"), .tee = true}));
  const UniqueFd child = ChildsEnd(output->stdout_fd());
  EXPECT_THAT(output->Begin(), IsOk());
  Write(child, "last words");
  // The first calls come before the pump has given up its full stream.
  EXPECT_THAT(output->Finish(Deadline::Passed()),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_EQ(output->lost_bytes(), 0);
  EXPECT_THAT(output->Finish(Deadline::Never()), IsOk());
  EXPECT_EQ(output->lost_bytes(), 10);
  EXPECT_EQ(ContentsOf("out"), "last words");
  EXPECT_THAT(own.ReadAll(), testing::Not(HasSubstr("last words")));
}

TEST_F(OutputTest, AfterItsEndNobodyWritesInTheChildsPlace) {
  const sighandler_t before = signal(SIGPIPE, SIG_IGN);
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto output,
      Output::Create({.stderr_file = Path("err"), .keep_stderr_tail = true}));
  const UniqueFd descendant = ChildsEnd(output->stderr_fd());
  EXPECT_THAT(output->Begin(), IsOk());
  Write(descendant, "in time");
  EXPECT_THAT(output->Finish(Deadline::Never()), IsOk());
  EXPECT_EQ(write(descendant.get(), "late", 4), -1);
  EXPECT_EQ(errno, EPIPE);
  signal(SIGPIPE, before);
  EXPECT_EQ(ContentsOf("err"), "in time");
  EXPECT_EQ(output->StderrTail(), "in time");
}

TEST_F(OutputTest, DroppedBeforeTheStartItLeavesNothing) {
  TENON_ASSERT_OK_AND_ASSIGN(auto output,
                             Output::Create({.stdout_file = Path("out"),
                                             .stderr_file = Path("err"),
                                             .tee = true,
                                             .keep_stderr_tail = true}));
  output.reset();  // TearDown() counts the descriptors.
  EXPECT_EQ(ContentsOf("out"), "");
}

}  // namespace
}  // namespace tenon::spawn

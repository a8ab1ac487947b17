// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/examples/photos/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using ::testing::ElementsAre;
using ::testing::SizeIs;

// Reads from `fd` without waiting.
std::string ReadAll(int fd) {
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t size = read(fd, buffer, sizeof(buffer));
    if (size <= 0) return text;
    text.append(buffer, size);
  }
}

class ProgressTest : public ::testing::Test {
 protected:
  // Bars begin at time 0 and use the time that the test sets.
  ProgressOptions Options(int64_t total_images) {
    return {.fd = bar_end_.get(),
            .label = "epoch 1",
            .total_images = total_images,
            .now = [this] { return steady_clock::time_point(time_); }};
  }

  void OpenPipe() {
    int fds[2];
    ASSERT_EQ(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0) << strerror(errno);
    test_end_ = UniqueFd(fds[0]);
    bar_end_ = UniqueFd(fds[1]);
  }

  void OpenTerminal(uint16_t columns) {
    winsize size = {};
    size.ws_col = columns;
    size.ws_row = 24;
    int test_end;
    int bar_end;
    ASSERT_EQ(openpty(&test_end, &bar_end, nullptr, nullptr, &size), 0)
        << strerror(errno);
    test_end_ = UniqueFd(test_end);
    bar_end_ = UniqueFd(bar_end);
    ASSERT_EQ(fcntl(test_end, F_SETFL, O_NONBLOCK), 0);
    termios modes;
    ASSERT_EQ(tcgetattr(bar_end, &modes), 0);
    modes.c_oflag &= ~OPOST;  // No \r of the terminal's own before \n.
    ASSERT_EQ(tcsetattr(bar_end, TCSANOW, &modes), 0);
  }

  std::string Output() { return ReadAll(test_end_.get()); }

  // The lines drawn on the terminal since the last call. The first piece is the
  // empty text before the first \r.
  std::vector<std::string> Drawn() {
    const std::string output = Output();
    if (output.empty()) return {};
    std::vector<std::string> lines = absl::StrSplit(output, '\r');
    EXPECT_EQ(lines[0], "");
    lines.erase(lines.begin());
    return lines;
  }

  steady_clock::duration time_{};
  UniqueFd test_end_;
  UniqueFd bar_end_;
};

TEST_F(ProgressTest, DrawsOneLineOnATerminal) {
  OpenTerminal(80);
  ProgressBar bar(Options(200));
  time_ = seconds(2);
  bar.Add(50, 3'000'000);
  EXPECT_THAT(Drawn(),
              ElementsAre("epoch 1  [######.....................]   25%  "
                          "25.0 images/s  1.5 MB/s  ETA 0:06"));
  time_ = seconds(8);
  bar.Add(150, 7'000'000);
  EXPECT_THAT(Drawn(), SizeIs(1));
  bar.Finish();
  EXPECT_THAT(Drawn(), ElementsAre("epoch 1  [################]  100%  "
                                   "25.0 images/s  1.2 MB/s  200 images in "
                                   "8.0 s\n"));
}

TEST_F(ProgressTest, RedrawsATerminalAtMostTenTimesASecond) {
  OpenTerminal(80);
  ProgressBar bar(Options(100000));
  for (int i = 0; i < 1000; ++i) {
    time_ = milliseconds(i);
    bar.Add(1, 100);
  }
  EXPECT_THAT(Drawn(), SizeIs(10));
}

TEST_F(ProgressTest, EveryLineCoversTheOneBefore) {
  OpenTerminal(64);
  ProgressBar bar(Options(1000));
  for (int i = 1; i <= 10; ++i) {
    time_ = seconds(i * i * i * i);
    bar.Add(100, 1'000'000);
    EXPECT_THAT(Drawn(), ElementsAre(SizeIs(63)));
  }
}

TEST_F(ProgressTest, ANarrowTerminalShowsWhatMatters) {
  struct Case {
    uint16_t columns;
    const char* line;
  };
  for (const Case& c : {
           Case{200,
                "epoch 1  [####################....................]   50%  "
                "10.0 images/s  2.0 MB/s  ETA 0:05"},
           Case{64,
                "epoch 1  [#####......]   50%  10.0 images/s  2.0 MB/s  "
                "ETA 0:05"},
           Case{60, "epoch 1   50%  10.0 images/s  2.0 MB/s  ETA 0:05"},
           Case{48, "epoch 1   50%  10.0 images/s  ETA 0:05"},
           Case{36, " 50%  10.0 images/s  ETA 0:05"},
           Case{25, " 50%  10.0 images/s"},
           Case{18, " 50%"},
           Case{4, " 50"},
           Case{1, ""},
       }) {
    time_ = {};
    OpenTerminal(c.columns);
    ProgressBar bar(Options(100));
    time_ = seconds(5);
    bar.Add(50, 10'000'000);
    std::string expected = c.line;
    expected.resize(c.columns - 1, ' ');
    EXPECT_THAT(Drawn(), ElementsAre(expected)) << c.columns;
  }
}

TEST_F(ProgressTest, FollowsATerminalThatChangesItsWidth) {
  OpenTerminal(80);
  ProgressBar bar(Options(100));
  time_ = seconds(1);
  bar.Add(1, 0);
  EXPECT_THAT(Drawn(), ElementsAre(SizeIs(79)));
  winsize size = {};
  size.ws_col = 30;
  ASSERT_EQ(ioctl(bar_end_.get(), TIOCSWINSZ, &size), 0);
  time_ = seconds(2);
  bar.Add(1, 0);
  EXPECT_THAT(Drawn(), ElementsAre(SizeIs(29)));
}

TEST_F(ProgressTest, ATerminalWithoutASizeHas80Columns) {
  OpenTerminal(0);
  ProgressBar bar(Options(100));
  bar.Add(1, 0);
  EXPECT_THAT(Drawn(), ElementsAre(SizeIs(79)));
}

TEST_F(ProgressTest, DestroyedUnfinishedItLeavesTheLine) {
  OpenTerminal(80);
  std::optional<ProgressBar> bar(std::in_place, Options(100));
  bar->Add(1, 0);
  EXPECT_THAT(Drawn(), SizeIs(1));
  bar.reset();
  EXPECT_EQ(Output(), "\n");
  // A bar that has drawn nothing leaves nothing.
  bar.emplace(Options(100));
  bar.reset();
  EXPECT_EQ(Output(), "");
}

TEST_F(ProgressTest, WritesALineForEachTenthElsewhere) {
  OpenPipe();
  ProgressBar bar(Options(200));
  for (int i = 1; i <= 200; ++i) {
    time_ = seconds(i);
    bar.Add(1, 500'000);
  }
  bar.Finish();
  const std::vector<std::string> lines = absl::StrSplit(Output(), '\n');
  ASSERT_THAT(lines, SizeIs(12));
  EXPECT_EQ(lines[0], "epoch 1   10%  1.0 images/s  0.5 MB/s  ETA 3:00");
  EXPECT_EQ(lines[8], "epoch 1   90%  1.0 images/s  0.5 MB/s  ETA 0:20");
  EXPECT_EQ(lines[9], "epoch 1  100%  1.0 images/s  0.5 MB/s  ETA 0:00");
  EXPECT_EQ(lines[10],
            "epoch 1  100%  1.0 images/s  0.5 MB/s  200 images in 3:20");
  EXPECT_EQ(lines[11], "");
}

TEST_F(ProgressTest, WritesAtMostOneLineASecondElsewhere) {
  OpenPipe();
  ProgressBar bar(Options(1000));
  for (int i = 0; i < 1000; ++i) {
    bar.Add(1, 0);
    time_ += milliseconds(3);
  }
  EXPECT_THAT(std::vector<std::string>(absl::StrSplit(Output(), '\n')),
              SizeIs(2 + 1));
}

TEST_F(ProgressTest, WritesALineAfter30SecondsElsewhere) {
  OpenPipe();
  ProgressBar bar(Options(10000));
  for (int i = 1; i <= 70; ++i) {
    time_ = seconds(i);
    bar.Add(1, 0);
  }
  EXPECT_EQ(Output(),
            "epoch 1    0%  1.0 images/s  0.0 MB/s  ETA 2:46:10\n"
            "epoch 1    0%  1.0 images/s  0.0 MB/s  ETA 2:45:40\n");
}

TEST_F(ProgressTest, WithoutATotalItCounts) {
  OpenTerminal(60);
  ProgressBar bar(Options(0));
  time_ = seconds(4);
  bar.Add(12, 1'000'000);
  std::string expected = "epoch 1  12 images  3.0 images/s  0.2 MB/s";
  expected.resize(59, ' ');
  EXPECT_THAT(Drawn(), ElementsAre(expected));
}

TEST_F(ProgressTest, WithoutALabelTheBarStandsFirst) {
  OpenTerminal(60);
  ProgressOptions options = Options(10);
  options.label = "";
  ProgressBar bar(options);
  time_ = seconds(1);
  bar.Add(5, 0);
  EXPECT_THAT(Drawn(), ElementsAre(::testing::StartsWith("[#")));
}

TEST_F(ProgressTest, StaysInBoundsWhateverIsCounted) {
  OpenTerminal(80);
  ProgressBar bar(Options(10));
  bar.Add(0, 0);  // No time has passed, and no image is done.
  EXPECT_THAT(Drawn(), ElementsAre(::testing::HasSubstr("ETA -:--")));
  time_ = seconds(1);
  bar.Add(25, 0);  // More than the total.
  EXPECT_THAT(Drawn(), ElementsAre(::testing::HasSubstr("]  100%")));
}

TEST_F(ProgressTest, FinishesOnce) {
  OpenPipe();
  ProgressBar bar(Options(10));
  bar.Finish();
  EXPECT_NE(Output(), "");
  bar.Finish();
  time_ = seconds(100);
  bar.Add(5, 5);
  EXPECT_EQ(Output(), "");
}

TEST_F(ProgressTest, SaysNothingMoreAfterAFailedWrite) {
  OpenPipe();
  const auto old_handler = std::signal(SIGPIPE, SIG_IGN);
  ProgressBar bar(Options(10));
  test_end_.Reset();
  time_ = seconds(5);
  bar.Add(5, 0);
  // A reader that is too late, on the same descriptor.
  UniqueFd broken = std::move(bar_end_);
  OpenPipe();
  ASSERT_EQ(dup3(bar_end_.get(), broken.get(), O_CLOEXEC), broken.get());
  time_ = seconds(50);
  bar.Add(5, 0);
  bar.Finish();
  EXPECT_EQ(Output(), "");
  std::signal(SIGPIPE, old_handler);
}

TEST_F(ProgressTest, UsesAClockThatRunsByItself) {
  OpenPipe();
  ProgressBar bar({.fd = bar_end_.get(), .label = "", .total_images = 1});
  bar.Add(1, 1);
  bar.Finish();
  EXPECT_THAT(Output(), ::testing::ContainsRegex("1 images in [0-9.]+ s\n"));
}

}  // namespace
}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/queue/fd_board.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/kill/kill_driver.h"
#include "tenon/shm/testing/kill/kill_report.h"
#include "tenon/shm/testing/kill/kill_scenario.h"
#include "tenon/shm/testing/kill/peer.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

UniqueFd MakeCounter(uint64_t value) {
  return UniqueFd(eventfd(static_cast<unsigned>(value), EFD_CLOEXEC));
}

// The value of an eventfd; resets it.
uint64_t Count(int fd) {
  uint64_t count = 0;
  EXPECT_EQ(read(fd, &count, sizeof(count)), static_cast<ssize_t>(8));
  return count;
}

FdBoard MakeBoard() {
  auto board = FdBoard::Create();
  EXPECT_THAT(board, IsOk());
  return *std::move(board);
}

FdBoard Copy(const FdBoard& board) {
  auto copy =
      FdBoard::Adopt(UniqueFd(fcntl(board.fds()[0], F_DUPFD_CLOEXEC, 0)),
                     UniqueFd(fcntl(board.fds()[1], F_DUPFD_CLOEXEC, 0)));
  EXPECT_THAT(copy, IsOk());
  return *std::move(copy);
}

// Publishes an eventfd with `value`, and the same number as bytes.
absl::Status PutCounter(FdBoard& board, uint64_t value) {
  const UniqueFd counter = MakeCounter(value);
  const int fd = counter.get();
  return board.Publish(std::to_string(value), {&fd, 1});
}

TEST(FdBoardTest, AnEmptyBoardHasNothing) {
  const FdBoard board = MakeBoard();
  EXPECT_THAT(board.Read(), StatusIs(absl::StatusCode::kNotFound));
}

TEST(FdBoardTest, CopiesAreTakenAsOftenAsOneLikes) {
  const size_t fds = CountOpenFds();
  {
    FdBoard board = MakeBoard();
    const FdBoard other = Copy(board);
    ASSERT_THAT(PutCounter(board, 3), IsOk());
    const std::array<const FdBoard*, 3> all = {&board, &other, &other};
    for (const FdBoard* from : all) {
      TENON_ASSERT_OK_AND_ASSIGN(Message item, from->Read());
      EXPECT_EQ(item.bytes, "3");
      ASSERT_EQ(item.fds.size(), 1u);
      EXPECT_NE(fcntl(item.fds[0].get(), F_GETFD) & FD_CLOEXEC, 0);
    }
    TENON_ASSERT_OK_AND_ASSIGN(Message item, other.Read());
    EXPECT_EQ(Count(item.fds[0].get()), 3u);
  }
  EXPECT_EQ(CountOpenFds(), fds);
}

TEST(FdBoardTest, PutReplacesWhatWasThere) {
  FdBoard board = MakeBoard();
  FdBoard next = Copy(board);
  for (uint64_t value = 1; value <= 1000; ++value) {
    ASSERT_THAT(PutCounter(value <= 500 ? board : next, value), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(const Message item, board.Read());
    ASSERT_EQ(item.bytes, std::to_string(value));
    ASSERT_EQ(Count(item.fds[0].get()), value);
  }
  ASSERT_THAT(board.Clear(), IsOk());
  EXPECT_THAT(next.Read(), StatusIs(absl::StatusCode::kNotFound));
  ASSERT_THAT(next.Clear(), IsOk());
}

TEST(FdBoardTest, TheLastDescriptorsCanBeLeftOut) {
  FdBoard board = MakeBoard();
  std::vector<UniqueFd> counters;
  std::vector<int> numbers;
  for (uint64_t value = 1; value <= 5; ++value) {
    numbers.push_back(counters.emplace_back(MakeCounter(value)).get());
  }
  ASSERT_THAT(board.Publish("five", numbers), IsOk());
  const size_t fds = CountOpenFds();
  for (size_t but_last = 0; but_last <= 5; ++but_last) {
    TENON_ASSERT_OK_AND_ASSIGN(const Message item, board.Read(but_last));
    EXPECT_EQ(item.bytes, "five");
    EXPECT_EQ(item.fds.size(), 5 - but_last);
    EXPECT_EQ(CountOpenFds(), fds + 5 - but_last);
  }
  TENON_ASSERT_OK_AND_ASSIGN(const Message one, board.Read(4));
  EXPECT_EQ(Count(one.fds[0].get()), 1u);
  EXPECT_THAT(board.Read(6), StatusIs(absl::StatusCode::kDataLoss));
}

// A copy in a forked child does not know the parent's later items.
TEST(FdBoardTest, AForkedChildContinuesAfterItsKilledParent) {
  FdBoard board = MakeBoard();
  ASSERT_THAT(PutCounter(board, 1), IsOk());
  // As if killed between the two steps of Publish().
  const FdBoard raw = Copy(board);
  ASSERT_EQ(send(raw.fds()[0], "half", 4, MSG_DONTWAIT), 4);
  EXPECT_TRUE(PassesInChild([&] {
    EXPECT_THAT(PutCounter(board, 2), IsOk());
    EXPECT_EQ(board.Read()->bytes, "2");
  }));
}

TEST(FdBoardTest, OutlivesItsPublisher) {
  FdBoard board = MakeBoard();
  ASSERT_TRUE(
      PassesInChild([&] { EXPECT_THAT(PutCounter(board, 7), IsOk()); }));
  TENON_ASSERT_OK_AND_ASSIGN(const Message item, board.Read());
  EXPECT_EQ(Count(item.fds[0].get()), 7u);
}

TEST(FdBoardTest, TakesAsMuchAsItSays) {
  FdBoard board = MakeBoard();
  const UniqueFd counter = MakeCounter(0);
  const std::vector<int> most(FdBoard::kMaxFds, counter.get());
  const std::string bytes(FdBoard::kMaxBytes, 'x');
  for (int i = 0; i < 3; ++i) {
    const absl::Status put = board.Publish(bytes, most);
    ASSERT_THAT(put, IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(const Message item, board.Read());
    EXPECT_EQ(item.bytes, bytes);
    EXPECT_EQ(item.fds.size(), most.size());
  }
  const std::vector<int> more(FdBoard::kMaxFds + 1, counter.get());
  EXPECT_THAT(board.Publish("", more),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("253")));
  EXPECT_THAT(board.Publish(bytes + "x", {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("4096")));
  const int closed = -1;
  EXPECT_THAT(board.Publish("", {&closed, 1}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  // The former item is still published.
  TENON_ASSERT_OK_AND_ASSIGN(const Message item, board.Read());
  EXPECT_EQ(item.fds.size(), most.size());
}

TEST(FdBoardTest, ATakerWithoutDescriptorsLosesNothing) {
  FdBoard board = MakeBoard();
  const UniqueFd counter = MakeCounter(5);
  const std::array<int, 3> three = {counter.get(), counter.get(),
                                    counter.get()};
  ASSERT_THAT(board.Publish("three", three), IsOk());
  const size_t fds = CountOpenFds();
  rlimit old;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
  const UniqueFd lowest_free(dup(counter.get()));
  rlimit few = old;
  few.rlim_cur = static_cast<rlim_t>(lowest_free.get()) + 2;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const absl::Status taken = board.Read().status();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
  EXPECT_THAT(taken, StatusIs(absl::StatusCode::kResourceExhausted,
                              HasSubstr("RLIMIT_NOFILE")));
  EXPECT_TRUE(IsLackOfDescriptors(taken));
  EXPECT_EQ(CountOpenFds(), fds + 1);
  TENON_ASSERT_OK_AND_ASSIGN(const Message item, board.Read());
  EXPECT_EQ(item.fds.size(), 3u);
}

TEST(FdBoardTest, WhatOthersSendIsRefused) {
  FdBoard board = MakeBoard();
  ASSERT_EQ(send(board.fds()[0], "x", 1, 0), 1);
  EXPECT_THAT(board.Read(), StatusIs(absl::StatusCode::kDataLoss));
  const std::string long_one(2 * FdBoard::kMaxBytes, 'y');
  ASSERT_THAT(board.Clear(), IsOk());
  ASSERT_GT(send(board.fds()[0], long_one.data(), long_one.size(), 0), 0);
  EXPECT_THAT(board.Read(), StatusIs(absl::StatusCode::kDataLoss));
  ASSERT_THAT(PutCounter(board, 2), IsOk());
  EXPECT_THAT(board.Read(), IsOk());

  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  EXPECT_THAT(FdBoard::Adopt(UniqueFd(pipe_ends[0]), UniqueFd(pipe_ends[1])),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

// As a malformed handle may bring.
TEST(FdBoardTest, EndsOfDifferentSocketsAreAnErrorAndNoEndlessSearch) {
  const auto new_pair = [] {
    int ends[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    return std::pair(UniqueFd(ends[0]), UniqueFd(ends[1]));
  };
  auto in = new_pair();
  auto out = new_pair();
  TENON_ASSERT_OK_AND_ASSIGN(
      FdBoard board,
      FdBoard::Adopt(std::move(in.first), std::move(out.second)));
  out.first.Reset();
  EXPECT_THAT(board.Publish("x", {}),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("belong to different sockets")));
}

// It is no lack of descriptors, for which a reader would close its own.
TEST(FdBoardTest, AHeaderWithMoreDescriptorsThanWereSentIsMalformed) {
  FdBoard board = MakeBoard();
  ASSERT_THAT(PutCounter(board, 1), IsOk());
  char datagram[256];
  const ssize_t size =
      recv(board.fds()[1], datagram, sizeof(datagram), MSG_PEEK | MSG_DONTWAIT);
  ASSERT_GT(size, 0);
  ASSERT_THAT(board.Clear(), IsOk());
  ASSERT_EQ(send(board.fds()[0], datagram, static_cast<size_t>(size), 0), size);
  EXPECT_THAT(board.Read(), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(FdBoardTest, WakesUntilTheyAreTaken) {
  FdBoard board = MakeBoard();
  const FdBoard theirs = Copy(board);
  const auto is_awake = [&] {
    pollfd polled = {.fd = board.wake_fd(), .events = POLLIN, .revents = 0};
    return poll(&polled, 1, 0) == 1;
  };
  ASSERT_THAT(PutCounter(board, 1), IsOk());
  EXPECT_FALSE(is_awake());
  // More wakes than the socket holds.
  for (int i = 0; i < 5000; ++i) theirs.Wake();
  EXPECT_TRUE(is_awake());
  EXPECT_THAT(theirs.Read(), IsOk());
  board.TakeWakes();
  EXPECT_FALSE(is_awake());
  theirs.Wake();
  EXPECT_TRUE(is_awake());
  EXPECT_THAT(board.Read(), IsOk());
}

// Publishers that are killed after they have sent and before they have removed.
TEST(FdBoardTest, NeverFillsUp) {
  FdBoard board = MakeBoard();
  ASSERT_THAT(PutCounter(board, 1), IsOk());
  char front[FdBoard::kMaxBytes];
  const ssize_t size =
      recv(board.fds()[1], front, sizeof(front), MSG_PEEK | MSG_DONTWAIT);
  ASSERT_GT(size, 0);
  int sent = 0;
  while (send(board.fds()[0], front, sizeof(front), MSG_DONTWAIT) > 0) ++sent;
  EXPECT_GT(sent, 2);
  ASSERT_THAT(PutCounter(board, 2), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const Message item, board.Read());
  EXPECT_EQ(item.bytes, "2");
}

// A publisher killed at each point: a reader finds a complete item at all
// times, and the next publisher succeeds.
TEST(FdBoardTest, WriterKilledAtEachPoint) {
  FdBoard board = MakeBoard();
  KillScenario scenario;
  scenario.name = "fd_board";
  scenario.points = "fd_board.";
  scenario.prepare = [&] {
    ASSERT_THAT(board.Clear(), IsOk());
    ASSERT_THAT(PutCounter(board, 1), IsOk());
  };
  scenario.roles = {{"writer",
                     [&](Peer&) {
                       for (uint64_t value = 2; value <= 4; ++value) {
                         EXPECT_THAT(PutCounter(board, value), IsOk());
                       }
                     }},
                    {"reader", [&](Peer& self) {
                       for (int i = 0; i < 20; ++i) {
                         TENON_ASSERT_OK_AND_ASSIGN(const Message item,
                                                    board.Read());
                         ASSERT_EQ(item.fds.size(), 1u);
                         EXPECT_LE(std::stoi(item.bytes), 4);
                       }
                       self.Step("read");
                     }}};
  const Census before = TakeCensus();
  const KillReport report = RunKillMatrix(scenario);
  std::cout << report.ToString();
  EXPECT_TRUE(report.ok()) << report.ToString();
  EXPECT_TRUE(ExpectSame(before, TakeCensus()));
  ASSERT_THAT(PutCounter(board, 9), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const Message item, board.Read());
  EXPECT_EQ(item.bytes, "9");
}

}  // namespace
}  // namespace tenon

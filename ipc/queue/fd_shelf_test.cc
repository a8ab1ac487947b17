// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/queue/fd_shelf.h"

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

// Of an eventfd, which it empties.
uint64_t Count(int fd) {
  uint64_t count = 0;
  EXPECT_EQ(read(fd, &count, sizeof(count)), static_cast<ssize_t>(8));
  return count;
}

FdShelf MakeShelf() {
  auto shelf = FdShelf::Create();
  EXPECT_THAT(shelf, IsOk());
  return *std::move(shelf);
}

FdShelf Copy(const FdShelf& shelf) {
  auto copy =
      FdShelf::Adopt(UniqueFd(fcntl(shelf.fds()[0], F_DUPFD_CLOEXEC, 0)),
                     UniqueFd(fcntl(shelf.fds()[1], F_DUPFD_CLOEXEC, 0)));
  EXPECT_THAT(copy, IsOk());
  return *std::move(copy);
}

// Lays a counter there, whose value is that of `bytes`.
absl::Status PutCounter(FdShelf& shelf, uint64_t value) {
  const UniqueFd counter = MakeCounter(value);
  const int fd = counter.get();
  return shelf.Put(std::to_string(value), {&fd, 1});
}

TEST(FdShelfTest, AnEmptyShelfHasNothing) {
  const FdShelf shelf = MakeShelf();
  EXPECT_THAT(shelf.Take(), StatusIs(absl::StatusCode::kNotFound));
}

TEST(FdShelfTest, CopiesAreTakenAsOftenAsOneLikes) {
  const size_t fds = CountOpenFds();
  {
    FdShelf shelf = MakeShelf();
    const FdShelf other = Copy(shelf);
    ASSERT_THAT(PutCounter(shelf, 3), IsOk());
    const std::array<const FdShelf*, 3> all = {&shelf, &other, &other};
    for (const FdShelf* from : all) {
      TENON_ASSERT_OK_AND_ASSIGN(ShelfItem item, from->Take());
      EXPECT_EQ(item.bytes, "3");
      ASSERT_EQ(item.fds.size(), 1u);
      EXPECT_NE(fcntl(item.fds[0].get(), F_GETFD) & FD_CLOEXEC, 0);
    }
    TENON_ASSERT_OK_AND_ASSIGN(ShelfItem item, other.Take());
    EXPECT_EQ(Count(item.fds[0].get()), 3u);
  }
  EXPECT_EQ(CountOpenFds(), fds);
}

TEST(FdShelfTest, PutReplacesWhatWasThere) {
  FdShelf shelf = MakeShelf();
  FdShelf next = Copy(shelf);
  for (uint64_t value = 1; value <= 1000; ++value) {
    ASSERT_THAT(PutCounter(value <= 500 ? shelf : next, value), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(const ShelfItem item, shelf.Take());
    ASSERT_EQ(item.bytes, std::to_string(value));
    ASSERT_EQ(Count(item.fds[0].get()), value);
  }
  ASSERT_THAT(shelf.Clear(), IsOk());
  EXPECT_THAT(next.Take(), StatusIs(absl::StatusCode::kNotFound));
  ASSERT_THAT(next.Clear(), IsOk());
}

TEST(FdShelfTest, TheLastDescriptorsCanBeLeftOut) {
  FdShelf shelf = MakeShelf();
  std::vector<UniqueFd> counters;
  std::vector<int> numbers;
  for (uint64_t value = 1; value <= 5; ++value) {
    numbers.push_back(counters.emplace_back(MakeCounter(value)).get());
  }
  ASSERT_THAT(shelf.Put("five", numbers), IsOk());
  const size_t fds = CountOpenFds();
  for (size_t but_last = 0; but_last <= 5; ++but_last) {
    TENON_ASSERT_OK_AND_ASSIGN(const ShelfItem item, shelf.Take(but_last));
    EXPECT_EQ(item.bytes, "five");
    EXPECT_EQ(item.fds.size(), 5 - but_last);
    EXPECT_EQ(CountOpenFds(), fds + 5 - but_last);
  }
  TENON_ASSERT_OK_AND_ASSIGN(const ShelfItem one, shelf.Take(4));
  EXPECT_EQ(Count(one.fds[0].get()), 1u);
  EXPECT_THAT(shelf.Take(6), StatusIs(absl::StatusCode::kDataLoss));
}

// A copy in a forked child knows nothing of what the parent has put since.
TEST(FdShelfTest, AForkedChildGoesOnWhereItsParentWasKilled) {
  FdShelf shelf = MakeShelf();
  ASSERT_THAT(PutCounter(shelf, 1), IsOk());
  // As if killed between the two steps of Put().
  const FdShelf raw = Copy(shelf);
  ASSERT_EQ(send(raw.fds()[0], "half", 4, MSG_DONTWAIT), 4);
  EXPECT_TRUE(PassesInChild([&] {
    EXPECT_THAT(PutCounter(shelf, 2), IsOk());
    EXPECT_EQ(shelf.Take()->bytes, "2");
  }));
}

TEST(FdShelfTest, OutlivesWhoLaidItThere) {
  FdShelf shelf = MakeShelf();
  ASSERT_TRUE(
      PassesInChild([&] { EXPECT_THAT(PutCounter(shelf, 7), IsOk()); }));
  TENON_ASSERT_OK_AND_ASSIGN(const ShelfItem item, shelf.Take());
  EXPECT_EQ(Count(item.fds[0].get()), 7u);
}

TEST(FdShelfTest, TakesAsMuchAsItSays) {
  FdShelf shelf = MakeShelf();
  const UniqueFd counter = MakeCounter(0);
  const std::vector<int> most(FdShelf::kMaxFds, counter.get());
  const std::string bytes(FdShelf::kMaxBytes, 'x');
  for (int i = 0; i < 3; ++i) {
    const absl::Status put = shelf.Put(bytes, most);
    ASSERT_THAT(put, IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(const ShelfItem item, shelf.Take());
    EXPECT_EQ(item.bytes, bytes);
    EXPECT_EQ(item.fds.size(), most.size());
  }
  const std::vector<int> more(FdShelf::kMaxFds + 1, counter.get());
  EXPECT_THAT(shelf.Put("", more),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("253")));
  EXPECT_THAT(shelf.Put(bytes + "x", {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("4096")));
  const int closed = -1;
  EXPECT_THAT(shelf.Put("", {&closed, 1}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  // What was there still is.
  TENON_ASSERT_OK_AND_ASSIGN(const ShelfItem item, shelf.Take());
  EXPECT_EQ(item.fds.size(), most.size());
}

TEST(FdShelfTest, ATakerWithoutDescriptorsLosesNothing) {
  FdShelf shelf = MakeShelf();
  const UniqueFd counter = MakeCounter(5);
  const std::array<int, 3> three = {counter.get(), counter.get(),
                                    counter.get()};
  ASSERT_THAT(shelf.Put("three", three), IsOk());
  const size_t fds = CountOpenFds();
  rlimit old;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
  const UniqueFd lowest_free(dup(counter.get()));
  rlimit few = old;
  few.rlim_cur = static_cast<rlim_t>(lowest_free.get()) + 2;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const absl::Status taken = shelf.Take().status();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
  EXPECT_THAT(taken, StatusIs(absl::StatusCode::kResourceExhausted,
                              HasSubstr("RLIMIT_NOFILE")));
  EXPECT_EQ(CountOpenFds(), fds + 1);
  TENON_ASSERT_OK_AND_ASSIGN(const ShelfItem item, shelf.Take());
  EXPECT_EQ(item.fds.size(), 3u);
}

TEST(FdShelfTest, WhatOthersSendIsRefused) {
  FdShelf shelf = MakeShelf();
  ASSERT_EQ(send(shelf.fds()[0], "x", 1, 0), 1);
  EXPECT_THAT(shelf.Take(), StatusIs(absl::StatusCode::kDataLoss));
  const std::string long_one(2 * FdShelf::kMaxBytes, 'y');
  ASSERT_THAT(shelf.Clear(), IsOk());
  ASSERT_GT(send(shelf.fds()[0], long_one.data(), long_one.size(), 0), 0);
  EXPECT_THAT(shelf.Take(), StatusIs(absl::StatusCode::kDataLoss));
  ASSERT_THAT(PutCounter(shelf, 2), IsOk());
  EXPECT_THAT(shelf.Take(), IsOk());

  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  EXPECT_THAT(FdShelf::Adopt(UniqueFd(pipe_ends[0]), UniqueFd(pipe_ends[1])),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(FdShelfTest, WakesUntilTheyAreTaken) {
  FdShelf shelf = MakeShelf();
  const FdShelf theirs = Copy(shelf);
  const auto is_awake = [&] {
    pollfd polled = {.fd = shelf.wake_fd(), .events = POLLIN, .revents = 0};
    return poll(&polled, 1, 0) == 1;
  };
  ASSERT_THAT(PutCounter(shelf, 1), IsOk());
  EXPECT_FALSE(is_awake());
  // More than there is room for.
  for (int i = 0; i < 5000; ++i) theirs.Wake();
  EXPECT_TRUE(is_awake());
  EXPECT_THAT(theirs.Take(), IsOk());
  shelf.TakeWakes();
  EXPECT_FALSE(is_awake());
  theirs.Wake();
  EXPECT_TRUE(is_awake());
  EXPECT_THAT(shelf.Take(), IsOk());
}

// Writers that are killed after they have sent and before they have removed.
TEST(FdShelfTest, NeverFillsUp) {
  FdShelf shelf = MakeShelf();
  ASSERT_THAT(PutCounter(shelf, 1), IsOk());
  char front[FdShelf::kMaxBytes];
  const ssize_t size =
      recv(shelf.fds()[1], front, sizeof(front), MSG_PEEK | MSG_DONTWAIT);
  ASSERT_GT(size, 0);
  int sent = 0;
  while (send(shelf.fds()[0], front, sizeof(front), MSG_DONTWAIT) > 0) ++sent;
  EXPECT_GT(sent, 2);
  ASSERT_THAT(PutCounter(shelf, 2), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const ShelfItem item, shelf.Take());
  EXPECT_EQ(item.bytes, "2");
}

// A writer killed at each point: a reader finds something whole all the time,
// and the next writer goes on.
TEST(FdShelfTest, WriterKilledAtEachPoint) {
  FdShelf shelf = MakeShelf();
  KillScenario scenario;
  scenario.name = "fd_shelf";
  scenario.points = "fd_shelf.";
  scenario.prepare = [&] {
    ASSERT_THAT(shelf.Clear(), IsOk());
    ASSERT_THAT(PutCounter(shelf, 1), IsOk());
  };
  scenario.roles = {{"writer",
                     [&](Peer&) {
                       for (uint64_t value = 2; value <= 4; ++value) {
                         EXPECT_THAT(PutCounter(shelf, value), IsOk());
                       }
                     }},
                    {"reader", [&](Peer& self) {
                       for (int i = 0; i < 20; ++i) {
                         TENON_ASSERT_OK_AND_ASSIGN(const ShelfItem item,
                                                    shelf.Take());
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
  ASSERT_THAT(PutCounter(shelf, 9), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const ShelfItem item, shelf.Take());
  EXPECT_EQ(item.bytes, "9");
}

}  // namespace
}  // namespace tenon

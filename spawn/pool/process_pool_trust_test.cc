// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Workers that violate the protocol, and results that cannot be unpacked.

#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/futures/future.h"
#include "tenon/futures/future_testing.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/arguments/argument.h"
#include "tenon/spawn/pool/internal/pool_protocol.h"
#include "tenon/spawn/pool/pool_function.h"
#include "tenon/spawn/pool/process_pool.h"
#include "tenon/spawn/testing/child_testing.h"

namespace tenon::spawn {
namespace {

using futures::Future;
using ::testing::HasSubstr;

class ProcessPoolTrustTest : public ChildTest {};

int WorkerPid(int) { return getpid(); }
TENON_POOL_FUNCTION(WorkerPid);

// The channel to its pool is among the sockets of a worker.
int SendGarbage(std::string how) {
  for (int fd = 3; fd < 64; ++fd) {
    int type = 0;
    socklen_t size = sizeof(type);
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0) continue;
    if (how == "no frame") send(fd, "garbage", 7, MSG_NOSIGNAL);
    if (how == "no answers") {
      absl::StatusOr<Channel> channel = Channel::Adopt(UniqueFd(dup(fd)));
      if (channel.ok()) channel->Send("garbage", {}, Watchdog()).IgnoreError();
    }
    if (how == "other answers") {
      absl::StatusOr<Channel> channel = Channel::Adopt(UniqueFd(dup(fd)));
      PoolAnswers answers = {.id = 1'000'000, .rss_bytes = 0, .answers = {}};
      answers.answers.emplace_back();
      if (channel.ok()) {
        SendAnswers(*channel, answers, Watchdog()).IgnoreError();
      }
    }
  }
  return 1;
}
TENON_POOL_FUNCTION(SendGarbage);

TEST_F(ProcessPoolTrustTest, WorkerThatSendsGarbageIsReplaced) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 1}));
  for (const char* how : {"no frame", "no answers", "other answers"}) {
    TENON_ASSERT_OK_AND_ASSIGN(const int before,
                               Get(pool.Submit(WorkerPid, 1)));
    EXPECT_THAT(Get(pool.Submit(SendGarbage, how)),
                StatusIs(absl::StatusCode::kDataLoss))
        << how;
    TENON_ASSERT_OK_AND_ASSIGN(const int after, Get(pool.Submit(WorkerPid, 1)));
    EXPECT_NE(before, after) << how;
  }
}

// ---- Types that throw ----

struct Fragile {
  int fault = 0;
};

}  // namespace

template <>
struct ArgumentTraits<Fragile> {
  static std::string Name() { return "Fragile"; }
  static absl::Status Pack(const Fragile& value, ArgumentWriter& to) {
    to.Put(value.fault);
    return absl::OkStatus();
  }
  static absl::StatusOr<Fragile> Unpack(ArgumentReader& from) {
    TENON_ASSIGN_OR_RETURN(const int fault, from.Get<int>());
    if (fault == 1) throw std::length_error("too long");
    if (fault == 2) throw fault;
    return Fragile{fault};
  }
};

namespace {

Fragile MakeFragile(int fault) { return {fault}; }
TENON_POOL_FUNCTION(MakeFragile);

// It is unpacked on the pool's thread, or on that of a waiter.
TEST_F(ProcessPoolTrustTest, ResultThatThrowsAsItIsMadeIsAnError) {
  TENON_ASSERT_OK_AND_ASSIGN(ProcessPool pool,
                             ProcessPool::Create({.workers = 1}));
  for (const bool wait : {false, true}) {
    for (const int fault : {1, 2}) {
      const Future<Fragile> made = pool.Submit(MakeFragile, fault);
      while (!wait && !made.done()) absl::SleepFor(absl::Milliseconds(1));
      ASSERT_THAT(made.Wait(absl::Seconds(60)), IsOk());
      EXPECT_THAT(made.value().status(),
                  StatusIs(absl::StatusCode::kInternal,
                           HasSubstr(fault == 1 ? "too long" : "threw")));
    }
  }
  EXPECT_THAT(Get(pool.Submit(WorkerPid, 1)),
              IsOkAndHolds(pool.worker_pids()[0]));
}

}  // namespace
}  // namespace tenon::spawn

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/kill/two_peers.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/kill/peer.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class TwoPeersTest : public testing::TestWithParam<PeerMode> {
 protected:
  TwoPeersTest() : before_(TakeCensus()) {}
  ~TwoPeersTest() override {
    // Threads may end a moment after they have been joined.
    Census after = TakeCensus();
    after.held["thread"] = before_.held["thread"];
    EXPECT_TRUE(ExpectSame(before_, after));
  }
  Census before_;
};

INSTANTIATE_TEST_SUITE_P(Modes, TwoPeersTest, AllPeerModes(), PeerModeName);

TEST_P(TwoPeersTest, RunsTheBodyAsBoth) {
  SharedObject<std::atomic<int>> runs_of_a, runs_of_b;
  EXPECT_TRUE(RunTwoPeers(GetParam(), [&](Peer& self) {
    ++(self.name() == "a" ? *runs_of_a : *runs_of_b);
    EXPECT_EQ(self.others().size(), 1u);
    EXPECT_EQ(self.mode(), GetParam());
  }));
  EXPECT_EQ(*runs_of_a, 1);
  EXPECT_EQ(*runs_of_b, 1);
}

// Not atomic: ThreadSanitizer would see a step that does not synchronise.
TEST_P(TwoPeersTest, StepsOrderWhatHappens) {
  SharedObject<int> turns;
  EXPECT_TRUE(RunTwoPeers(GetParam(), [&](Peer& self) {
    for (int i = 0; i < 50; ++i) {
      if (self.name() == "b") {
        EXPECT_THAT(self.Await("ping"), IsOk());
      }
      EXPECT_EQ((*turns)++, 2 * i + (self.name() == "b"));
      self.Step(self.name() == "a" ? "ping" : "pong");
      if (self.name() == "a") {
        EXPECT_THAT(self.Await("pong"), IsOk());
      }
    }
  }));
  EXPECT_EQ(*turns, 100);
}

TEST_P(TwoPeersTest, KeepsStepsThatComeEarly) {
  EXPECT_TRUE(RunTwoPeers(GetParam(), [](Peer& self) {
    if (self.name() == "a") {
      self.Step("one");
      self.Step("two");
      self.Step("two");
      return;  // Ends before the other has read them.
    }
    EXPECT_THAT(self.Await("two"), IsOk());
    EXPECT_THAT(self.Await("one"), IsOk());
    EXPECT_THAT(self.Await("two"), IsOk());
    EXPECT_THAT(self.Await("two"),
                StatusIs(absl::StatusCode::kUnavailable,
                         AllOf(HasSubstr("'two'"), HasSubstr("ended"))));
    EXPECT_THAT(self.Meet("nobody"), StatusIs(absl::StatusCode::kUnavailable));
  }));
}

TEST_P(TwoPeersTest, HearsOfAnEndWithUnreadSteps) {
  EXPECT_TRUE(RunTwoPeers(GetParam(), [](Peer& self) {
    self.Step("hello");
    if (self.name() == "a") {
      EXPECT_THAT(self.Await("bye"), IsOk());
      return;  // "hello" of b was received, "unread" possibly not.
    }
    self.Step("bye");
    self.Step("unread");
    EXPECT_THAT(self.Await("hello"), IsOk());
    EXPECT_THAT(self.Await("more"), StatusIs(absl::StatusCode::kUnavailable));
  }));
}

TEST_P(TwoPeersTest, Meets) {
  SharedObject<std::atomic<int>> there;
  EXPECT_TRUE(RunTwoPeers(GetParam(), [&](Peer& self) {
    for (int i = 1; i <= 20; ++i) {
      ++*there;
      EXPECT_THAT(self.Meet("there"), IsOk());
      EXPECT_GE(there->load(), 2 * i);
    }
  }));
}

TEST_P(TwoPeersTest, HandsOverDescriptorsBesideSteps) {
  EXPECT_TRUE(RunTwoPeers(GetParam(), [](Peer& self) {
    if (self.name() == "a") {
      const UniqueFd fd(memfd_create("two_peers", MFD_CLOEXEC));
      EXPECT_EQ(write(fd.get(), "x", 1), 1);
      EXPECT_THAT(self.GiveFd("b", fd.get()), IsOk());
      self.Step("given");
      return;
    }
    EXPECT_THAT(self.Await("given"), IsOk());
    const auto fd = self.TakeFd("a");
    ASSERT_THAT(fd, IsOk());
    EXPECT_EQ(fcntl(fd->get(), F_GETFD), FD_CLOEXEC);
    char byte;
    EXPECT_EQ(pread(fd->get(), &byte, 1, 0), 1);
    EXPECT_EQ(byte, 'x');
    EXPECT_THAT(self.TakeFd("a"), StatusIs(absl::StatusCode::kUnavailable));
  }));
}

TEST_P(TwoPeersTest, CollectsFailuresOfBoth) {
  const testing::AssertionResult ran = RunTwoPeers(
      GetParam(), [](Peer& self) { self.Fail("broken in " + self.name()); });
  EXPECT_FALSE(ran);
  EXPECT_THAT(ran.message(),
              AllOf(HasSubstr("broken in a"), HasSubstr("broken in b")));
}

TEST(TwoProcessesTest, CollectFailedExpectations) {
  const testing::AssertionResult ran = RunTwoPeers(
      PeerMode::kProcesses, [](Peer& self) { EXPECT_EQ(self.name(), "a"); });
  EXPECT_FALSE(ran);
  EXPECT_THAT(ran.message(), AllOf(HasSubstr("b: "), HasSubstr("self.name()")));
}

TEST(TwoProcessesTest, OneMayKillItself) {
  EXPECT_TRUE(RunTwoPeers(PeerMode::kProcesses, [](Peer& self) {
    if (self.name() == "a") self.Die();
    EXPECT_THAT(self.Await("anything"),
                StatusIs(absl::StatusCode::kUnavailable));
  }));
}

TEST(TwoProcessesTest, OneMayNotDieOtherwise) {
  const testing::AssertionResult ran =
      RunTwoPeers(PeerMode::kProcesses, [](Peer& self) {
        if (self.name() == "a") kill(getpid(), SIGKILL);
      });
  EXPECT_FALSE(ran);
  EXPECT_THAT(ran.message(), HasSubstr("a was killed by signal 9"));
}

TEST(TwoProcessesTest, HangIsAFailure) {
  const testing::AssertionResult ran = RunTwoPeers(
      PeerMode::kProcesses,
      [](Peer& self) {
        if (self.name() == "a") pause();
      },
      absl::Milliseconds(50));
  EXPECT_FALSE(ran);
  EXPECT_THAT(ran.message(), HasSubstr("a was killed by its watchdog"));
}

TEST(PeerTest, WaitsNoLongerThanItsDeadline) {
  auto peers = MakePeers({"x", "y"}, PeerMode::kThreads,
                         Deadline::After(absl::Milliseconds(10)));
  ASSERT_THAT(peers, IsOk());
  EXPECT_THAT((*peers)[0].Await("never"),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("x waited for 'never' of y")));
}

TEST(PeerTest, TalksToSeveral) {
  auto peers = MakePeers({"x", "y", "z"}, PeerMode::kThreads,
                         Deadline::After(absl::Seconds(20)));
  ASSERT_THAT(peers, IsOk());
  Peer& x = (*peers)[0];
  Peer& y = (*peers)[1];
  Peer& z = (*peers)[2];
  EXPECT_THAT(x.others(), ::testing::ElementsAre("y", "z"));
  x.Step("s");
  y.Step("s");
  EXPECT_THAT(z.Await("y", "s"), IsOk());
  EXPECT_THAT(z.Await("x", "s"), IsOk());
  EXPECT_THAT(y.Await("x", "s"), IsOk());
  { const Peer gone = std::move(x); }
  EXPECT_THAT(y.Await("x", "t"), StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A listener, and a client that connects, sends and receives: killed and
// stopped at every named point. The other one gets kUnavailable or whole
// messages, nothing remains except the file of a killed listener, and the next
// listener replaces it.

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/listener/listener.h"
#include "tenon/ipc/listener/socket_address.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/kill/kill_driver.h"
#include "tenon/shm/testing/kill/kill_report.h"
#include "tenon/shm/testing/kill/kill_scenario.h"
#include "tenon/shm/testing/kill/peer.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AnyOf;
using ::testing::IsEmpty;

constexpr absl::StatusCode kUnavailable = absl::StatusCode::kUnavailable;
constexpr size_t kLarge = 100'000;

Deadline Soon() { return Deadline::After(absl::Seconds(10)); }

auto MayBeDead() { return AnyOf(IsOk(), StatusIs(kUnavailable)); }

class World {
 public:
  World() {
    char name[] = "/tmp/tenon_kill_XXXXXX";
    EXPECT_NE(mkdtemp(name), nullptr);
    directory_ = name;
    file_ = directory_ + "/socket";
  }
  ~World() {
    unlink(file_.c_str());
    EXPECT_EQ(rmdir(directory_.c_str()), 0);
  }

  // Leaves the file of a dead listener, which the listener must replace.
  void Reset() {
    unlink(file_.c_str());
    TENON_ASSERT_OK_AND_ASSIGN(const SocketAddress address,
                               SocketAddress::Parse(file_));
    const UniqueFd dead(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    ASSERT_EQ(bind(dead.get(), address.get(), address.size), 0);
  }

  void Listen(Peer& self) {
    TENON_ASSERT_OK_AND_ASSIGN(Listener listener,
                               Listener::CreateAtPath(file_));
    self.Step("listening");
    absl::StatusOr<Channel> channel =
        listener.Accept(Deadline::After(absl::Seconds(2)));
    if (!channel.ok()) {
      // The client was killed before it connected, and says so.
      EXPECT_THAT(channel, StatusIs(absl::StatusCode::kDeadlineExceeded));
      EXPECT_THAT(self.Await("client", "connected"), StatusIs(kUnavailable));
      return;
    }
    if (!TakeAll(*channel)) return;
    EXPECT_THAT(channel->Send("thanks", {}, Soon()), MayBeDead());
    EXPECT_THAT(channel->Receive(Soon()), StatusIs(kUnavailable));
  }

  void Connect(Peer& self) {
    if (!self.Await("server", "listening").ok()) return;
    absl::StatusOr<Channel> channel = tenon::Connect(file_, Soon());
    self.Step("connected");
    if (!channel.ok()) {
      // A listener that ended normally has removed its name.
      EXPECT_THAT(channel, AnyOf(StatusIs(kUnavailable),
                                 StatusIs(absl::StatusCode::kNotFound)));
      return;
    }
    const int fd = STDERR_FILENO;
    for (const size_t size : {size_t{5}, kLarge}) {
      const absl::Status sent =
          channel->Send(std::string(size, 'x'), {&fd, 1}, Soon());
      EXPECT_THAT(sent, MayBeDead());
      if (!sent.ok()) return;
    }
    const absl::StatusOr<Message> thanks = channel->Receive(Soon());
    EXPECT_THAT(thanks, MayBeDead());
    if (thanks.ok()) {
      EXPECT_EQ(thanks->bytes, "thanks");
    }
  }

  // Any later process can listen there.
  void Check() {
    EXPECT_THAT(Listener::CreateAtPath(file_), IsOk());
    EXPECT_NE(access(file_.c_str(), F_OK), 0);
  }

 private:
  // Whether all messages arrived. Each that arrived is whole.
  static bool TakeAll(Channel& channel) {
    for (const size_t size : {size_t{5}, kLarge}) {
      const absl::StatusOr<Message> message = channel.Receive(Soon());
      EXPECT_THAT(message, MayBeDead());
      if (!message.ok()) return false;
      EXPECT_TRUE(message->bytes == std::string(size, 'x'));
      EXPECT_EQ(message->fds.size(), 1u);
    }
    return true;
  }

  std::string directory_;
  std::string file_;
};

void RunMatrix(const std::string& points, KillMethod method, size_t victims) {
  World world;
  KillScenario scenario;
  scenario.name = "listener";
  scenario.method = method;
  scenario.victims = victims;
  scenario.points = points;
  scenario.prepare = [&] { world.Reset(); };
  scenario.roles = {{"server", [&](Peer& self) { world.Listen(self); }},
                    {"client", [&](Peer& self) { world.Connect(self); }}};
  scenario.check = [&](const Reporter&, const std::vector<KillOrder>&) {
    world.Check();
  };
  const Census before = TakeCensus();
  const KillReport report = RunKillMatrix(scenario);
  std::cout << report.ToString();
  EXPECT_TRUE(report.failures.empty()) << report.ToString();
  EXPECT_FALSE(report.given_up);
  EXPECT_GT(report.kills, 0u);
  EXPECT_THAT(report.unreached, IsEmpty());
  EXPECT_TRUE(ExpectSame(before, TakeCensus()));
}

class ListenerKillTest : public ::testing::TestWithParam<KillMethod> {
 protected:
  void Run(const std::string& points) { RunMatrix(points, GetParam(), 1); }
};

TEST_P(ListenerKillTest, WhereItListensAndAccepts) { Run("listener."); }
TEST_P(ListenerKillTest, WhereItConnects) { Run("connect."); }
TEST_P(ListenerKillTest, WhereEachAnnouncesItsIdentity) { Run("handshake."); }
TEST_P(ListenerKillTest, WhereItSendsAndReceives) { Run("channel."); }

TEST(ListenerKillPairTest, BothAtATime) {
  for (const char* points :
       {"listener.", "connect.", "handshake.", "channel."}) {
    RunMatrix(points, KillMethod::kKill, 2);
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, ListenerKillTest,
                         ::testing::Values(KillMethod::kKill,
                                           KillMethod::kStop),
                         [](const auto& method) {
                           return method.param == KillMethod::kKill ? "Killed"
                                                                    : "Stopped";
                         });

}  // namespace
}  // namespace tenon

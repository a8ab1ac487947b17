// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A fork server whose client is this test: it may send anything.

#include <fcntl.h>
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/fork_server/fork_request.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/supervisor/supervisor.h"
#include "tenon/spawn/testing/child_testing.h"

namespace tenon::spawn {
namespace {

using ::testing::HasSubstr;

class ForkServerMainTest : public ChildTest {
 protected:
  void SetUp() override {
    ChildTest::SetUp();
    null_ = UniqueFd(open("/dev/null", O_RDWR | O_CLOEXEC));
    directory_ = UniqueFd(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    TENON_ASSERT_OK_AND_ASSIGN(
        Talker server, StartTalker({.entry = "tenon.spawn.fork_server"}));
    server_.emplace(std::move(server));
  }
  void TearDown() override {
    server_.reset();
    null_.Reset();
    directory_.Reset();
    ChildTest::TearDown();
  }

  // The descriptors of a request, without the channel for the answer. The
  // control channels of the children lead nowhere: they start, and fail.
  std::vector<int> FdsFor(int children) const {
    std::vector<int> fds = {directory_.get()};
    fds.insert(fds.end(), static_cast<size_t>(4 * children), null_.get());
    return fds;
  }

  // The server's answer to `bytes` with a channel for it, and `fds`.
  absl::StatusOr<Message> Ask(const std::string& bytes, std::vector<int> fds) {
    TENON_ASSIGN_OR_RETURN(auto answer, Channel::CreatePair());
    fds.insert(fds.begin(), answer.second.fd());
    TENON_RETURN_IF_ERROR(server_->channel.Send(bytes, fds, Watchdog()));
    answer.second.Release().Reset();
    return answer.first.Receive(Watchdog());
  }

  // A request that is answered, by that many children, each of which ends.
  void ExpectServes(int children) {
    const ForkRequest request = {.orphan_grace = absl::ZeroDuration(),
                                 .children = static_cast<uint32_t>(children)};
    TENON_ASSERT_OK_AND_ASSIGN(
        Message answer, Ask(EncodeForkRequest(request), FdsFor(children)));
    TENON_ASSERT_OK_AND_ASSIGN(const ForkReply reply,
                               DecodeForkReply(answer.bytes));
    ASSERT_THAT(reply.status, IsOk());
    ASSERT_EQ(reply.pids.size(), static_cast<size_t>(children));
    ASSERT_EQ(answer.fds.size(), 2 * reply.pids.size());
    for (size_t i = 0; i < reply.pids.size(); ++i) {
      TENON_ASSERT_OK_AND_ASSIGN(const PidFd child,
                                 PidFd::Adopt(std::move(answer.fds[2 * i])));
      TENON_ASSERT_OK_AND_ASSIGN(
          ChildExit exit, ChildExit::Adopt(std::move(answer.fds[2 * i + 1])));
      EXPECT_THAT(exit.WaitForExit(Watchdog()), IsOk());
      EXPECT_THAT(child.WaitForEnd(Watchdog()), IsOk());
    }
  }

  // The status in the server's answer.
  absl::Status Refusal(const ForkRequest& request, std::vector<int> fds) {
    TENON_ASSIGN_OR_RETURN(const Message answer,
                           Ask(EncodeForkRequest(request), std::move(fds)));
    TENON_ASSIGN_OR_RETURN(const ForkReply reply,
                           DecodeForkReply(answer.bytes));
    EXPECT_TRUE(reply.pids.empty());
    EXPECT_TRUE(answer.fds.empty());
    return reply.status;
  }

  UniqueFd null_;
  UniqueFd directory_;
  std::optional<Talker> server_;
};

TEST_F(ForkServerMainTest, AnswersWithPidfdsAndExitsOfEachChild) {
  ExpectServes(1);
  ExpectServes(8);
}

TEST_F(ForkServerMainTest, AMalformedRequestHasNoAnswer) {
  // Its answer channel is closed.
  EXPECT_THAT(Ask("garbage", FdsFor(1)),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(Ask("", {}), StatusIs(absl::StatusCode::kUnavailable));
  // No channel for an answer at all.
  const std::string one = EncodeForkRequest({.children = 1});
  EXPECT_THAT(server_->channel.Send("garbage", {}, Watchdog()), IsOk());
  EXPECT_THAT(server_->channel.Send(one, {}, Watchdog()), IsOk());
  EXPECT_THAT(
      server_->channel.Send(one, std::vector<int>(6, null_.get()), Watchdog()),
      IsOk());
  ExpectServes(1);
}

TEST_F(ForkServerMainTest, OtherNumbersOfDescriptorsHaveNoAnswer) {
  for (const uint32_t children : {0u, 2u, 0x4000'0000u, ~0u}) {
    const std::string request = EncodeForkRequest({.children = children});
    EXPECT_THAT(Ask(request, FdsFor(1)),
                StatusIs(absl::StatusCode::kUnavailable))
        << children;
  }
  std::vector<int> fds = FdsFor(1);
  fds.pop_back();
  EXPECT_THAT(Ask(EncodeForkRequest({.children = 1}), fds),
              StatusIs(absl::StatusCode::kUnavailable));
  ExpectServes(1);
}

TEST_F(ForkServerMainTest, InvalidNumbersOfChildrenAreErrors) {
  for (const int children : {0, 9, 60}) {
    EXPECT_THAT(Refusal({.children = static_cast<uint32_t>(children)},
                        FdsFor(children)),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << children;
  }
  ExpectServes(1);
}

TEST_F(ForkServerMainTest, AFileInPlaceOfADirectoryIsAnError) {
  std::vector<int> fds = FdsFor(1);
  fds[0] = null_.get();
  const absl::Status refusal = Refusal({.children = 1}, fds);
  EXPECT_FALSE(refusal.ok());
  EXPECT_THAT(std::string(refusal.message()), HasSubstr("fchdir"));
  ExpectServes(1);
}

// The client drops the channel for the answer before the server answers.
TEST_F(ForkServerMainTest, AnAnswerThatCannotBeSentCostsNothing) {
  const std::string request =
      EncodeForkRequest({.orphan_grace = absl::ZeroDuration(), .children = 1});
  for (int round = 0; round < 10; ++round) {
    TENON_ASSERT_OK_AND_ASSIGN(auto answer, Channel::CreatePair());
    std::vector<int> fds = FdsFor(1);
    fds.insert(fds.begin(), answer.second.fd());
    answer.first.Release().Reset();
    EXPECT_THAT(server_->channel.Send(request, fds, Watchdog()), IsOk());
  }
  ExpectServes(1);
}

TEST_F(ForkServerMainTest, EndsWhenItsClientClosesTheChannel) {
  ExpectServes(1);
  server_->channel.Release().Reset();
  EXPECT_THAT(server_->process.Join(Watchdog()), IsOk());
}

TEST_F(ForkServerMainTest, EndsWhenItIsAskedToStop) {
  EXPECT_THAT(
      server_->channel.Send(EncodeForkRequest({.stop = true}), {}, Watchdog()),
      IsOk());
  EXPECT_THAT(server_->process.Join(Watchdog()), IsOk());
}

// Ctrl-C in the terminal reaches the server too.
TEST_F(ForkServerMainTest, AnInterruptDoesNotEndIt) {
  ExpectServes(1);
  EXPECT_THAT(server_->process.Signal(SIGINT), IsOk());
  ExpectServes(1);
}

}  // namespace
}  // namespace tenon::spawn

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The client of a fork server that dies, sends false replies, or has no
// descriptors left.

#include "tenon/spawn/fork_server/fork_client.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/testing/few_fds.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/fork_server/fork_request.h"
#include "tenon/spawn/fork_server/fork_server.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/testing/child_testing.h"

namespace tenon::spawn {
namespace {

using ::testing::HasSubstr;

class ForkClientTest : public ChildTest {
 protected:
  void TearDown() override {
    StopForkServer();
    ChildTest::TearDown();
  }
};

absl::Status TellServerPid(Child& child) {
  return Say(child, absl::StrCat(ParentPid(getppid())));
}
TENON_SPAWN_ENTRY("tell-server-pid", TellServerPid);

// The pid of the server of this process.
absl::StatusOr<std::string> ServerPid() {
  return AnswerOf(
      {.entry = "tell-server-pid", .method = StartMethod::kForkServer});
}

// ---- Servers that die or send false replies ----

// Runs in a server that preloads it, and takes the first request in its place.
// Returns the channel for the answer.
absl::StatusOr<Channel> TakeFirstRequest() {
  for (int fd = 4; fd < 64; ++fd) {  // 3 is the control channel.
    absl::StatusOr<Channel> requests = Channel::Adopt(
        UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 0)), {.allow_sockets = true});
    if (!requests.ok()) continue;
    TENON_ASSIGN_OR_RETURN(Message request, requests->Receive(Watchdog()));
    return Channel::Adopt(std::move(request.fds[0]));
  }
  return absl::InternalError("no channel of requests");
}

absl::Status AnswerWith(const std::string& bytes, std::vector<int> fds) {
  TENON_ASSIGN_OR_RETURN(Channel answer, TakeFirstRequest());
  return answer.Send(bytes, fds, Watchdog());
}

absl::Status AnswerGarbage(Child&) { return AnswerWith("garbage", {}); }
TENON_SPAWN_ENTRY("answer-garbage", AnswerGarbage);

absl::Status AnswerWithoutChildren(Child&) {
  return AnswerWith(EncodeForkReply({}), {});
}
TENON_SPAWN_ENTRY("answer-without-children", AnswerWithoutChildren);

absl::Status AnswerWithOneFd(Child&) {
  return AnswerWith(EncodeForkReply({absl::OkStatus(), {getpid()}}), {0});
}
TENON_SPAWN_ENTRY("answer-with-one-fd", AnswerWithOneFd);

absl::Status AnswerWithTwoChildren(Child&) {
  return AnswerWith(EncodeForkReply({absl::OkStatus(), {1, 2}}), {0, 0, 0, 0});
}
TENON_SPAWN_ENTRY("answer-with-two-children", AnswerWithTwoChildren);

absl::Status AnswerWithoutAPidfd(Child&) {
  return AnswerWith(EncodeForkReply({absl::OkStatus(), {getpid()}}), {0, 0});
}
TENON_SPAWN_ENTRY("answer-without-a-pidfd", AnswerWithoutAPidfd);

absl::Status AnswerWithoutAnExit(Child&) {
  TENON_ASSIGN_OR_RETURN(const PidFd self, PidFd::Open(getpid()));
  return AnswerWith(EncodeForkReply({absl::OkStatus(), {getpid()}}),
                    {self.fd(), self.fd()});
}
TENON_SPAWN_ENTRY("answer-without-an-exit", AnswerWithoutAnExit);

absl::Status AnswerNothing(Child&) { return TakeFirstRequest().status(); }
TENON_SPAWN_ENTRY("answer-nothing", AnswerNothing);

absl::Status DieAtTheFirstRequest(Child&) {
  TakeFirstRequest().status().IgnoreError();
  raise(SIGKILL);
  return absl::OkStatus();
}
TENON_SPAWN_ENTRY("die-at-the-first-request", DieAtTheFirstRequest);

absl::Status ExitInThePreload(Child&) { _exit(3); }
TENON_SPAWN_ENTRY("exit-in-the-preload", ExitInThePreload);

struct BadServer {
  const char* preload;
  absl::StatusCode code;
  const char* says;
};

TEST_F(ForkClientTest, AMalformedAnswerIsAnErrorAndTheNextIsTaken) {
  const BadServer kBad[] = {
      {"answer-garbage", absl::StatusCode::kDataLoss, ""},
      {"answer-without-children", absl::StatusCode::kDataLoss,
       "got 0 fds, want 2"},
      {"answer-with-one-fd", absl::StatusCode::kDataLoss, "got 1 fds, want 2"},
      {"answer-with-two-children", absl::StatusCode::kDataLoss,
       "got 4 fds, want 2"},
      {"answer-without-a-pidfd", absl::StatusCode::kInvalidArgument, "pidfd"},
      {"answer-without-an-exit", absl::StatusCode::kInvalidArgument, "pipe"},
      {"answer-nothing", absl::StatusCode::kUnavailable,
       "the fork server failed to start it"},
  };
  for (const BadServer& bad : kBad) {
    ASSERT_THAT(StartForkServer({.preload = {bad.preload}}), IsOk());
    EXPECT_THAT(ServerPid(), StatusIs(bad.code, HasSubstr(bad.says)))
        << bad.preload;
    // Now its own main function serves.
    EXPECT_THAT(ServerPid(), IsOk()) << bad.preload;
    StopForkServer();
  }
}

TEST_F(ForkClientTest, AServerThatAlwaysDiesIsUnavailableEachTime) {
  for (const char* const preload :
       {"die-at-the-first-request", "exit-in-the-preload"}) {
    ASSERT_THAT(StartForkServer({.preload = {preload}}), IsOk());
    for (int i = 0; i < 3; ++i) {
      EXPECT_THAT(ServerPid(), StatusIs(absl::StatusCode::kUnavailable))
          << preload;
    }
    StopForkServer();
  }
  ASSERT_THAT(StartForkServer(), IsOk());
  EXPECT_THAT(ServerPid(), IsOk());
}

// ---- Two clients ----

absl::Status TellOwnServer(Child& child) {
  TENON_ASSIGN_OR_RETURN(Channel test, TakeChannel(child));
  TENON_ASSIGN_OR_RETURN(const std::string first, ServerPid());
  TENON_ASSIGN_OR_RETURN(const std::string second, ServerPid());
  StopForkServer();
  return test.Send(first == second ? first : "two servers", {}, Watchdog());
}
TENON_SPAWN_ENTRY("tell-own-server", TellOwnServer);

TEST_F(ForkClientTest, AForkOfTheClientHasAServerOfItsOwn) {
  TENON_ASSERT_OK_AND_ASSIGN(const std::string before, ServerPid());
  for (const StartMethod method :
       {StartMethod::kFork, StartMethod::kForkServer, StartMethod::kSpawn}) {
    TENON_ASSERT_OK_AND_ASSIGN(
        const std::string theirs,
        AnswerOf({.entry = "tell-own-server", .method = method}));
    int pid = 0;
    EXPECT_TRUE(absl::SimpleAtoi(theirs, &pid)) << theirs;
    EXPECT_NE(theirs, before);
  }
  // It has stopped its own server, and not this one.
  EXPECT_THAT(ServerPid(), IsOkAndHolds(before));
}

// ---- Children and their supervisors ----

absl::Status StayUntilKilled(Child&) {
  for (;;) pause();
}
TENON_SPAWN_ENTRY("stay-until-killed", StayUntilKilled);

absl::StatusOr<Process> StartOneThatStays() {
  return Process::Start(
      {.entry = "stay-until-killed", .method = StartMethod::kForkServer});
}

TEST_F(ForkClientTest, AKilledSupervisorCostsItsChildAndNoOther) {
  TENON_ASSERT_OK_AND_ASSIGN(const std::string before, ServerPid());
  TENON_ASSERT_OK_AND_ASSIGN(Process one, StartOneThatStays());
  TENON_ASSERT_OK_AND_ASSIGN(const Process other, StartOneThatStays());
  ASSERT_EQ(kill(ParentPid(one.pid()), SIGKILL), 0);
  EXPECT_THAT(one.Join(Watchdog()), StatusIs(absl::StatusCode::kAborted));
  EXPECT_TRUE(other.IsAlive());
  EXPECT_THAT(ServerPid(), IsOkAndHolds(before));
}

// ---- At a limit ----

// Starts with 0, 1, 2... free descriptors until that is enough.
absl::Status AskAtTheLimit(Child&) {
  TENON_RETURN_IF_ERROR(ServerPid().status());
  const size_t before = CountOpenFds();
  for (size_t left = 0; left < 40; ++left) {
    std::optional<FewFds> few(left);
    absl::StatusOr<Process> one = StartOneThatStays();
    few.reset();
    if (one.ok()) {
      TENON_RETURN_IF_ERROR(one->Kill());
      one->Join(Watchdog()).IgnoreError();
      StopForkServer();
      return left > 0 ? absl::OkStatus() : absl::InternalError("no limit");
    }
    if (!absl::IsResourceExhausted(one.status())) return one.status();
    if (CountOpenFds() != before) {
      return absl::InternalError(
          absl::StrCat(CountOpenFds(), " descriptors, not ", before));
    }
  }
  return absl::InternalError("forty descriptors are not enough");
}
TENON_SPAWN_ENTRY("ask-at-the-limit", AskAtTheLimit);

TEST_F(ForkClientTest, LimitOfOpenFilesLeavesNothingBehind) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "UBSan looks at objects through a pipe, for which no "
                  "descriptor is left";
#endif
  TENON_ASSERT_OK_AND_ASSIGN(Process client,
                             Process::Start({.entry = "ask-at-the-limit"}));
  EXPECT_THAT(client.Join(Watchdog()), IsOk());
}

constexpr char kSpareFds[] = "TENON_TEST_SPARE_FDS";

// In a server that preloads it: few descriptors are left.
absl::Status LowerTheLimit(Child&) {
  static const FewFds few(static_cast<rlim_t>(std::stoi(getenv(kSpareFds))));
  return absl::OkStatus();
}
TENON_SPAWN_ENTRY("lower-the-limit", LowerTheLimit);

TEST_F(ForkClientTest, AServerWithoutDescriptorsIsAnErrorAndNoHang) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "UBSan looks at objects through a pipe, for which no "
                  "descriptor is left";
#endif
  int failed = 0;
  bool starts = false;
  for (int spare = 1; !starts; ++spare) {
    ASSERT_LT(spare, 60);
    ASSERT_EQ(setenv(kSpareFds, absl::StrCat(spare).c_str(), 1), 0);
    ASSERT_THAT(StartForkServer({.preload = {"lower-the-limit"}}), IsOk());
    const absl::Status how = ServerPid().status();
    starts = how.ok();
    failed += how.ok() ? 0 : 1;
    // The request cannot be received; the fork lacks descriptors; the child
    // does, which inherits the limit.
    EXPECT_TRUE(how.ok() || absl::IsUnavailable(how) ||
                absl::IsResourceExhausted(how) || absl::IsAborted(how))
        << how;
    StopForkServer();
  }
  EXPECT_GT(failed, 6) << "a request has six descriptors";
  ASSERT_EQ(unsetenv(kSpareFds), 0);
}

}  // namespace
}  // namespace tenon::spawn

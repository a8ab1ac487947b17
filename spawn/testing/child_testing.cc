// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/testing/child_testing.h"

#include <errno.h>
#include <sys/wait.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/supervisor/supervisor.h"

namespace tenon::spawn {
namespace {

absl::Status Echo(Child& child) {
  TENON_ASSIGN_OR_RETURN(Channel channel, TakeChannel(child));
  for (;;) {
    absl::StatusOr<Message> message = channel.Receive(Deadline::Never());
    if (absl::IsUnavailable(message.status())) return absl::OkStatus();
    TENON_RETURN_IF_ERROR(message.status());
    TENON_RETURN_IF_ERROR(channel.Send(message->bytes, {}, Watchdog()));
  }
}
TENON_SPAWN_ENTRY(kEcho, Echo);

}  // namespace

Deadline Watchdog() { return Deadline::After(absl::Seconds(60)); }

bool HasChildren() {
  siginfo_t info;
  return waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT) == 0 ||
         errno != ECHILD;
}

void ChildTest::SetUp() {
  ASSERT_FALSE(HasChildren());
  fds_before_ = CountOpenFds();
}

void ChildTest::TearDown() {
  // Supervisors that linger end a moment after nested supervisors.
  const Deadline patience = Deadline::After(absl::Seconds(10));
  for (;;) {
    ReapLingeringSupervisors();
    if (!HasChildren() || patience.has_passed()) break;
    PollUntil({}, Deadline::After(absl::Milliseconds(1)))
        .status()
        .IgnoreError();
  }
  EXPECT_FALSE(HasChildren());
  EXPECT_EQ(CountOpenFds(), fds_before_);
}

absl::StatusOr<Talker> StartTalker(ProcessOptions options) {
  TENON_ASSIGN_OR_RETURN(auto ends, Channel::CreatePair());
  options.fds.insert(options.fds.begin(), ends.second.Release());
  TENON_ASSIGN_OR_RETURN(Process process, Process::Start(std::move(options)));
  return Talker{std::move(ends.first), std::move(process)};
}

absl::StatusOr<Channel> TakeChannel(Child& child) {
  return Channel::Adopt(child.TakeFd(0));
}

absl::Status Say(Child& child, absl::string_view words) {
  TENON_ASSIGN_OR_RETURN(Channel channel, TakeChannel(child));
  return channel.Send(words, {}, Watchdog());
}

absl::StatusOr<std::string> AnswerOf(ProcessOptions options) {
  TENON_ASSIGN_OR_RETURN(Talker talker, StartTalker(std::move(options)));
  const absl::StatusOr<Message> answer = talker.channel.Receive(Watchdog());
  // The child's exit explains better why there is no answer.
  TENON_RETURN_IF_ERROR(talker.process.Join(Watchdog()));
  TENON_RETURN_IF_ERROR(answer.status());
  return answer->bytes;
}

absl::Status Ping(Channel& channel) {
  TENON_RETURN_IF_ERROR(channel.Send("ping", {}, Watchdog()));
  TENON_ASSIGN_OR_RETURN(const Message answer, channel.Receive(Watchdog()));
  return answer.bytes == "ping" ? absl::OkStatus()
                                : absl::DataLossError(answer.bytes);
}

}  // namespace tenon::spawn

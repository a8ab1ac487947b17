// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Every system call of connecting, sending and receiving, and of listening and
// accepting, fails with every errno that the code names or the kernel may
// return: nothing leaks, nothing hangs, and the next try works. No call fails
// in the process at the other end.

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include <functional>
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
#include "tenon/ipc/channel/channel_testing.h"
#include "tenon/ipc/listener/listener.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm/testing/trace/fault_report.h"
#include "tenon/shm/testing/trace/syscall_failer.h"
#include "tenon/shm/testing/trace/tracee.h"

namespace tenon {
namespace {

using Faults = std::vector<SyscallFault>;

Faults Make(const std::vector<std::string>& calls,
            const std::vector<int>& errors) {
  Faults faults;
  for (const std::string& call : calls) {
    for (const int error : errors) {
      faults.push_back({.call = call, .error = error});
    }
  }
  return faults;
}

Faults operator+(Faults a, const Faults& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Faults CommonFaults() {
  return Make({"socket"}, {EMFILE, ENFILE, ENOMEM}) +
         Make({"setsockopt", "getsockopt"}, {ENOMEM}) +
         Make({"pidfd_open"}, {EMFILE, ENOMEM}) +
         Make({"sendmsg"}, {EINTR, EAGAIN, ENOMEM, ETOOMANYREFS, EPIPE}) +
         Make({"recvmsg"}, {EINTR, EAGAIN, ENOMEM, ECONNRESET}) +
         Make({"memfd_create"}, {EMFILE, ENOMEM}) +
         Make({"ppoll"}, {EINTR, ENOMEM}) +
         Faults{{.call = "close", .error = EINTR, .executed = true}};
}

Deadline Soon() { return Deadline::After(absl::Seconds(5)); }

const std::string& Large() {
  static const std::string* const bytes = new std::string(100'000, 'x');
  return *bytes;
}

// Runs at both ends of their channel.
absl::Status Exchange(Channel channel) {
  const int fd = STDERR_FILENO;
  TENON_RETURN_IF_ERROR(channel.Send(Large(), {&fd, 1}, Soon()));
  TENON_ASSIGN_OR_RETURN(const Message message, channel.Receive(Soon()));
  if (message.bytes == Large() && message.fds.size() == 1) {
    return absl::OkStatus();
  }
  return absl::InternalError("a message that is not whole");
}

class ConnectFaultTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const absl::Status can = CanTrace(); !can.ok()) GTEST_SKIP() << can;
    char name[] = "/tmp/tenon_fault_XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    directory_ = name;
  }
  void TearDown() override {
    if (other_ > 0) {
      kill(other_, SIGKILL);
      EXPECT_EQ(ExitCodeOf(other_), 128 + SIGKILL);
    }
    if (directory_.empty()) return;
    unlink(file().c_str());
    EXPECT_EQ(rmdir(directory_.c_str()), 0);
  }

  std::string file() const { return directory_ + "/socket"; }
  void StartOther(const std::function<void()>& body) {
    other_ = StartChild(body);
  }

  void Run(const std::string& name, std::function<absl::Status()> body,
           Faults faults) {
    FaultScenario scenario;
    scenario.name = name;
    scenario.body = std::move(body);
    scenario.faults = std::move(faults);
    scenario.check = [](const SyscallFault& fault,
                        const absl::Status& outcome) -> absl::Status {
      if (absl::IsInternal(outcome)) return outcome;
      // A signal must never matter.
      return fault.error == EINTR ? outcome : absl::OkStatus();
    };
    TENON_ASSERT_OK_AND_ASSIGN(const FaultReport report,
                               FailSystemCalls(scenario));
    std::cout << report.ToString();
    EXPECT_TRUE(report.ok()) << report.ToString();
  }

 private:
  std::string directory_;
  pid_t other_ = 0;
};

TEST_F(ConnectFaultTest, Connecting) {
  const std::string name = file();
  StartOther([&] {
    TENON_ASSERT_OK_AND_ASSIGN(Listener listener, Listener::CreateAtPath(name));
    for (;;) {
      absl::StatusOr<Channel> channel = listener.Accept(Soon());
      if (channel.ok()) Exchange(*std::move(channel)).IgnoreError();
    }
  });
  while (access(name.c_str(), F_OK) != 0) usleep(1000);
  Run(
      "connect",
      [&]() -> absl::Status {
        TENON_ASSIGN_OR_RETURN(Channel channel, Connect(name, Soon()));
        return Exchange(std::move(channel));
      },
      CommonFaults() +
          Make({"connect"}, {EINTR, EAGAIN, ECONNREFUSED, EACCES}));
}

TEST_F(ConnectFaultTest, Listening) {
  StartOther([&] {
    for (;;) {
      absl::StatusOr<Channel> channel = Connect(file(), Soon());
      if (channel.ok()) Exchange(*std::move(channel)).IgnoreError();
      usleep(200);
    }
  });
  Run(
      "accept",
      [&]() -> absl::Status {
        TENON_ASSIGN_OR_RETURN(Listener listener,
                               Listener::CreateAtPath(file()));
        TENON_ASSIGN_OR_RETURN(Channel channel, listener.Accept(Soon()));
        return Exchange(std::move(channel));
      },
      CommonFaults() + Make({"bind"}, {EACCES, ENOMEM}) +
          Make({"listen"}, {EOPNOTSUPP}) + Make({"flock"}, {EINTR, ENOLCK}) +
          Make({"accept4"}, {EINTR, EAGAIN, EMFILE, ENFILE, ECONNABORTED}) +
          Make({"epoll_create1"}, {EMFILE, ENOMEM}) +
          Make({"epoll_ctl"}, {ENOMEM, ENOSPC}));
}

}  // namespace
}  // namespace tenon

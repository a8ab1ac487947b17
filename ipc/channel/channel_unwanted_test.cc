// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Descriptors that a receiver does not want: too many, or sockets.

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/channel/channel_testing.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

using absl::StatusCode::kDataLoss;

class ChannelUnwantedTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    TENON_ASSERT_OK_AND_ASSIGN(
        auto pair, Channel::CreatePair({.allow_sockets = GetParam()}));
    a_.emplace(std::move(pair.first));
    b_.emplace(std::move(pair.second));
    file_ = UniqueFd(eventfd(0, EFD_CLOEXEC));
    fds_before_ = CountOpenFds();
  }

  Channel& a() { return *a_; }
  Channel& b() { return *b_; }
  int file() const { return file_.get(); }

  void ExpectNothingLeftOpenAndUsable() {
    EXPECT_TRUE(Becomes([&] { return CountOpenFds() <= fds_before_; }));
    EXPECT_THAT(a().Send("there", {}, Watchdog()), IsOk());
    EXPECT_THAT(b().Receive(Watchdog(), 0), IsMessage("there"));
  }

 private:
  std::optional<Channel> a_, b_;
  UniqueFd file_;
  size_t fds_before_ = 0;
};

TEST_P(ChannelUnwantedTest, MoreDescriptorsThanExpectedAreDataLoss) {
  for (const size_t expected : {size_t{0}, size_t{1}, size_t{7}}) {
    for (const size_t sent : {expected, expected + 1, Channel::kMaxFds}) {
      ASSERT_THAT(a().Send("x", std::vector<int>(sent, file()), Watchdog()),
                  IsOk());
      const absl::StatusOr<Message> message = b().Receive(Watchdog(), expected);
      if (sent == expected) {
        ASSERT_THAT(message, IsOk());
        EXPECT_THAT(message->fds, SizeIs(sent));
        continue;
      }
      EXPECT_THAT(
          message,
          StatusIs(kDataLoss,
                   AllOf(HasSubstr(absl::StrCat(sent, " descriptors")),
                         HasSubstr(absl::StrCat("at most ", expected)))));
    }
    ExpectNothingLeftOpenAndUsable();
  }
}

TEST_P(ChannelUnwantedTest, UnixSocketsOnlyWhereTheyAreAllowed) {
  for (const int type : {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET}) {
    {
      int ends[2];
      ASSERT_EQ(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends), 0);
      const UniqueFd one(ends[0]), two(ends[1]);
      ASSERT_THAT(a().Send("x", {{file(), one.get(), file()}}, Watchdog()),
                  IsOk());
    }
    const absl::StatusOr<Message> message = b().Receive(Watchdog());
    if (GetParam()) {
      ASSERT_THAT(message, IsOk());
      EXPECT_THAT(message->fds, SizeIs(3));
    } else {
      EXPECT_THAT(message,
                  StatusIs(kDataLoss, AllOf(HasSubstr("AF_UNIX"),
                                            HasSubstr("allow_sockets"))));
    }
  }
  ExpectNothingLeftOpenAndUsable();
}

// Those sockets cannot hold others of their kind.
TEST_P(ChannelUnwantedTest, OtherSocketsAreDescriptorsAsAnyOther) {
  {
    const UniqueFd other(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_TRUE(other.valid());
    const int fd = other.get();
    ASSERT_THAT(a().Send("x", {&fd, 1}, Watchdog()), IsOk());
  }
  EXPECT_THAT(b().Receive(Watchdog()), IsOk());
  ExpectNothingLeftOpenAndUsable();
}

// Nested sockets: each is in flight inside the next one.
TEST_P(ChannelUnwantedTest, NestedSocketsAreClosedWithTheOutermost) {
  if (GetParam()) GTEST_SKIP() << "whoever allows sockets allows these";
  const size_t fds_before = CountOpenFds();
  {
    auto [outer, outer_end] = SocketPair();
    for (int depth = 0; depth < 20; ++depth) {
      auto [inner, inner_end] = SocketPair();
      const int fds[] = {outer.get(), outer_end.get()};
      ASSERT_TRUE(SendRaw(inner.get(), "nested", fds));
      outer = std::move(inner);
      outer_end = std::move(inner_end);
    }
    const int fds[] = {outer.get(), outer_end.get()};
    ASSERT_THAT(a().Send("nest", fds, Watchdog()), IsOk());
  }
  EXPECT_THAT(b().Receive(Watchdog()), StatusIs(kDataLoss));
  EXPECT_TRUE(Becomes([&] { return CountOpenFds() <= fds_before; }));
  ExpectNothingLeftOpenAndUsable();
}

INSTANTIATE_TEST_SUITE_P(Sockets, ChannelUnwantedTest, ::testing::Bool(),
                         [](const auto& test) {
                           return test.param ? "Allowed" : "Refused";
                         });

}  // namespace
}  // namespace tenon

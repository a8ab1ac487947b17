// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A receiver that rejects descriptors closes its own copies. A socket is one
// object for all of its holders, so the queue or the channel that it belongs to
// must keep working for them.

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/channel/channel_testing.h"
#include "tenon/ipc/queue/queue.h"
#include "tenon/ipc/queue/queue_channel.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/few_fds.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

using absl::StatusCode::kDataLoss;
using absl::StatusCode::kResourceExhausted;

using NumberQueue = Queue<uint64_t>;

// A queue whose handle is in flight to a receiver.
class RefusedQueueTest : public testing::Test {
 protected:
  void SetUp() override {
    TENON_ASSERT_OK_AND_ASSIGN(NumberQueue queue,
                               NumberQueue::Create({.max_participants = 3}));
    queue_.push_back(std::move(queue));
    TENON_ASSERT_OK_AND_ASSIGN(handle_, queue_[0].Share());
  }

  void Send(Channel& to) const {
    ASSERT_THAT(SendQueueHandle(to, handle_, Watchdog()), IsOk());
  }

  // A process joins, and items pass in both directions.
  void ExpectQueueWorks() {
    TENON_ASSERT_OK_AND_ASSIGN(NumberQueue joined,
                               NumberQueue::Open(std::move(handle_)));
    ASSERT_THAT(queue_[0].Put(1, Watchdog()), IsOk());
    EXPECT_THAT(joined.Get(Watchdog()), IsOkAndHolds(1u));
    ASSERT_THAT(joined.Put(2, Watchdog()), IsOk());
    EXPECT_THAT(queue_[0].Get(Watchdog()), IsOkAndHolds(2u));
  }

  std::vector<NumberQueue> queue_;
  QueueHandle handle_;
};

TEST_F(RefusedQueueTest, SocketsAreNotAllowed) {
  const size_t fds_before = CountOpenFds();
  {
    TENON_ASSERT_OK_AND_ASSIGN(auto pair, Channel::CreatePair());
    Send(pair.first);
    EXPECT_THAT(ReceiveQueueHandle(pair.second, Watchdog()),
                StatusIs(kDataLoss, HasSubstr("allow_sockets")));
  }
  EXPECT_TRUE(Becomes([&] { return CountOpenFds() <= fds_before; }));
  ExpectQueueWorks();
}

TEST_F(RefusedQueueTest, MoreDescriptorsThanTheReceiverTakes) {
  const size_t fds_before = CountOpenFds();
  {
    TENON_ASSERT_OK_AND_ASSIGN(auto pair,
                               Channel::CreatePair({.allow_sockets = true}));
    Send(pair.first);
    EXPECT_THAT(pair.second.Receive(Watchdog(), 2),
                StatusIs(kDataLoss, HasSubstr("accepts at most 2")));
  }
  EXPECT_TRUE(Becomes([&] { return CountOpenFds() <= fds_before; }));
  ExpectQueueWorks();
}

// There is room for all descriptors of the handle but one.
TEST_F(RefusedQueueTest, TheReceiverIsAtItsLimitOfOpenFiles) {
  TENON_ASSERT_OK_AND_ASSIGN(auto pair,
                             Channel::CreatePair({.allow_sockets = true}));
  Send(pair.first);
  EXPECT_TRUE(PassesInChild([&] {
    // Inherited descriptors do not count as received.
    TENON_ASSERT_OK_AND_ASSIGN(
        Channel channel,
        Channel::Adopt(pair.second.Release(), {.allow_sockets = true}));
    const size_t fds_before = CountOpenFds();
    std::optional<FewFds> few(handle_.fds.size() - 1);
    const auto handle = ReceiveQueueHandle(channel, Watchdog());
    few.reset();
    EXPECT_THAT(handle,
                StatusIs(kResourceExhausted, HasSubstr("RLIMIT_NOFILE")));
    EXPECT_TRUE(Becomes([&] { return CountOpenFds() <= fds_before; }));
  }));
  ExpectQueueWorks();
}

TEST(RefusedChannelTest, ItsSenderStillUsesIt) {
  TENON_ASSERT_OK_AND_ASSIGN(auto carrier, Channel::CreatePair());
  TENON_ASSERT_OK_AND_ASSIGN(auto own, Channel::CreatePair());
  const int fd = own.second.fd();
  const size_t fds_before = CountOpenFds();
  ASSERT_THAT(carrier.first.Send("an end", {&fd, 1}, Watchdog()), IsOk());
  EXPECT_THAT(carrier.second.Receive(Watchdog()),
              StatusIs(kDataLoss, HasSubstr("allow_sockets")));
  EXPECT_TRUE(Becomes([&] { return CountOpenFds() <= fds_before; }));
  ASSERT_THAT(own.first.Send("there", {}, Watchdog()), IsOk());
  EXPECT_THAT(own.second.Receive(Watchdog()), IsMessage("there"));
  ASSERT_THAT(own.second.Send("back", {}, Watchdog()), IsOk());
  EXPECT_THAT(own.first.Receive(Watchdog()), IsMessage("back"));
}

}  // namespace
}  // namespace tenon

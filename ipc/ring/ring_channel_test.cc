// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/ring/ring_channel.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/channel/channel_testing.h"
#include "tenon/ipc/ring/ring.h"
#include "tenon/ipc/ring/ring_testing.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

TEST(RingChannelTest, AReaderInAnotherProcessJoins) {
  TENON_ASSERT_OK_AND_ASSIGN(auto ring, RingProducer::Create({}));
  auto pair = Channel::CreatePair().value();
  const pid_t child = StartChild([&] {
    auto channel = Channel::Adopt(pair.second.Release());
    ASSERT_THAT(channel, IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(auto reader, JoinRing(*channel, Watchdog()));
    for (uint64_t i = 0; i < 10; ++i) {
      ASSERT_THAT(GetRecord(*reader, i, Watchdog()), IsOk());
    }
  });
  ASSERT_THAT(AddRingReader(*ring, pair.first, Watchdog()), IsOk());
  for (uint64_t i = 0; i < 10; ++i) {
    ASSERT_THAT(PutRecord(*ring, i, Watchdog()), IsOk());
  }
  EXPECT_THAT(ring->Close(Watchdog()), IsOk());
  EXPECT_EQ(ExitCodeOf(child), 0);
}

// As often as there are slots: each unanswered offer is withdrawn.
TEST(RingChannelTest, AnInvalidReplyTakesNoSlot) {
  TENON_ASSERT_OK_AND_ASSIGN(auto ring, RingProducer::Create({}));
  auto pair = Channel::CreatePair().value();
  const size_t fds = CountOpenFds();
  for (uint64_t i = 0; i < 2 * RingGeometry::kMaxReaders; ++i) {
    ASSERT_THAT(pair.second.Send("no reply", {}, Watchdog()), IsOk());
    EXPECT_THAT(AddRingReader(*ring, pair.first, Watchdog()),
                StatusIs(absl::StatusCode::kInvalidArgument));
    ASSERT_THAT(pair.second.Receive(Watchdog()), IsOk());
  }
  EXPECT_THAT(
      AddRingReader(*ring, pair.first, Deadline::After(absl::Milliseconds(5))),
      StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_EQ(ring->num_readers(), 0u);
  ASSERT_THAT(pair.second.Receive(Watchdog()), IsOk());
  EXPECT_TRUE(Becomes([&] { return CountOpenFds() <= fds; }));
}

TEST(RingChannelTest, ReplayedRepliesAreRefused) {
  TENON_ASSERT_OK_AND_ASSIGN(auto ring, RingProducer::Create({}));
  TENON_ASSERT_OK_AND_ASSIGN(const RingOffer other, ring->Offer());
  auto pair = Channel::CreatePair().value();
  RingReplyMessage replayed;
  replayed.ring = other.message.ring;
  replayed.index = other.message.index;
  replayed.number = other.message.number;
  ASSERT_THAT(pair.second.Send(replayed.ToBytes(), other.fds.get(), Watchdog()),
              IsOk());
  EXPECT_THAT(AddRingReader(*ring, pair.first, Watchdog()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::HasSubstr("another offer")));
}

TEST(RingChannelTest, AnythingElseIsNoOffer) {
  auto pair = Channel::CreatePair().value();
  ASSERT_THAT(pair.first.Send("no offer", {}, Watchdog()), IsOk());
  EXPECT_THAT(JoinRing(pair.second, Watchdog()),
              StatusIs(absl::StatusCode::kInvalidArgument));
  { const UniqueFd gone = pair.first.Release(); }
  EXPECT_THAT(JoinRing(pair.second, Watchdog()),
              StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Every kind of tensor memory, between two threads and between two processes.

#include "tenon/ipc/tensor_queue/tensor_queue.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/ipc/tensor_queue/tensor_queue_testing.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/kill/peer.h"
#include "tenon/shm/testing/kill/two_peers.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

class TensorQueueTest
    : public testing::TestWithParam<std::tuple<TensorWay, PeerMode>> {
 protected:
  TensorQueueTest() {
    queue_ = TensorQueue::Create({.capacity = 16}).value();
    for (QueueHandle& handle : handles_) handle = queue_->Share().value();
  }

  TensorWay way() const { return std::get<0>(GetParam()); }
  PeerMode mode() const { return std::get<1>(GetParam()); }

  // The queue of peer a or b; once for each.
  std::unique_ptr<TensorQueue> Open(const Peer& self) {
    auto queue =
        TensorQueue::Open(std::move(handles_[self.name() == "a" ? 0 : 1]));
    EXPECT_THAT(queue, IsOk());
    return *std::move(queue);
  }

  const std::string prefix_ = UniqueShmPrefix();
  ShmNamesGuard names_{prefix_};
  std::unique_ptr<TensorQueue> queue_;
  QueueHandle handles_[2];
};

TEST_P(TensorQueueTest, DeliversInOrderAndReleases) {
  constexpr int64_t kTensors = 100;
  EXPECT_TRUE(RunTwoPeers(mode(), [&](Peer& self) {
    const auto queue = Open(self);
    if (self.name() == "a") {
      TensorMaker maker(way(), queue.get(), prefix_);
      for (int64_t i = 0; i < kTensors; ++i) {
        TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor, maker.Make(i));
        ASSERT_THAT(queue->Put(tensor, TestDeadline()), IsOk());
      }
      ASSERT_THAT(queue->AwaitTaken(TestDeadline()), IsOk());
      EXPECT_EQ(queue->held(), 0u);
      EXPECT_THAT(self.Await("got"), IsOk());
    } else {
      for (int64_t i = 0; i < kTensors; ++i) {
        ASSERT_TRUE(GetsTensorOf(*queue, i));
      }
      self.Step("got");
    }
  }));
}

// For each kind of memory; and a view, which is not dense.
TEST_P(TensorQueueTest, OneTensorIsGotWithoutAMessage) {
  EXPECT_TRUE(RunTwoPeers(mode(), [&](Peer& self) {
    const auto queue = Open(self);
    if (self.name() == "a") {
      TensorMaker maker(way(), queue.get(), prefix_);
      TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor, maker.Make(1));
      TENON_ASSERT_OK_AND_ASSIGN(const Tensor turned, tensor.Transpose(0, 1));
      ASSERT_THAT(queue->Put(tensor, TestDeadline()), IsOk());
      ASSERT_THAT(queue->Put(turned, TestDeadline()), IsOk());
      ASSERT_THAT(queue->Put(TensorMessage(tensor), TestDeadline()), IsOk());
      ASSERT_THAT(queue->AwaitTaken(TestDeadline()), IsOk());
      EXPECT_THAT(self.Await("got"), IsOk());
    } else {
      TENON_ASSERT_OK_AND_ASSIGN(const Tensor first,
                                 queue->GetTensor(TestDeadline()));
      EXPECT_TRUE(IsTensorOf(first, 1));
      TENON_ASSERT_OK_AND_ASSIGN(const Tensor turned,
                                 queue->GetTensor(TestDeadline()));
      EXPECT_EQ(turned.spec().shape(), absl::MakeConstSpan({5l, 3l}));
      EXPECT_EQ(**turned.at<const int64_t>({4, 2}), 1);
      std::optional<Tensor> last;
      EXPECT_TRUE(Becomes([&] {
        last = queue->TryGetTensor().value();
        return last.has_value();
      }));
      EXPECT_TRUE(IsTensorOf(*last, 1));
      self.Step("got");
    }
  }));
}

TEST_P(TensorQueueTest, ViewsOfOneStorageAreThatAtTheOtherEnd) {
  EXPECT_TRUE(RunTwoPeers(mode(), [&](Peer& self) {
    const auto queue = Open(self);
    if (self.name() == "a") {
      TensorMaker maker(way(), queue.get(), prefix_);
      TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor, maker.Make(1));
      TENON_ASSERT_OK_AND_ASSIGN(const Tensor row, tensor.Select(0, 1));
      TENON_ASSERT_OK_AND_ASSIGN(const Tensor turned, tensor.Transpose(0, 1));
      ASSERT_THAT(row.Fill(int64_t{2}), IsOk());
      TensorMessage message;
      message.Add("views").Add(row).Add(turned).Add(7);
      ASSERT_THAT(queue->Put(message, TestDeadline()), IsOk());
      ASSERT_THAT(queue->AwaitTaken(TestDeadline()), IsOk());
      EXPECT_THAT(self.Await("got"), IsOk());
    } else {
      TENON_ASSERT_OK_AND_ASSIGN(const TensorMessage message,
                                 queue->Get(TestDeadline()));
      EXPECT_THAT(message.string(0), IsOkAndHolds("views"));
      EXPECT_THAT(message.integer(3), IsOkAndHolds(7));
      TENON_ASSERT_OK_AND_ASSIGN(const Tensor row, message.tensor(1));
      TENON_ASSERT_OK_AND_ASSIGN(const Tensor turned, message.tensor(2));
      EXPECT_TRUE(IsTensorOf(row, 2));
      EXPECT_EQ(row.storage(), turned.storage());
      EXPECT_EQ(turned.spec().shape(), absl::MakeConstSpan({5l, 3l}));
      EXPECT_EQ(**turned.at<const int64_t>({4, 1}), 2);
      EXPECT_EQ(**turned.at<const int64_t>({4, 0}), 1);
      self.Step("got");
    }
  }));
}

// Queued messages can be received when the other end is killed, or has not
// begun yet.
TEST_P(TensorQueueTest, ALateJoinerGetsAllAlsoOfTheDead) {
  if (mode() == PeerMode::kThreads) GTEST_SKIP() << "threads cannot be killed";
  EXPECT_TRUE(RunTwoPeers(mode(), [&](Peer& self) {
    if (self.name() == "a") {
      const auto queue = Open(self);
      TensorMaker maker(way(), queue.get(), prefix_);
      for (int64_t i = 0; i < 16; ++i) {
        TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor, maker.Make(i));
        ASSERT_THAT(queue->Put(tensor, TestDeadline()), IsOk());
      }
      self.Step("put");
      self.Die();
    }
    ASSERT_THAT(self.Await("put"), IsOk());
    EXPECT_THAT(self.Await("never"), StatusIs(absl::StatusCode::kUnavailable));
    const auto queue = Open(self);
    for (int64_t i = 0; i < 16; ++i) ASSERT_TRUE(GetsTensorOf(*queue, i));
  }));
}

// Also messages of a sender that has left without waiting, and has dropped the
// tensor. A name needs a NameKeeper for that (attach_process_test, with the
// daemon); without one its creator keeps the tensor.
TEST_P(TensorQueueTest, WhatWasPutOutlivesItsSender) {
  EXPECT_TRUE(RunTwoPeers(mode(), [&](Peer& self) {
    auto queue = Open(self);
    if (self.name() == "a") {
      TensorMaker maker(way(), queue.get(), prefix_);
      TENON_ASSERT_OK_AND_ASSIGN(Tensor tensor, maker.Make(3));
      ASSERT_THAT(queue->Put(tensor, TestDeadline()), IsOk());
      if (way() != TensorWay::kFileSystem) tensor = Tensor();
      queue.reset();
      self.Step("left");
      EXPECT_THAT(self.Await("got"), IsOk());
    } else {
      ASSERT_THAT(self.Await("left"), IsOk());
      EXPECT_TRUE(GetsTensorOf(*queue, 3));
      self.Step("got");
    }
  }));
}

// There and back: each time the owner holds the tensor, drops it, and receives
// it again.
TEST_P(TensorQueueTest, ReturnsToItsSender) {
  // A process that knows only the name may not forward it once its owner has
  // dropped it.
  const bool keeps = way() == TensorWay::kFileSystem;
  TENON_ASSERT_OK_AND_ASSIGN(const auto back,
                             TensorQueue::Create({.capacity = 4}));
  TENON_ASSERT_OK_AND_ASSIGN(QueueHandle back_a, back->Share());
  TENON_ASSERT_OK_AND_ASSIGN(QueueHandle back_b, back->Share());
  EXPECT_TRUE(RunTwoPeers(mode(), [&](Peer& self) {
    const auto there = Open(self);
    const bool is_a = self.name() == "a";
    TENON_ASSERT_OK_AND_ASSIGN(
        const auto back_here,
        TensorQueue::Open(std::move(is_a ? back_a : back_b)));
    TensorMaker maker(way(), there.get(), prefix_);
    for (int64_t i = 0; i < 20; ++i) {
      if (is_a) {
        TENON_ASSERT_OK_AND_ASSIGN(Tensor tensor, maker.Make(i));
        ASSERT_THAT(there->Put(tensor, TestDeadline()), IsOk());
        if (!keeps) tensor = Tensor();
        ASSERT_TRUE(GetsTensorOf(*back_here, i));
      } else {
        TENON_ASSERT_OK_AND_ASSIGN(const TensorMessage message,
                                   there->Get(TestDeadline()));
        ASSERT_TRUE(IsTensorOf(message.tensor(0), i));
        ASSERT_THAT(back_here->Put(message, TestDeadline()), IsOk());
      }
    }
    EXPECT_THAT(back_here->AwaitTaken(TestDeadline()), IsOk());
    EXPECT_THAT(self.Meet("done"), IsOk());
  }));
}

INSTANTIATE_TEST_SUITE_P(Ways, TensorQueueTest,
                         testing::Combine(testing::ValuesIn(kAllTensorWays),
                                          AllPeerModes()),
                         [](const auto& test) {
                           return TensorWayName(std::get<0>(test.param)) +
                                  (std::get<1>(test.param) == PeerMode::kThreads
                                       ? "Threads"
                                       : "Processes");
                         });

}  // namespace
}  // namespace tenon

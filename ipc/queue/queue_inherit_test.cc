// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Tensors in the rings of dead producers: a participant that joins inherits
// such a ring, and the descriptors that the tensors need.

#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/ipc/tensor_queue/tensor_queue_testing.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

class QueueInheritTest : public testing::TestWithParam<TensorWay> {
 protected:
  void SetUp() override {
    auto queue = TensorQueue::Create({.capacity = 4, .max_participants = 3});
    ASSERT_THAT(queue, IsOk());
    queue_ = *std::move(queue);
  }

  // A participant that puts two tensors and is killed.
  void PutAndDie(int64_t first) {
    const uint64_t before = queue_->size();
    QueueHandle handle = queue_->Share().value();
    ForkedChild producer =
        ForkedChild::Fork({.name = "producer"}, [&](const Reporter&) {
          auto mine = TensorQueue::Open(std::move(handle));
          ASSERT_THAT(mine, IsOk());
          TensorMaker maker(GetParam(), mine->get(), prefix_);
          for (int64_t value = first; value < first + 2; ++value) {
            TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor, maker.Make(value));
            ASSERT_THAT((*mine)->Put(tensor, TestDeadline()), IsOk());
          }
          for (;;) pause();
        }).value();
    ASSERT_TRUE(Becomes([&] { return queue_->size() == before + 2; }));
    producer.Kill();
    EXPECT_THAT(producer.report().failures, testing::IsEmpty());
  }

  const std::string prefix_ = UniqueShmPrefix();
  ShmNamesGuard names_{prefix_};
  std::unique_ptr<TensorQueue> queue_;
};

TEST_P(QueueInheritTest, ItemsOfTheDeadAreReceived) {
  PutAndDie(0);
  PutAndDie(2);
  // Joins twice, since a participant that has joined may be killed, too.
  for (int i = 0; i < 2; ++i) {
    QueueHandle handle = queue_->Share().value();
    ForkedChild::Fork({.name = "joiner"},
                      [&](const Reporter&) {
                        auto mine = TensorQueue::Open(std::move(handle));
                        ASSERT_THAT(mine, IsOk());
                        kill(getpid(), SIGKILL);
                      })
        ->Wait(TestDeadline())
        .status()
        .IgnoreError();
  }
  auto next = TensorQueue::Open(queue_->Share().value());
  ASSERT_THAT(next, IsOk());
  int64_t sum = 0;
  for (int i = 0; i < 4; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor,
                               (*next)->GetTensor(TestDeadline()));
    TENON_ASSERT_OK_AND_ASSIGN(const int64_t* const value,
                               tensor.at<const int64_t>({0, 0}));
    EXPECT_TRUE(IsTensorOf(tensor, *value));
    sum += *value;
  }
  EXPECT_EQ(sum, 0 + 1 + 2 + 3);
}

// Its own descriptors would replace them.
TEST_P(QueueInheritTest, PuttingWaitsUntilItIsGot) {
  PutAndDie(0);
  PutAndDie(2);
  auto next = TensorQueue::Open(queue_->Share().value());
  ASSERT_THAT(next, IsOk());
  TensorMaker maker(TensorWay::kPooled, next->get(), prefix_);
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor, maker.Make(7));
  EXPECT_THAT((*next)->Put(tensor, Deadline::After(absl::Milliseconds(20))),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       testing::HasSubstr("2 items")));
  for (int i = 0; i < 4; ++i) {
    EXPECT_THAT(queue_->GetTensor(TestDeadline()), IsOk());
  }
  EXPECT_THAT((*next)->Put(tensor, TestDeadline()), IsOk());
  EXPECT_TRUE(GetsTensorOf(*queue_, 7));
}

// Those of the dead are for their consumers to get, this one perhaps.
TEST_P(QueueInheritTest, AwaitTakenIsForMessagesOfItsCaller) {
  PutAndDie(0);
  PutAndDie(2);
  auto next = TensorQueue::Open(queue_->Share().value());
  ASSERT_THAT(next, IsOk());
  EXPECT_THAT((*next)->AwaitTaken(Deadline::Passed()), IsOk());
  for (int i = 0; i < 4; ++i) {
    EXPECT_THAT(queue_->GetTensor(TestDeadline()), IsOk());
  }
  TensorMaker maker(GetParam(), next->get(), prefix_);
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor, maker.Make(7));
  EXPECT_THAT((*next)->Put(tensor, TestDeadline()), IsOk());
  EXPECT_THAT((*next)->AwaitTaken(Deadline::Passed()),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       testing::HasSubstr("1 messages")));
  EXPECT_TRUE(GetsTensorOf(*queue_, 7));
  EXPECT_THAT((*next)->AwaitTaken(TestDeadline()), IsOk());
}

INSTANTIATE_TEST_SUITE_P(All, QueueInheritTest,
                         testing::ValuesIn(kAllTensorWays),
                         [](const auto& test) {
                           return TensorWayName(test.param);
                         });

}  // namespace
}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// From one process over a second one to a third, with every kind of tensor
// memory.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/ipc/tensor_queue/tensor_queue_testing.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

constexpr int64_t kTensors = 20;

class TensorQueueForwardTest : public testing::TestWithParam<TensorWay> {
 protected:
  std::unique_ptr<TensorQueue> NewQueue() {
    return TensorQueue::Create({.capacity = kTensors}).value();
  }

  const std::string prefix_ = UniqueShmPrefix();
  ShmNamesGuard names_{prefix_};
};

void Forward(QueueHandle from_handle, QueueHandle to_handle) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto from,
                             TensorQueue::Open(std::move(from_handle)));
  TENON_ASSERT_OK_AND_ASSIGN(const auto to,
                             TensorQueue::Open(std::move(to_handle)));
  for (int64_t i = 0; i < kTensors; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(const TensorMessage message,
                               from->Get(TestDeadline()));
    ASSERT_THAT(message.integer(1), IsOkAndHolds(i));
    ASSERT_THAT(to->Put(message, TestDeadline()), IsOk());
  }
  EXPECT_THAT(to->AwaitTaken(TestDeadline()), IsOk());
  EXPECT_EQ(to->held(), 0u);
}

TEST_P(TensorQueueForwardTest, ReachesTheThird) {
  const auto first = NewQueue(), second = NewQueue();
  TENON_ASSERT_OK_AND_ASSIGN(QueueHandle first_b, first->Share());
  TENON_ASSERT_OK_AND_ASSIGN(QueueHandle second_b, second->Share());
  TENON_ASSERT_OK_AND_ASSIGN(QueueHandle second_c, second->Share());
  TENON_ASSERT_OK_AND_ASSIGN(
      ForkedChild b, ForkedChild::Fork({.name = "b"}, [&](const Reporter&) {
        Forward(std::move(first_b), std::move(second_b));
      }));
  TENON_ASSERT_OK_AND_ASSIGN(
      ForkedChild c, ForkedChild::Fork({.name = "c"}, [&](const Reporter&) {
        TENON_ASSERT_OK_AND_ASSIGN(const auto queue,
                                   TensorQueue::Open(std::move(second_c)));
        std::vector<Tensor> all;
        for (int64_t i = 0; i < kTensors; ++i) {
          TENON_ASSERT_OK_AND_ASSIGN(const TensorMessage message,
                                     queue->Get(TestDeadline()));
          ASSERT_THAT(message.integer(1), IsOkAndHolds(i));
          all.push_back(message.tensor(0).value());
        }
        for (int64_t i = 0; i < kTensors; ++i) {
          ASSERT_TRUE(IsTensorOf(all[static_cast<size_t>(i)], i));
        }
      }));
  TensorMaker maker(GetParam(), first.get(), prefix_);
  // A name is its owner's, which must keep it as long as other processes
  // forward it.
  std::vector<Tensor> kept;
  for (int64_t i = 0; i < kTensors; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor, maker.Make(i));
    TensorMessage message(tensor);
    message.Add(i);
    ASSERT_THAT(first->Put(message, TestDeadline()), IsOk());
    if (GetParam() == TensorWay::kFileSystem) kept.push_back(tensor);
  }
  EXPECT_TRUE(b.EndsWell());
  EXPECT_TRUE(c.EndsWell());
  TensorQueue::Reap();
  EXPECT_EQ(first->held(), 0u);
}

// The blocks of a killed forwarder's untaken messages may be reused by their
// owner: the getter is told, once.
TEST(TensorQueueForwarderTest, WhatADeadOneHadPutMayBeLostOnce) {
  ArenaOptions options;
  options.quota_bytes = options.segment_bytes;
  TENON_ASSERT_OK_AND_ASSIGN(const auto arena, Arena::Create(options));
  const auto new_tensor = [&] {
    return CreateTensor(*arena, kDtypeOf<int64_t>, {int64_t{1} << 12},
                        Deadline::Passed());
  };
  TENON_ASSERT_OK_AND_ASSIGN(const auto first, TensorQueue::Create());
  TENON_ASSERT_OK_AND_ASSIGN(const auto second, TensorQueue::Create());
  TENON_ASSERT_OK_AND_ASSIGN(QueueHandle first_b, first->Share());
  TENON_ASSERT_OK_AND_ASSIGN(QueueHandle second_b, second->Share());
  TENON_ASSERT_OK_AND_ASSIGN(
      ForkedChild b, ForkedChild::Fork({.name = "b"}, [&](const Reporter&) {
        TENON_ASSERT_OK_AND_ASSIGN(const auto from,
                                   TensorQueue::Open(std::move(first_b)));
        TENON_ASSERT_OK_AND_ASSIGN(const auto to,
                                   TensorQueue::Open(std::move(second_b)));
        TENON_ASSERT_OK_AND_ASSIGN(const TensorMessage message,
                                   from->Get(TestDeadline()));
        ASSERT_THAT(to->Put(message, TestDeadline()), IsOk());
        from->Get(Deadline::Never()).status().IgnoreError();
      }));
  {
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor, new_tensor());
    ASSERT_THAT(first->Put(tensor, TestDeadline()), IsOk());
  }
  ASSERT_TRUE(Becomes([&] { return second->size() == 1; }));
  ASSERT_THAT(first->AwaitTaken(TestDeadline()), IsOk());
  // While it is alive it holds the block.
  std::vector<Tensor> all;
  const auto take_all = [&] {
    for (auto more = new_tensor(); more.ok(); more = new_tensor()) {
      all.push_back(*std::move(more));
    }
    return all.size();
  };
  const size_t others = take_all();
  b.Kill();
  EXPECT_TRUE(Becomes([&] { return take_all() == others + 1; }));
  ASSERT_THAT(all.back().Fill(int64_t{7}), IsOk());
  ASSERT_THAT(second->Put(all.back(), TestDeadline()), IsOk());
  // Messages of two participants have no order.
  int lost = 0, good = 0;
  for (int i = 0; i < 2; ++i) {
    const auto got = second->Get(TestDeadline());
    if (absl::IsDataLoss(got.status())) {
      ++lost;
      EXPECT_THAT(got, StatusIs(absl::StatusCode::kDataLoss,
                                testing::HasSubstr("message of tensors")));
    } else {
      ASSERT_THAT(got, IsOk());
      good += static_cast<bool>(IsTensorOf(got->tensor(0), 7));
    }
  }
  EXPECT_EQ(lost, 1);
  EXPECT_EQ(good, 1);
  EXPECT_TRUE(second->empty());
}

INSTANTIATE_TEST_SUITE_P(Ways, TensorQueueForwardTest,
                         testing::ValuesIn(kAllTensorWays),
                         [](const auto& test) {
                           return TensorWayName(test.param);
                         });

}  // namespace
}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Guarantees that users know from other libraries of shared tensors: see
// docs/parity.md.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel_testing.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int kRounds = 30;

class TensorParityTest : public testing::TestWithParam<SharingStrategy> {
 protected:
  void TearDown() override {
    EXPECT_THAT(ListShmNames(prefix_), IsOkAndHolds(IsEmpty()));
  }

  SegmentOptions Options() const {
    return {.strategy = GetParam(), .name_prefix = prefix_};
  }
  Tensor Shared(absl::Span<const int64_t> shape) const {
    return Tensor::CreateShared(kDtypeOf<float>, shape, {.segment = Options()})
        .value();
  }

  const std::string prefix_ = UniqueShmPrefix();
};

std::unique_ptr<TensorQueue> NewQueue() {
  return TensorQueue::Create({.capacity = 4}).value();
}

// All elements of a dense tensor.
absl::Span<const float> Elements(const Tensor& tensor) {
  return tensor.data<const float>().value();
}

TEST_P(TensorParityTest, AViewAndItsTensorAreWrittenByAChild) {
  const auto there = NewQueue(), back = NewQueue();
  QueueHandle theirs = there->Share().value(), ours = back->Share().value();
  const pid_t child = StartChild([&] {
    const auto in = TensorQueue::Open(std::move(theirs)).value();
    const auto out = TensorQueue::Open(std::move(ours)).value();
    for (int i = 0; i < kRounds; ++i) {
      TENON_ASSERT_OK_AND_ASSIGN(const auto message, in->Get(Watchdog()));
      TENON_ASSERT_OK_AND_ASSIGN(const Tensor all, message.tensor(0));
      TENON_ASSERT_OK_AND_ASSIGN(const Tensor column, message.tensor(1));
      EXPECT_EQ(all.storage(), column.storage());
      ASSERT_THAT(all.Fill(4.0f), IsOk());
      ASSERT_THAT(column.Fill(5.0f), IsOk());
      const Tensor ones = Shared({2});
      ASSERT_THAT(ones.Fill(1.0f), IsOk());
      ASSERT_THAT(out->Put(TensorMessage(ones).Add(ones), Watchdog()), IsOk());
    }
    EXPECT_THAT(out->AwaitTaken(Watchdog()), IsOk());
  });
  for (int i = 0; i < kRounds; ++i) {
    const Tensor all = Shared({5, 5});
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor column, all.Select(1, 1));
    ASSERT_THAT(there->Put(TensorMessage(all).Add(column), Watchdog()), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(const auto message, back->Get(Watchdog()));
    for (int64_t row = 0; row < 5; ++row) {
      EXPECT_EQ(*all.at<float>({row, 0}).value(), 4);
      EXPECT_EQ(*all.at<float>({row, 1}).value(), 5);
      EXPECT_EQ(*column.at<float>({row}).value(), 5);
    }
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor one, message.tensor(0));
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor same, message.tensor(1));
    EXPECT_THAT(Elements(one), Each(1.0f));
    EXPECT_EQ(one.storage(), same.storage());
  }
  EXPECT_EQ(ExitCodeOf(child), 0);
}

TEST_P(TensorParityTest, ViewsInOneMessageAreOfOneStorage) {
  const auto out = NewQueue();
  TENON_ASSERT_OK_AND_ASSIGN(const auto in,
                             TensorQueue::Open(out->Share().value()));
  for (int i = 0; i < kRounds; ++i) {
    const Tensor all = Shared({10});
    TensorMessage sent(all);
    for (const int64_t begin : {0, 2, 4}) {
      sent.Add(all.Slice(0, {begin, begin + 5}).value());
    }
    ASSERT_THAT(out->Put(sent, Watchdog()), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(const auto message, in->Get(Watchdog()));
    ASSERT_EQ(message.size(), 4u);
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor got, message.tensor(0));
    ASSERT_THAT(got.Fill(static_cast<float>(i)), IsOk());
    for (size_t v = 0; v < 4; ++v) {
      TENON_ASSERT_OK_AND_ASSIGN(const Tensor view, message.tensor(v));
      EXPECT_EQ(view.storage(), got.storage());
      EXPECT_THAT(Elements(view), Each(static_cast<float>(i)));
    }
    EXPECT_THAT(Elements(all), Each(static_cast<float>(i)));
  }
}

TEST_P(TensorParityTest, ANameIsThereWhileItIsNeeded) {
  const auto names = [&] { return ListShmNames(prefix_).value(); };
  const size_t made = GetParam() == SharingStrategy::kFileSystem ? 1 : 0;
  const auto out = NewQueue();
  TENON_ASSERT_OK_AND_ASSIGN(const auto in,
                             TensorQueue::Open(out->Share().value()));
  for (int i = 0; i < kRounds; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(Tensor tensor,
                               Tensor::Create(kDtypeOf<float>, {5, 5}));
    EXPECT_FALSE(tensor.is_shared());
    EXPECT_THAT(names(), IsEmpty());
    ASSERT_THAT(tensor.Share(Options()), IsOk());
    EXPECT_TRUE(tensor.is_shared());
    EXPECT_THAT(names(), SizeIs(made));
    ASSERT_THAT(out->Put(tensor, Watchdog()), IsOk());
    tensor = Tensor();
    EXPECT_THAT(names(), SizeIs(made));  // Still in flight.
    ASSERT_THAT(in->Get(Watchdog()), IsOk());
    ASSERT_THAT(out->AwaitTaken(Watchdog()), IsOk());
    EXPECT_THAT(names(), IsEmpty());
  }
}

TEST_P(TensorParityTest, AChildThatInheritsATensorAddsToIt) {
  const auto queue = NewQueue();
  const Tensor tensor = Shared({5, 5});
  ASSERT_THAT(queue->Put(tensor, Watchdog()), IsOk());
  QueueHandle handle = queue->Share().value();
  const pid_t child = StartChild([&] {
    const auto mine = TensorQueue::Open(std::move(handle)).value();
    TENON_ASSERT_OK_AND_ASSIGN(const auto message, mine->Get(Watchdog()));
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor inherited, message.tensor(0));
    TENON_ASSERT_OK_AND_ASSIGN(const absl::Span<float> elements,
                               inherited.data<float>());
    for (float& element : elements) element += 3;
  });
  EXPECT_EQ(ExitCodeOf(child), 0);
  EXPECT_THAT(Elements(tensor), Each(3.0f));
}

TEST_P(TensorParityTest, WithoutElementsTheyArrive) {
  const auto out = NewQueue();
  TENON_ASSERT_OK_AND_ASSIGN(const auto in,
                             TensorQueue::Open(out->Share().value()));
  for (const DLDataType dtype : {kDtypeOf<float>, kDtypeOf<int64_t>}) {
    TENON_ASSERT_OK_AND_ASSIGN(
        const Tensor empty,
        Tensor::CreateShared(dtype, {0}, {.segment = Options()}));
    ASSERT_THAT(out->Put(empty, Watchdog()), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(const auto message, in->Get(Watchdog()));
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor got, message.tensor(0));
    EXPECT_EQ(got.spec(), empty.spec());
  }
}

TEST_P(TensorParityTest, WhatCannotBeSentFailsInPut) {
  const auto queue = NewQueue();
  const Tensor tensor = Shared({5});
  QueueHandle handle = queue->Share().value();
  const pid_t child = StartChild([&] {
    const auto mine = TensorQueue::Open(std::move(handle)).value();
    // It belongs to the parent, which did not send it to the child.
    EXPECT_THAT(mine->Put(tensor, Watchdog()),
                StatusIs(absl::StatusCode::kFailedPrecondition));
    EXPECT_EQ(mine->size(), 0u);
    // All slots are still free.
    for (int i = 0; i < 4; ++i) {
      EXPECT_THAT(mine->Put(TensorMessage().Add(i), Watchdog()), IsOk());
    }
  });
  EXPECT_EQ(ExitCodeOf(child), 0);
  for (int i = 0; i < 4; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(const auto message, queue->Get(Watchdog()));
    EXPECT_THAT(message.integer(0), IsOkAndHolds(i));
  }
}

INSTANTIATE_TEST_SUITE_P(Strategies, TensorParityTest,
                         testing::Values(SharingStrategy::kFileDescriptor,
                                         SharingStrategy::kFileSystem),
                         [](const auto& test) {
                           return std::string(
                               test.param == SharingStrategy::kFileSystem
                                   ? "FileSystem"
                                   : "FileDescriptor");
                         });

}  // namespace
}  // namespace tenon

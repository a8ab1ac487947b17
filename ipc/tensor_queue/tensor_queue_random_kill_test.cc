// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Forwarders killed at random moments, between one process that puts into the
// first queue and gets from the second: all received tensors are correct and
// unique, every missing one was with a killed forwarder, and all memory is
// returned.

#include <array>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/ipc/tensor_queue/tensor_queue_testing.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

constexpr size_t kForwarders = 3;
constexpr int kKills = 500;
constexpr size_t kCapacity = 8;

class RandomKills {
 public:
  explicit RandomKills(TensorWay way) : way_(way) {}

  void Go() {
    const auto kill_by = absl::Now() + absl::Seconds(60);
    for (auto& forwarder : forwarders_) Start(forwarder);
    absl::Time next = absl::Now();
    while (kills_ < kKills && absl::Now() < kill_by &&
           !testing::Test::HasFatalFailure()) {
      PutAndGet();
      if (absl::Now() < next) continue;
      Start(forwarders_[random_() % kForwarders]);
      next = absl::Now() + absl::Microseconds(random_() % 3000);
    }
    Finish();
  }

 private:
  // Replaces the killed predecessor.
  void Start(std::unique_ptr<ForkedChild>& forwarder) {
    if (forwarder != nullptr) {
      forwarder->Kill();
      ++kills_;
    }
    TENON_ASSERT_OK_AND_ASSIGN(QueueHandle from, to_them_->Share());
    TENON_ASSERT_OK_AND_ASSIGN(QueueHandle to, from_them_->Share());
    TENON_ASSERT_OK_AND_ASSIGN(
        ForkedChild child,
        ForkedChild::Fork(
            {.name = "forwarder", .watchdog = absl::Minutes(2)},
            [&](const Reporter&) { Forward(std::move(from), std::move(to)); }));
    forwarder = std::make_unique<ForkedChild>(std::move(child));
  }

  static void Forward(QueueHandle from_handle, QueueHandle to_handle) {
    TENON_ASSERT_OK_AND_ASSIGN(const auto from,
                               TensorQueue::Open(std::move(from_handle)));
    TENON_ASSERT_OK_AND_ASSIGN(const auto to,
                               TensorQueue::Open(std::move(to_handle)));
    for (;;) {
      TENON_ASSERT_OK_AND_ASSIGN(const TensorMessage message,
                                 from->Get(Deadline::Never()));
      ASSERT_TRUE(IsTensorOf(message.tensor(0), message.integer(1).value()));
      ASSERT_THAT(to->Put(message, Deadline::Never()), IsOk());
    }
  }

  void PutAndGet() {
    if (!to_them_->full()) {
      TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor, maker_.Make(sent_));
      TensorMessage message(tensor);
      message.Add(sent_);
      TENON_ASSERT_OK_AND_ASSIGN(const bool put, to_them_->TryPut(message));
      if (put) ++sent_;
    }
    GetOne(from_them_->TryGet());
  }

  void GetOne(const absl::StatusOr<std::optional<TensorMessage>>& got) {
    if (absl::IsDataLoss(got.status())) {
      ++data_loss_;
      return;
    }
    ASSERT_THAT(got, IsOk());
    if (!got->has_value()) return;
    const int64_t number = (*got)->integer(1).value();
    ASSERT_TRUE(IsTensorOf((*got)->tensor(0), number));
    seen_.resize(static_cast<size_t>(sent_));
    ASSERT_FALSE(seen_[static_cast<size_t>(number)]) << "it comes twice";
    seen_[static_cast<size_t>(number)] = true;
    ++got_;
  }

  void Finish() {
    ASSERT_THAT(to_them_->AwaitTaken(TestDeadline()), IsOk());
    EXPECT_TRUE(Becomes([&] {
      GetOne(from_them_->TryGet());
      return from_them_->empty() && to_them_->held() == 0;
    }));
    // Also the tensors that they are putting just now.
    for (auto& forwarder : forwarders_) forwarder->Kill();
    while (!from_them_->empty()) GetOne(from_them_->TryGet());
    EXPECT_THAT(from_them_->Drain(), IsOk());
    std::cout << kills_ << " kills: " << sent_ << " sent, " << got_ << " got, "
              << data_loss_ << " lost with their forwarders\n";
    EXPECT_GT(got_, 0);
    // Each kill loses one tensor in processing and those in flight, at most a
    // full ring.
    EXPECT_LE(sent_ - got_ - data_loss_,
              kills_ + static_cast<int64_t>(kForwarders));
    EXPECT_TRUE(Becomes([&] {
      EXPECT_THAT(arena_->Trim(), IsOk());
      const ArenaUse use = arena_->Use();
      return use.blocks_in_use == 0 && use.blocks_released == 0;
    }));
  }

  const TensorWay way_;
  std::shared_ptr<Arena> arena_ = Arena::Create().value();
  std::unique_ptr<TensorQueue> to_them_ =
      TensorQueue::Create({.capacity = kCapacity}, {.arena = arena_}).value();
  std::unique_ptr<TensorQueue> from_them_ =
      TensorQueue::Create({.capacity = kCapacity, .max_participants = 16})
          .value();
  TensorMaker maker_{way_, to_them_.get(), "kill"};
  std::array<std::unique_ptr<ForkedChild>, kForwarders> forwarders_;
  std::minstd_rand random_{1};
  std::vector<bool> seen_;
  int64_t sent_ = 0;
  int64_t got_ = 0;
  int64_t data_loss_ = 0;
  int64_t kills_ = 0;
};

class TensorQueueRandomKillTest : public testing::TestWithParam<TensorWay> {};

TEST_P(TensorQueueRandomKillTest, Forwarders) {
  const size_t fds = CountOpenFds();
  RandomKills(GetParam()).Go();
  EXPECT_TRUE(Becomes([&] { return CountOpenFds() <= fds; }));
}

INSTANTIATE_TEST_SUITE_P(Ways, TensorQueueRandomKillTest,
                         testing::Values(TensorWay::kPooled,
                                         TensorWay::kPrivate,
                                         TensorWay::kFileDescriptor),
                         [](const auto& test) {
                           return TensorWayName(test.param);
                         });

}  // namespace
}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Owners and receivers of tensors of a device that are killed at random times.

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/device_pool.h"
#include "tenon/cuda_ipc/device_process_testing.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::cuda_ipc {
namespace {

constexpr int64_t kCount = 1000;

// Between the processes of a test.
class Flag {
 public:
  Flag() { EXPECT_EQ(pipe(ends_.data()), 0); }
  ~Flag() {
    for (const int end : ends_) close(end);
  }
  void Raise() const { EXPECT_EQ(write(ends_[1], "s", 1), 1); }
  bool IsRaised(int wait_ms = 0) const {
    pollfd readable = {.fd = ends_[0], .events = POLLIN, .revents = 0};
    return poll(&readable, 1, wait_ms) == 1;
  }

 private:
  std::array<int, 2> ends_ = {};
};

class DeviceKillTest : public DeviceProcessTest {
 protected:
  // Each message is a tensor with n, n + 1, ..., and n.
  static absl::Status PutNumbers(DevicePool& pool, TensorQueue& queue,
                                 int64_t n) {
    const Deadline deadline = Deadline::After(absl::Milliseconds(50));
    absl::StatusOr<Tensor> tensor =
        pool.CreateTensor(kDtypeOf<int64_t>, {kCount}, deadline);
    if (!tensor.ok()) return tensor.status();
    EXPECT_THAT(tensor->CopyFrom(Numbers(kCount, n)), IsOk());
    TensorMessage message(*tensor);
    message.Add(n);
    return queue.Put(message, deadline);
  }
  static ::testing::AssertionResult IsWhole(const TensorMessage& message) {
    return HasNumbers(message.tensor(0).value(), message.integer(1).value());
  }
  void WaitAMoment() {
    absl::SleepFor(absl::Microseconds(
        std::uniform_int_distribution<int>(0, 8'000)(random_)));
  }

  std::mt19937 random_{20'261'123};
};

TEST_F(DeviceKillTest, APoolIsWholeAfterRandomKillsOfReceivers) {
  // With the machine's driver a process takes half a second to begin.
  const int kills = has_fake() ? 750 : 60;
  const auto queue = TensorQueue::Create({.capacity = 8}).value();
  QueueHandle owners = queue->Share().value();
  const Flag stop;
  ForkedChild owner = Run("owner", [&] {
    const auto pool = DevicePool::Create(0, {.quota_bytes = 2 * kPage}).value();
    const auto mine = TensorQueue::Open(std::move(owners)).value();
    int64_t put = 0;
    while (!stop.IsRaised()) {
      const absl::Status status = PutNumbers(*pool, *mine, put);
      ASSERT_TRUE(status.ok() || absl::IsDeadlineExceeded(status) ||
                  absl::IsResourceExhausted(status))
          << status;
      put += status.ok();
    }
    EXPECT_GE(put, kills / 2);
    EXPECT_THAT(mine->Drain(), IsOk());
    EXPECT_THAT(mine->Trim(), IsOk());
    // All that the dead held is reclaimed.
    EXPECT_THAT(pool->Close(Soon()), IsOk());
  });
  for (int i = 0; i < kills; ++i) {
    QueueHandle handle = queue->Share().value();
    const Flag ready;  // Every other one has a tensor.
    ForkedChild receiver = Run("receiver", [&] {
      const auto mine = TensorQueue::Open(std::move(handle)).value();
      if (i % 2 == 0) ready.Raise();
      std::vector<TensorMessage> kept;
      for (;;) {
        absl::StatusOr<TensorMessage> message = mine->Get(Soon());
        ASSERT_THAT(message, IsOk());
        if (kept.empty()) ready.Raise();
        EXPECT_TRUE(IsWhole(*message));
        if (kept.size() < 20) kept.push_back(*std::move(message));
      }
    });
    EXPECT_TRUE(ready.IsRaised(60'000));
    WaitAMoment();
    EXPECT_TRUE(receiver.report().failures.empty());
    receiver.Kill();
  }
  stop.Raise();
  EXPECT_TRUE(owner.EndsWell());
}

TEST_F(DeviceKillTest, ReceiversKeepWhatTheyGotFromOwnersThatAreKilled) {
  const int kills = has_fake() ? 250 : 20;
  for (int i = 0; i < kills; ++i) {
    const auto queue = TensorQueue::Create({.capacity = 8}).value();
    QueueHandle owners = queue->Share().value();
    QueueHandle receivers = queue->Share().value();
    const Flag stop;
    const Flag ready;
    ForkedChild owner = Run("owner", [&] {
      const auto pool = DevicePool::Create(0).value();
      const auto mine = TensorQueue::Open(std::move(owners)).value();
      for (int64_t n = 0;; ++n) PutNumbers(*pool, *mine, n).IgnoreError();
    });
    ForkedChild receiver = Run("receiver", [&] {
      const auto mine = TensorQueue::Open(std::move(receivers)).value();
      std::vector<TensorMessage> kept;
      while (!stop.IsRaised()) {
        absl::StatusOr<TensorMessage> message =
            mine->Get(Deadline::After(absl::Milliseconds(5)));
        if (!message.ok()) continue;
        if (kept.empty()) ready.Raise();
        kept.push_back(*std::move(message));
      }
      for (const TensorMessage& message : kept) EXPECT_TRUE(IsWhole(message));
    });
    // Every other owner is killed at any time, also before it has a driver.
    if (i % 2 == 0) {
      EXPECT_TRUE(ready.IsRaised(60'000));
    }
    WaitAMoment();
    owner.Kill();
    stop.Raise();
    EXPECT_TRUE(receiver.EndsWell());
  }
}

}  // namespace
}  // namespace tenon::cuda_ipc

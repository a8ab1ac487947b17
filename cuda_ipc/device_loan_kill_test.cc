// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A lender, a borrower and a third process to which it is passed on, killed at
// every named point of a loan, and borrowers at random times.

#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/device_loan_testing.h"
#include "tenon/cuda_ipc/device_process_testing.h"
#include "tenon/cuda_ipc/device_tensor.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/kill/kill_driver.h"
#include "tenon/shm/testing/kill/kill_report.h"
#include "tenon/shm/testing/kill/kill_scenario.h"
#include "tenon/shm/testing/kill/peer.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::cuda_ipc {
namespace {

using ::testing::IsEmpty;

constexpr int64_t kCount = 1000;
constexpr size_t kBytes = kCount * sizeof(int64_t);

class DeviceLoanKillTest : public DeviceProcessTest {
 protected:
  void BeginProcess() {
    if (has_fake()) {
      fake_.Reset(machine_);
      fake_.SetEnvironment();
    }
    ASSERT_THAT(GetDriver(), IsOk());
  }
  // Of queue `n`, as its participant 0 or 1.
  std::unique_ptr<TensorQueue> Open(size_t n, size_t participant) {
    return TensorQueue::Open(*std::move(handles_[n][participant])).value();
  }
  void MakeQueues() {
    for (size_t n = 0; n < queues_.size(); ++n) {
      queues_[n] = TensorQueue::Create({.capacity = 8}).value();
      for (auto& handle : handles_[n]) handle = queues_[n]->Share().value();
    }
  }
  static Tensor Lent(int64_t first, std::function<void()> freed) {
    const LibraryMemory memory =
        LibraryMemory::Create(kBytes, std::move(freed)).value();
    Tensor tensor = memory.Numbers(0, kCount).value();
    EXPECT_THAT(tensor.CopyFrom(Numbers(kCount, first)), IsOk());
    return tensor;
  }

  void Lend(Peer& self) {
    BeginProcess();
    const auto queue = Open(0, 0);
    ASSERT_THAT(queue->Put(Lent(7, [&] { freed_->store(true); }), Soon()),
                IsOk());
    self.Step("put");
    self.Await("borrower", "dropped").IgnoreError();
    self.Await("third", "dropped").IgnoreError();
    // A borrower that was killed before has not taken the message.
    EXPECT_THAT(queue->Drain(), IsOk());
    EXPECT_THAT(queue->Trim(), IsOk());  // The queue keeps nothing.
    EXPECT_THAT(TrimDeviceTensors(), IsOk());
    EXPECT_TRUE(Becomes([&] { return freed_->load(); }));
  }

  // A loan of a lender that was killed may be refused.
  static std::optional<Tensor> Get(TensorQueue& queue) {
    absl::StatusOr<Tensor> tensor =
        queue.GetTensor(Deadline::After(absl::Seconds(5)));
    if (!tensor.ok()) return std::nullopt;
    return *std::move(tensor);
  }

  void Borrow(Peer& self) {
    BeginProcess();
    const auto queue = Open(0, 1);
    const auto next = Open(1, 0);
    if (self.Await("lender", "put").ok()) {
      std::optional<Tensor> tensor = Get(*queue);
      if (tensor.has_value() && next->Put(*tensor, Soon()).ok()) {
        self.Step("put");
        next->AwaitTaken(Deadline::After(absl::Seconds(2))).IgnoreError();
      }
      EXPECT_THAT(next->Drain(), IsOk());
      EXPECT_THAT(next->Trim(), IsOk());
      tensor.reset();
      TrimDeviceTensors().IgnoreError();
    }
    self.Step("dropped");
  }

  void PlayThird(Peer& self) {
    BeginProcess();
    const auto queue = Open(1, 1);
    if (self.Await("borrower", "put").ok()) {
      std::optional<Tensor> tensor = Get(*queue);
      tensor.reset();
      TrimDeviceTensors().IgnoreError();
    }
    self.Step("dropped");
  }

  SharedObject<std::atomic<bool>> freed_;
  std::array<std::unique_ptr<TensorQueue>, 2> queues_;
  std::array<std::array<std::optional<QueueHandle>, 2>, 2> handles_;
};

TEST_F(DeviceLoanKillTest, KilledAtEachPointOfALoan) {
  KillScenario scenario;
  scenario.name = "loans";
  scenario.points = "legacy_loans.";
  scenario.prepare = [&] {
    freed_.Reset();
    MakeQueues();
  };
  scenario.roles = {{"lender", [&](Peer& self) { Lend(self); }},
                    {"borrower", [&](Peer& self) { Borrow(self); }},
                    {"third", [&](Peer& self) { PlayThird(self); }}};
  scenario.check = [&](const Reporter&, const std::vector<KillOrder>&) {
    if (!has_fake()) return;
    fake_.Reset(machine_);
    EXPECT_TRUE(Becomes([&] { return fake_.HeldBytes(0) == 0; }));
  };
  scenario.watchdog = absl::Seconds(80);
  scenario.max_failures = 3;
  const Census before = TakeCensus();
  const KillReport report = RunKillMatrix(scenario);
  std::cout << report.ToString();
  EXPECT_TRUE(report.failures.empty()) << report.ToString();
  EXPECT_FALSE(report.given_up);
  EXPECT_GT(report.kills, 0u);
  EXPECT_THAT(report.unreached, IsEmpty());
  queues_ = {};
  handles_ = {};
  EXPECT_TRUE(ExpectSame(before, TakeCensus()));
}

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

TEST_F(DeviceLoanKillTest, TheMemoryReturnsAfterRandomKillsOfBorrowers) {
  const int kills = has_fake() ? 100 : 20;
  const auto queue = TensorQueue::Create({.capacity = 8}).value();
  QueueHandle lenders = queue->Share().value();
  const Flag stop;
  ForkedChild lender = Run("lender", [&] {
    const auto mine = TensorQueue::Open(std::move(lenders)).value();
    std::atomic<int64_t> lent = 0, freed = 0;
    while (!stop.IsRaised()) {
      const Tensor tensor = Lent(lent, [&] { ++freed; });
      ++lent;
      mine->Put(tensor, Deadline::After(absl::Milliseconds(20))).IgnoreError();
      absl::SleepFor(absl::Milliseconds(1));
    }
    EXPECT_GE(lent, kills / 10);
    EXPECT_THAT(mine->Drain(), IsOk());
    EXPECT_THAT(mine->Trim(), IsOk());
    // All that the dead held is reclaimed.
    EXPECT_TRUE(Becomes([&] { return freed == lent; }));
  });
  std::mt19937 random(20'261'127);
  for (int i = 0; i < kills; ++i) {
    QueueHandle handle = queue->Share().value();
    const Flag ready;  // Every other one has a tensor.
    ForkedChild borrower = Run("borrower", [&] {
      const auto mine = TensorQueue::Open(std::move(handle)).value();
      if (i % 2 == 0) ready.Raise();
      std::vector<Tensor> kept;
      for (;;) {
        absl::StatusOr<Tensor> tensor = mine->GetTensor(Soon());
        ASSERT_THAT(tensor, IsOk());
        if (kept.empty()) ready.Raise();
        const int64_t first = tensor->ToCpu()->data<const int64_t>()->front();
        EXPECT_TRUE(HasNumbers(*tensor, first));
        if (kept.size() < 10) kept.push_back(*std::move(tensor));
      }
    });
    EXPECT_TRUE(ready.IsRaised(60'000));
    absl::SleepFor(absl::Microseconds(
        std::uniform_int_distribution<int>(0, 8'000)(random)));
    EXPECT_TRUE(borrower.report().failures.empty());
    borrower.Kill();
  }
  stop.Raise();
  EXPECT_TRUE(lender.EndsWell());
}

}  // namespace
}  // namespace tenon::cuda_ipc

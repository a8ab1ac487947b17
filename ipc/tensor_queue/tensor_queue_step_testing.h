// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TensorQueueStepTest: a participant of a tensor queue killed, or stopped for a
// while, at every machine instruction of a call, and the checks of its
// survivor. With -c opt and TENON_STEP_STRIDE=1 that is every instruction of
// the code as it is shipped; otherwise one in several.

#ifndef TENON_IPC_TENSOR_QUEUE_TENSOR_QUEUE_STEP_TESTING_H_
#define TENON_IPC_TENSOR_QUEUE_TENSOR_QUEUE_STEP_TESTING_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/ipc/tensor_queue/tensor_queue_testing.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/proof/arena_kill_testing.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm/testing/trace/single_stepper.h"
#include "tenon/shm/testing/trace/step_report.h"
#include "tenon/shm/testing/trace/tracee.h"

namespace tenon {

// The test is a participant, the survivor, and owns an arena with a quota. The
// victim is another participant, which it forks for each position.
class TensorQueueStepTest : public testing::Test {
 protected:
  static constexpr int64_t kCapacity = 8;
  static constexpr size_t kQuota = 16;  // Blocks.
  static constexpr size_t kBlock = 4096;
  // Tensors that a victim transfers before its region, to reach the steady
  // state.
  static constexpr int64_t kWarm = 4;
  // Later rounds of long loops over private memory are left out in regions that
  // run once.
  static constexpr uint64_t kMaxStops = 100;

  static Deadline Soon() { return Deadline::After(absl::Seconds(15)); }

  void SetUp() override {
    if (const absl::Status can = CanTrace(); !can.ok()) GTEST_SKIP() << can;
    TENON_ASSERT_OK_AND_ASSIGN(
        arena_, Arena::Create(SmallArena(SharingStrategy::kFileDescriptor,
                                         prefix_, kQuota, kBlock)));
    // One-time initialisation of the process is not tested.
    MakeQueues();
    PutFromHere(1);
    ASSERT_THAT(GetRest(*queue_, 0, 1), IsOkAndHolds(1));
    ASSERT_THAT(CheckWorld(), IsOk());
  }

  void TearDown() override {
    if (arena_ == nullptr) return;
    Forget();
    EXPECT_THAT(arena_->Trim(), IsOk());
    arena_.reset();
    EXPECT_TRUE(ExpectSame(before_, TakeCensus({.shm_prefix = prefix_})));
  }

  // --- Before the victim. ---

  // A queue, and one for forwarding, each with a slot for the victim.
  void MakeQueues() {
    Forget();
    const QueueOptions options = {
        .name = prefix_, .capacity = kCapacity, .max_participants = 2};
    TENON_ASSERT_OK_AND_ASSIGN(queue_,
                               TensorQueue::Create(options, {.arena = arena_}));
    TENON_ASSERT_OK_AND_ASSIGN(handle_, queue_->Share());
    TENON_ASSERT_OK_AND_ASSIGN(onward_,
                               TensorQueue::Create(options, {.arena = arena_}));
    TENON_ASSERT_OK_AND_ASSIGN(onward_handle_, onward_->Share());
  }

  void Forget() {
    got_.clear();
    queue_.reset();
    onward_.reset();
    handle_ = QueueHandle();
    onward_handle_ = QueueHandle();
  }

  static absl::StatusOr<Tensor> MakeTensor(TensorQueue& queue, int64_t value) {
    TENON_ASSIGN_OR_RETURN(
        Tensor tensor, queue.CreateTensor(kDtypeOf<int64_t>,
                                          {kBlock / sizeof(int64_t)}, Soon()));
    TENON_RETURN_IF_ERROR(tensor.Fill(value));
    return tensor;
  }

  static absl::Status PutOne(TensorQueue& queue, int64_t value) {
    TENON_ASSIGN_OR_RETURN(const Tensor tensor, MakeTensor(queue, value));
    return queue.Put(tensor, Soon());
  }

  // Puts tensors 0 and so on, in the test's arena; only its queue holds them.
  // Or the same tensor, 0, each time.
  void PutFromHere(int64_t count) {
    if (one_tensor_) {
      TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor, MakeTensor(*queue_, 0));
      for (int64_t i = 0; i < count; ++i) {
        ASSERT_THAT(queue_->Put(tensor, Soon()), IsOk());
      }
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      ASSERT_THAT(PutOne(*queue_, i), IsOk());
    }
  }
  int64_t ValueOf(int64_t number) const { return one_tensor_ ? 0 : number; }

  // --- In the victim. ---

  std::unique_ptr<TensorQueue> OpenAsVictim() {
    auto queue = TensorQueue::Open(std::move(handle_));
    EXPECT_THAT(queue, IsOk());
    return *std::move(queue);
  }
  std::unique_ptr<TensorQueue> OpenOnwardAsVictim() {
    auto queue = TensorQueue::Open(std::move(onward_handle_));
    EXPECT_THAT(queue, IsOk());
    return *std::move(queue);
  }

  // --- Checks afterwards. ---

  // Receives all tensors, those from `first` on in their order, and keeps them;
  // returns their number. Stops at `most`, or when it is told that it is alone.
  absl::StatusOr<int64_t> GetRest(TensorQueue& queue, int64_t first,
                                  int64_t most = kCapacity + 1) {
    int64_t count = 0;
    for (; count < most; ++count) {
      auto got = queue.Get(Soon());
      if (absl::IsUnavailable(got.status())) break;
      if (!got.ok()) return got.status();
      const int64_t value = ValueOf(first + count);
      TENON_RETURN_IF_ERROR(IsNumber(*got, value));
      got_.push_back({*std::move(got), value});
    }
    return count;
  }

  // The number of lost messages, until it is told that it is alone.
  absl::StatusOr<int64_t> CountLost(TensorQueue& queue) {
    for (int64_t count = 0;; ++count) {
      const auto got = queue.Get(Soon());
      if (absl::IsUnavailable(got.status())) return count;
      if (absl::IsDataLoss(got.status())) continue;
      if (!got.ok()) return got.status();
      return absl::InternalError("got what was used for something else");
    }
  }

  static absl::Status IsNumber(const TensorMessage& message, int64_t value) {
    const testing::AssertionResult is = IsTensorOf(message.tensor(0), value);
    return is ? absl::OkStatus() : absl::InternalError(is.message());
  }

  // Checks that the dead participant's slot in `queue` can be joined and works
  // as new.
  absl::Status UseSlotOfTheDead(TensorQueue& queue) {
    TENON_ASSIGN_OR_RETURN(QueueHandle handle, queue.Share());
    TENON_ASSIGN_OR_RETURN(
        const auto next,
        TensorQueue::Open(std::move(handle), {.arena = arena_}));
    for (int64_t i = 0; i <= kCapacity; ++i) {
      for (TensorQueue* to : {next.get(), &queue}) {
        TENON_RETURN_IF_ERROR(PutOne(*to, i));
      }
      for (TensorQueue* from : {&queue, next.get()}) {
        TENON_ASSIGN_OR_RETURN(const TensorMessage got, from->Get(Soon()));
        TENON_RETURN_IF_ERROR(IsNumber(got, i));
      }
    }
    TENON_RETURN_IF_ERROR(next->AwaitTaken(Soon()));
    return queue.AwaitTaken(Soon());
  }

  // The owner allocates every block of its quota, each without another holder,
  // and overwrites all of them.
  absl::Status TakeWholeQuota() {
    const absl::Time begin = absl::Now();
    std::vector<Block> blocks;
    for (size_t i = 0; i < kQuota; ++i) {
      TENON_ASSIGN_OR_RETURN(Block block, arena_->Allocate(kBlock, Soon()));
      std::fill(block.bytes().begin(), block.bytes().end(), std::byte{0xEE});
      blocks.push_back(std::move(block));
    }
    longest_ = std::max(longest_, absl::Now() - begin);
    return Expect(
        absl::IsResourceExhausted(arena_->TryAllocate(kBlock).status()),
        "there are more blocks than the quota has");
  }

  // Overwrites all blocks without a holder; returns their number.
  size_t TakeFreeBlocks() {
    std::vector<Block> blocks;
    for (auto block = arena_->TryAllocate(kBlock); block.ok();
         block = arena_->TryAllocate(kBlock)) {
      std::fill(block->bytes().begin(), block->bytes().end(), std::byte{0xEE});
      blocks.push_back(*std::move(block));
    }
    return blocks.size();
  }

  // Once nothing is in flight. Received tensors never change.
  absl::Status CheckWorld() {
    for (const auto& [message, value] : got_) {
      TENON_RETURN_IF_ERROR(IsNumber(message, value));
    }
    got_.clear();
    TENON_RETURN_IF_ERROR(queue_->AwaitTaken(Soon()));
    TENON_RETURN_IF_ERROR(Expect(queue_->held() == 0, "it holds what is gone"));
    TENON_RETURN_IF_ERROR(TakeWholeQuota());
    TENON_RETURN_IF_ERROR(UseSlotOfTheDead(*queue_));
    TENON_RETURN_IF_ERROR(UseSlotOfTheDead(*onward_));
    TENON_RETURN_IF_ERROR(TakeWholeQuota());
    Forget();
    TENON_RETURN_IF_ERROR(arena_->Holders().status());  // Removes the dead.
    return Expect(arena_->Use().attached == 0, "the dead are still attached");
  }

  // --- Running the victim. ---

  // Returns the number of system calls in the region.
  uint64_t Run(StepScenario scenario, uint64_t stride) {
    scenario.name = absl::StrCat(
        scenario.name,
        ::testing::UnitTest::GetInstance()->current_test_info()->name());
    scenario.shm_prefix = prefix_;
    scenario.stride = NumberFromEnvironment("TENON_STEP_STRIDE", stride);
    scenario.budget = absl::Hours(1);
    // A victim that takes another path is stepped throughout: on a busy
    // machine, 30 s.
    scenario.watchdog = absl::Minutes(3);
    longest_ = absl::ZeroDuration();
    const auto report = KillAtEveryInstruction(scenario);
    EXPECT_THAT(report, IsOk());
    if (!report.ok()) return ~uint64_t{0};
    std::cout << report->ToString() << "all blocks were back within "
              << longest_ << "\n";
    EXPECT_TRUE(report->failures.empty()) << report->ToString();
    EXPECT_FALSE(report->given_up);
    EXPECT_GE(report->positions, 10u);
    // Some positions come after the end of a region in which malloc() took
    // another path.
    EXPECT_LE(report->missed, report->positions / 20);
    return report->syscalls;
  }

  const std::string prefix_ = UniqueShmPrefix();
  const Census before_ = TakeCensus({.shm_prefix = prefix_});
  bool one_tensor_ = false;
  std::shared_ptr<Arena> arena_;
  std::unique_ptr<TensorQueue> queue_, onward_;
  QueueHandle handle_, onward_handle_;
  std::vector<std::pair<TensorMessage, int64_t>> got_;
  absl::Duration longest_;  // Until the owner had all of its blocks.
};

}  // namespace tenon

#endif  // TENON_IPC_TENSOR_QUEUE_TENSOR_QUEUE_STEP_TESTING_H_

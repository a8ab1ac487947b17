// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A participant of a queue killed at every machine instruction of putting,
// getting and waking, and at many of joining and leaving: the survivor
// continues, receives each item whole, in order and at most once, and is told
// of the end. With -c opt this is the code as it is shipped.

#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/queue/internal/queue_core.h"
#include "tenon/ipc/queue/internal/queue_layout.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/queue/queue_testing.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm/testing/trace/region.h"
#include "tenon/shm/testing/trace/single_stepper.h"
#include "tenon/shm/testing/trace/step_report.h"
#include "tenon/shm/testing/trace/tracee.h"

namespace tenon {
namespace {

constexpr size_t kCapacity = 4;

const Deadline kNow = Deadline::Passed();
Deadline Soon() { return Deadline::After(absl::Seconds(15)); }

absl::Status Broken(absl::string_view what) {
  return absl::InternalError(what);
}

// The test is a participant; the victim is another one, which it forks.
class QueueStepTest : public testing::Test {
 protected:
  using Victim = std::function<void(QueueCore&)>;
  using Check = std::function<absl::Status()>;

  void SetUp() override {
    if (const absl::Status can = CanTrace(); !can.ok()) GTEST_SKIP() << can;
  }

  // `prepare` runs before the victim joins. Returns the number of system calls
  // in the victim's region.
  uint64_t Run(const std::function<void()>& prepare, const Victim& victim,
               const Check& check) {
    StepScenario scenario;
    scenario.prepare = [&] {
      Make();
      prepare();
    };
    scenario.victim = [&](const Reporter&) {
      auto mine = OpenItems(std::move(handle_));
      ASSERT_THAT(mine, IsOk());
      victim(**mine);
    };
    scenario.check = [&](const StepPosition&) { return check(); };
    return Step(std::move(scenario));
  }

  uint64_t Step(StepScenario scenario) {
    scenario.name =
        ::testing::UnitTest::GetInstance()->current_test_info()->name();
    const auto report = KillAtEveryInstruction(scenario);
    EXPECT_THAT(report, IsOk());
    if (!report.ok()) return ~uint64_t{0};
    std::cout << report->ToString();
    EXPECT_TRUE(report->ok()) << report->ToString();
    EXPECT_GE(report->positions, 30u);
    return report->syscalls;
  }

  // For regions with many system calls.
  static void StepSome(StepScenario scenario) {
    scenario.stride = 0;
    scenario.around_syscalls = true;
    scenario.random = 400;
    TENON_ASSERT_OK_AND_ASSIGN(const StepReport report,
                               KillAtEveryInstruction(scenario));
    std::cout << report.ToString();
    EXPECT_TRUE(report.failures.empty()) << report.ToString();
    EXPECT_FALSE(report.given_up);
    EXPECT_LT(report.missed, 20u);
    EXPECT_GT(report.positions, 400u);
  }

  void Make() {
    auto queue =
        QueueCore::Create(QueueType::kItems, sizeof(TestItem),
                          {.capacity = kCapacity, .max_participants = 2});
    ASSERT_THAT(queue, IsOk());
    queue_ = *std::move(queue);
    TENON_ASSERT_OK_AND_ASSIGN(handle_, queue_->Share());
  }

  // Receives all items, which must count up from `first`, until it is told that
  // it is alone; returns their number.
  absl::StatusOr<uint64_t> GetRest(uint64_t putter, uint64_t first) {
    for (uint64_t count = 0;; ++count) {
      const auto item = GetItem(*queue_, Soon());
      if (absl::IsUnavailable(item.status())) return count;
      if (!item.ok()) return item.status();
      if (*item != MakeItem(putter, first + count)) {
        return Broken(absl::StrCat("item ", (*item)[1], " came instead of ",
                                   first + count));
      }
    }
  }

  // An item behind it was not put.
  static absl::Status GetsItsOwnItemOnly(QueueCore& next) {
    TENON_RETURN_IF_ERROR(next.Put(BytesOf(MakeItem(9, 0)), kNow));
    std::array<TestItem, kCapacity> items;
    TENON_ASSIGN_OR_RETURN(
        const size_t got,
        next.TryGet(std::as_writable_bytes(std::span(items))));
    if (got == 1 && items[0] == MakeItem(9, 0)) return absl::OkStatus();
    return Broken(absl::StrCat(got, " items came instead of one"));
  }

  // Checks that the dead participant's slot can be joined and works as new.
  absl::Status UseSlotOfTheDead() {
    TENON_ASSIGN_OR_RETURN(QueueHandle handle, queue_->Share());
    TENON_ASSIGN_OR_RETURN(const auto next, OpenItems(std::move(handle)));
    TENON_RETURN_IF_ERROR(GetsItsOwnItemOnly(*next));
    for (uint64_t i = 0; i < 2 * kCapacity; ++i) {
      TENON_RETURN_IF_ERROR(next->Put(BytesOf(MakeItem(9, i)), kNow));
      TENON_RETURN_IF_ERROR(queue_->Put(BytesOf(MakeItem(8, i)), kNow));
      for (QueueCore* from : {queue_.get(), next.get()}) {
        TENON_ASSIGN_OR_RETURN(const TestItem item, GetItem(*from, kNow));
        if (item[1] != i) return Broken("not in order afterwards");
      }
    }
    return absl::OkStatus();
  }

  // Checks the queue after a victim that puts `most` items.
  absl::Status CheckPut(uint64_t most) {
    queue_->Disarm();
    TENON_ASSIGN_OR_RETURN(const uint64_t count, GetRest(1, 0));
    if (count != 0 && count != most) {
      return Broken(absl::StrCat(count, " of ", most, " are there"));
    }
    return UseSlotOfTheDead();
  }

  // Checks the queue after a victim that takes up to `most` of `put` items.
  absl::Status CheckGet(uint64_t put, uint64_t most) {
    queue_->Disarm(QueueWait::kPut);
    const uint64_t left = queue_->size();
    if (left > put || left + most < put) {
      return Broken(absl::StrCat(left, " of ", put, " are left"));
    }
    if (left != put && left + most != put) {
      return Broken("a part of a batch was taken");
    }
    if (queue_->taken() != put - left) return Broken("taken() is wrong");
    TENON_ASSIGN_OR_RETURN(const uint64_t count, GetRest(0, put - left));
    if (count != left) return Broken("some are gone");
    return UseSlotOfTheDead();
  }

  std::unique_ptr<QueueCore> queue_;
  QueueHandle handle_;
};

TEST_F(QueueStepTest, Put) {
  const uint64_t syscalls = Run([] {},
                                [](QueueCore& queue) {
                                  const TestItem item = MakeItem(1, 0);
                                  BeginRegion();
                                  const auto put = queue.TryPut(BytesOf(item));
                                  EndRegion();
                                  EXPECT_THAT(put, IsOkAndHolds(true));
                                },
                                [this] { return CheckPut(1); });
  EXPECT_EQ(syscalls, 0u);
}

TEST_F(QueueStepTest, PutThatWakes) {
  const uint64_t syscalls =
      Run([this] { ASSERT_THAT(queue_->Arm(), IsOkAndHolds(true)); },
          [](QueueCore& queue) {
            const std::array<TestItem, 3> items = {
                MakeItem(1, 0), MakeItem(1, 1), MakeItem(1, 2)};
            BeginRegion();
            const auto put = queue.TryPut(std::as_bytes(std::span(items)));
            EndRegion();
            EXPECT_THAT(put, IsOkAndHolds(true));
            EXPECT_EQ(queue.stats().put_wakes, 1u);
          },
          [this] { return CheckPut(3); });
  EXPECT_EQ(syscalls, 1u);
}

TEST_F(QueueStepTest, Get) {
  const uint64_t syscalls = Run(
      [this] {
        for (uint64_t i = 0; i < 2; ++i) {
          ASSERT_THAT(queue_->Put(BytesOf(MakeItem(0, i)), kNow), IsOk());
        }
      },
      [](QueueCore& queue) {
        TestItem item;
        BeginRegion();
        const auto got = queue.TryGet(std::as_writable_bytes(std::span(item)));
        EndRegion();
        EXPECT_THAT(got, IsOkAndHolds(1u));
        EXPECT_EQ(item, MakeItem(0, 0));
      },
      [this] { return CheckGet(2, 1); });
  EXPECT_EQ(syscalls, 0u);
}

// The ring is full, and its owner waits for room.
TEST_F(QueueStepTest, BatchThatWakes) {
  const uint64_t syscalls = Run(
      [this] {
        for (uint64_t i = 0; i < kCapacity; ++i) {
          ASSERT_THAT(queue_->Put(BytesOf(MakeItem(0, i)), kNow), IsOk());
        }
        ASSERT_THAT(queue_->Arm(QueueWait::kPut), IsOkAndHolds(true));
      },
      [](QueueCore& queue) {
        std::array<TestItem, 3> items;
        BeginRegion();
        const auto got = queue.TryGet(std::as_writable_bytes(std::span(items)));
        EndRegion();
        EXPECT_THAT(got, IsOkAndHolds(3u));
        EXPECT_EQ(items[2], MakeItem(0, 2));
        EXPECT_EQ(queue.stats().get_wakes, 1u);
      },
      [this] { return CheckGet(kCapacity, 3); });
  EXPECT_EQ(syscalls, 1u);
}

TEST_F(QueueStepTest, Sleep) {
  Run([] {},
      [](QueueCore& queue) {
        TestItem item;
        BeginRegion();
        const auto armed = queue.Arm();
        queue.Disarm();
        const auto got = queue.TryGet(std::as_writable_bytes(std::span(item)));
        EndRegion();
        EXPECT_THAT(armed, IsOkAndHolds(true));
        EXPECT_THAT(got, IsOkAndHolds(0u));
      },
      [this] { return CheckPut(0); });
}

// A participant's whole life: there is one slot, which must be reused.
TEST_F(QueueStepTest, JoinPutAndLeave) {
  StepScenario scenario;
  scenario.prepare = [this] {
    Make();
    ASSERT_THAT(queue_->Arm(), IsOkAndHolds(true));
  };
  scenario.victim = [this](const Reporter&) {
    QueueHandle handle = std::move(handle_);
    const TestItem item = MakeItem(1, 0);
    BeginRegion();
    auto mine = OpenItems(std::move(handle));
    const absl::Status put =
        mine.ok() ? (*mine)->Put(BytesOf(item), kNow) : mine.status();
    mine = absl::CancelledError("left");
    EndRegion();
    EXPECT_THAT(put, IsOk());
  };
  scenario.check = [this](const StepPosition&) -> absl::Status {
    queue_->Disarm();
    if (queue_->size() == 0) return UseSlotOfTheDead();
    return CheckPut(1);
  };
  StepSome(std::move(scenario));
}

// The same where the only other slot has the items of a dead putter.
TEST_F(QueueStepTest, JoinOverItemsAndPut) {
  StepScenario scenario;
  scenario.prepare = [this] {
    Make();
    QueueHandle handle = queue_->Share().value();
    ASSERT_TRUE(PassesInChild([&handle] {
      auto mine = OpenItems(std::move(handle));
      ASSERT_THAT(mine, IsOk());
      for (uint64_t i = 0; i < 2; ++i) {
        ASSERT_THAT((*mine)->Put(BytesOf(MakeItem(1, i)), kNow), IsOk());
      }
      _exit(0);
    }));
    ASSERT_THAT(queue_->Arm(), IsOk());
  };
  scenario.victim = [this](const Reporter&) {
    QueueHandle handle = std::move(handle_);
    const TestItem item = MakeItem(1, 2);
    BeginRegion();
    auto mine = OpenItems(std::move(handle));
    const absl::Status put =
        mine.ok() ? (*mine)->Put(BytesOf(item), kNow) : mine.status();
    EndRegion();
    EXPECT_THAT(put, IsOk());
  };
  scenario.check = [this](const StepPosition&) -> absl::Status {
    queue_->Disarm();
    TENON_ASSIGN_OR_RETURN(QueueHandle handle, queue_->Share());
    {
      // Before any item is taken.
      TENON_ASSIGN_OR_RETURN(const auto next, OpenItems(std::move(handle)));
    }
    TENON_ASSIGN_OR_RETURN(const uint64_t count, GetRest(1, 0));
    if (count != 2 && count != 3) {
      return Broken(absl::StrCat(count, " items are there"));
    }
    return UseSlotOfTheDead();
  };
  StepSome(std::move(scenario));
}

}  // namespace
}  // namespace tenon

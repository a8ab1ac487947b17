// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Putting, getting, releasing and forwarding pooled tensors, killed at every
// machine instruction: see tensor_queue_step_testing.h. A message is taken
// whole or not at all, the owner gets its blocks back, and the others continue.

#include <cstdint>
#include <memory>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/queue/internal/queue_core.h"
#include "tenon/ipc/queue/internal/queue_layout.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/ipc/tensor_queue/tensor_queue_parts.h"
#include "tenon/ipc/tensor_queue/tensor_queue_step_testing.h"
#include "tenon/shm/arena/proof/arena_kill_testing.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm/testing/trace/region.h"
#include "tenon/shm/testing/trace/single_stepper.h"

namespace tenon {

class TensorQueuePeer {
 public:
  static QueueCore& CoreOf(TensorQueue& queue) { return *queue.parts_->queue; }
};

namespace {

// --- The victim puts. It owns the arena. ---

class TensorQueuePutStepTest : public TensorQueueStepTest {
 protected:
  // Puts and gets its own tensors for a while, then puts tensor 0.
  void WarmUp(TensorQueue& queue) {
    for (int64_t i = 0; i < 2 * kCapacity; ++i) {
      ASSERT_THAT(PutOne(queue, -i), IsOk());
      ASSERT_THAT(queue.Get(Soon()), IsOk());
    }
    ASSERT_THAT(queue.AwaitTaken(Soon()), IsOk());
    ASSERT_THAT(PutOne(queue, 0), IsOk());
  }

  StepScenario PutScenario() {
    StepScenario scenario;
    scenario.prepare = [this] { MakeQueues(); };
    scenario.victim = [this](const Reporter&) {
      const auto queue = OpenAsVictim();
      WarmUp(*queue);
      TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor, MakeTensor(*queue, 1));
      BeginRegion();
      const absl::Status put = queue->Put(tensor, Deadline::Passed());
      EndRegion();
      EXPECT_THAT(put, IsOk());
    };
    scenario.check = [this](const StepPosition& p) { return CheckPut(p, 1); };
    return scenario;
  }

  // After a victim that put `before` tensors before its region.
  absl::Status CheckPut(const StepPosition& position, int64_t before) {
    TENON_ASSIGN_OR_RETURN(const int64_t count, GetRest(*queue_, 0));
    const bool put = count == before + 1;
    TENON_RETURN_IF_ERROR(
        Expect(put || count == before, "what was put before is not all there"));
    TENON_RETURN_IF_ERROR(
        Expect(put || position.moment != StepMoment::kEnded, "it is not put"));
    ++(put ? put_ : not_put_);
    return CheckWorld();
  }

  void ExpectBothWays() {
    EXPECT_GT(put_, 0);
    EXPECT_GT(not_put_, 0);
  }

  int put_ = 0, not_put_ = 0;
};

TEST_F(TensorQueuePutStepTest, Put) {
  EXPECT_EQ(Run(PutScenario(), 7), 0u);
  ExpectBothWays();
}

// A new tensor in a reused block, put, and released.
TEST_F(TensorQueuePutStepTest, CreatePutAndRelease) {
  StepScenario scenario = PutScenario();
  scenario.victim = [this](const Reporter&) {
    const auto queue = OpenAsVictim();
    WarmUp(*queue);
    BeginRegion();
    const absl::Status put = PutOne(*queue, 1);
    EndRegion();
    EXPECT_THAT(put, IsOk());
  };
  Run(scenario, 31);
  ExpectBothWays();
}

// The first Put() of a participant, which publishes its arena's offer; the
// survivor sleeps.
TEST_F(TensorQueuePutStepTest, FirstPutThatWakes) {
  StepScenario scenario = PutScenario();
  scenario.prepare = [this] {
    MakeQueues();
    ASSERT_THAT(queue_->Arm(), IsOkAndHolds(true));
  };
  scenario.victim = [this](const Reporter&) {
    const auto queue = OpenAsVictim();
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor, MakeTensor(*queue, 0));
    BeginRegion();
    const absl::Status put = queue->Put(tensor, Deadline::Passed());
    EndRegion();
    EXPECT_THAT(put, IsOk());
  };
  scenario.check = [this](const StepPosition& position) {
    queue_->Disarm();
    return CheckPut(position, 0);
  };
  scenario.max_stops = kMaxStops;
  scenario.around_syscalls = true;
  EXPECT_GE(Run(scenario, 61), 2u);
  ExpectBothWays();
}

// While the victim is stopped the survivor receives the queued tensors, and the
// rest after the victim has continued.
TEST_F(TensorQueuePutStepTest, PutThatStandsStill) {
  StepScenario scenario = PutScenario();
  scenario.fate = StepFate::kPause;
  int64_t seen = 0;
  scenario.check = [&](const StepPosition& position) -> absl::Status {
    if (position.moment == StepMoment::kPaused) {
      seen = 0;
      for (;;) {
        TENON_ASSIGN_OR_RETURN(auto got, queue_->TryGet());
        if (!got.has_value()) break;
        TENON_RETURN_IF_ERROR(IsNumber(*got, seen));
        got_.push_back({*std::move(got), seen++});
      }
      ++(seen == 2 ? put_ : not_put_);
      return Expect(seen == 1 || seen == 2, "it is not all there");
    }
    TENON_ASSIGN_OR_RETURN(const int64_t count, GetRest(*queue_, seen));
    TENON_RETURN_IF_ERROR(Expect(seen + count == 2, "lost, or there twice"));
    seen = 0;
    return CheckWorld();
  };
  Run(scenario, 13);
  ExpectBothWays();
}

// --- The victim gets, and claims. The test owns the arena. ---

class TensorQueueGetStepTest : public TensorQueueStepTest {
 protected:
  StepScenario GetScenario() {
    StepScenario scenario;
    scenario.prepare = [this] {
      MakeQueues();
      PutFromHere(kCapacity);
    };
    scenario.victim = [this](const Reporter&) {
      const auto queue = OpenAsVictim();
      WarmUp(*queue);
      BeginRegion();
      const auto got = queue->Get(Deadline::Passed());
      EndRegion();
      ASSERT_THAT(got, IsOk());
      EXPECT_THAT(IsNumber(*got, ValueOf(kWarm)), IsOk());
    };
    scenario.check = [this](const StepPosition& p) {
      return CheckGet(p, kWarm);
    };
    return scenario;
  }

  void WarmUp(TensorQueue& queue) {
    for (int64_t i = 0; i < kWarm; ++i) {
      ASSERT_TRUE(GetsTensorOf(queue, ValueOf(i)));
    }
  }

  // After a victim that took `before` tensors before its region.
  absl::Status CheckGet(const StepPosition& position, int64_t before) {
    const auto left = static_cast<int64_t>(queue_->size());
    const bool got = left == kCapacity - before - 1;
    TENON_RETURN_IF_ERROR(
        Expect(got || left == kCapacity - before, "more than one is gone"));
    TENON_RETURN_IF_ERROR(
        Expect(got || position.moment != StepMoment::kEnded, "it was not got"));
    ++(got ? got_one_ : got_none_);
    TENON_ASSIGN_OR_RETURN(const int64_t count,
                           GetRest(*queue_, kCapacity - left));
    TENON_RETURN_IF_ERROR(Expect(count == left, "some are gone"));
    return CheckWorld();
  }

  void ExpectBothWays() {
    EXPECT_GT(got_one_, 0);
    EXPECT_GT(got_none_, 0);
  }

  int got_one_ = 0, got_none_ = 0;
};

TEST_F(TensorQueueGetStepTest, Get) {
  EXPECT_EQ(Run(GetScenario(), 7), 0u);
  ExpectBothWays();
}

// The short way: the block and the spec are those of the message before.
TEST_F(TensorQueueGetStepTest, GetOfTheSameBlock) {
  one_tensor_ = true;
  EXPECT_EQ(Run(GetScenario(), 7), 0u);
  ExpectBothWays();
}

TEST_F(TensorQueueGetStepTest, GetTensorOfTheSameBlock) {
  one_tensor_ = true;
  StepScenario scenario = GetScenario();
  scenario.victim = [this](const Reporter&) {
    const auto queue = OpenAsVictim();
    WarmUp(*queue);
    BeginRegion();
    const auto got = queue->TryGetTensor();
    EndRegion();
    ASSERT_THAT(got, IsOk());
    ASSERT_TRUE(got->has_value());
    EXPECT_TRUE(IsTensorOf(**got, 0));
  };
  EXPECT_EQ(Run(scenario, 5), 0u);
  ExpectBothWays();
}

TEST_F(TensorQueueGetStepTest, Release) {
  StepScenario scenario = GetScenario();
  scenario.victim = [this](const Reporter&) {
    const auto queue = OpenAsVictim();
    WarmUp(*queue);
    TENON_ASSERT_OK_AND_ASSIGN(TensorMessage message,
                               queue->Get(Deadline::Passed()));
    BeginRegion();
    message = TensorMessage();
    EndRegion();
  };
  EXPECT_EQ(Run(scenario, 3), 0u);
  EXPECT_EQ(got_none_, 0);
}

// The first Get() of a participant, which attaches to the arena; the owner
// waits for room.
TEST_F(TensorQueueGetStepTest, FirstGetThatWakes) {
  StepScenario scenario = GetScenario();
  scenario.prepare = [this] {
    MakeQueues();
    PutFromHere(kCapacity);
    ASSERT_THAT(TensorQueuePeer::CoreOf(*queue_).Arm(QueueWait::kPut),
                IsOkAndHolds(true));
  };
  scenario.victim = [this](const Reporter&) {
    const auto queue = OpenAsVictim();
    BeginRegion();
    const auto got = queue->Get(Deadline::Passed());
    EndRegion();
    EXPECT_THAT(got, IsOk());
  };
  scenario.check = [this](const StepPosition& position) {
    TensorQueuePeer::CoreOf(*queue_).Disarm(QueueWait::kPut);
    return CheckGet(position, 0);
  };
  scenario.max_stops = kMaxStops;
  scenario.around_syscalls = true;
  EXPECT_GE(Run(scenario, 151), 2u);
  ExpectBothWays();
}

// While the victim is stopped the survivor receives all queued tensors, and
// lets the owner reuse their blocks; the tensor that the victim then receives
// is whole.
class TensorQueueGetPauseTest : public TensorQueueGetStepTest {
 protected:
  void RunWithPauses();
};

void TensorQueueGetPauseTest::RunWithPauses() {
  constexpr int64_t kNothing = -1;
  SharedObject<int64_t> victims;
  StepScenario scenario = GetScenario();
  scenario.fate = StepFate::kPause;
  scenario.victim = [&](const Reporter&) {
    const auto queue = OpenAsVictim();
    WarmUp(*queue);
    *victims = kNothing;
    BeginRegion();
    const auto got = queue->TryGet();
    EndRegion();
    ASSERT_THAT(got, IsOk());
    if (!got->has_value()) return;
    EXPECT_THAT(IsNumber(**got, ValueOf(kWarm)), IsOk());
    *victims = kWarm;
  };
  int64_t first = kNothing;  // The first one the survivor received.
  scenario.check = [&](const StepPosition& position) -> absl::Status {
    if (position.moment == StepMoment::kPaused) {
      first = kCapacity - static_cast<int64_t>(queue_->size());
      for (int64_t next = first; next < kCapacity; ++next) {
        TENON_ASSIGN_OR_RETURN(const auto got, queue_->TryGet());
        TENON_RETURN_IF_ERROR(Expect(got.has_value(), "one is gone"));
        TENON_RETURN_IF_ERROR(IsNumber(*got, ValueOf(next)));
      }
      TensorQueue::Reap();
      // The victim may hold a claim by now.
      return Expect(TakeFreeBlocks() + 1 >= kQuota, "some are kept back");
    }
    // The victim was not stopped.
    if (position.address == 0) first = kWarm + 1;
    ++(*victims == kNothing ? got_none_ : got_one_);
    const bool expected =
        *victims == kNothing ? first == kWarm : first == kWarm + 1;
    TENON_RETURN_IF_ERROR(Expect(expected, "got twice, or by nobody"));
    TENON_ASSIGN_OR_RETURN(const int64_t count, GetRest(*queue_, first));
    TENON_RETURN_IF_ERROR(
        Expect(count == 0 || position.address == 0, "one comes back"));
    return CheckWorld();
  };
  Run(scenario, 13);
  ExpectBothWays();
}

TEST_F(TensorQueueGetPauseTest, GetThatStandsStill) { RunWithPauses(); }

TEST_F(TensorQueueGetPauseTest, GetOfTheSameBlockThatStandsStill) {
  one_tensor_ = true;
  RunWithPauses();
}

// --- The victim forwards. ---

class TensorQueueForwardStepTest : public TensorQueueStepTest {
 protected:
  // It has forwarded `before` tensors before its region, and one in it.
  StepScenario ForwardScenario(int64_t before) {
    StepScenario scenario;
    scenario.prepare = [this] {
      MakeQueues();
      PutFromHere(kCapacity);
    };
    scenario.victim = [this, before](const Reporter&) {
      const auto from = OpenAsVictim();
      const auto to = OpenOnwardAsVictim();
      const auto forward = [&]() -> absl::Status {
        TENON_ASSIGN_OR_RETURN(const TensorMessage message,
                               from->Get(Deadline::Passed()));
        return to->Put(message, Deadline::Passed());
      };
      for (int64_t i = 0; i < before; ++i) ASSERT_THAT(forward(), IsOk());
      BeginRegion();
      const absl::Status forwarded = forward();
      EndRegion();
      EXPECT_THAT(forwarded, IsOk());
    };
    scenario.check = [this, before](const StepPosition& position) {
      return CheckForward(position, before);
    };
    return scenario;
  }

  absl::Status CheckForward(const StepPosition& position, int64_t before) {
    const auto left = static_cast<int64_t>(queue_->size());
    const bool got = left == kCapacity - before - 1;
    TENON_RETURN_IF_ERROR(
        Expect(got || left == kCapacity - before, "more than one is gone"));
    TENON_ASSIGN_OR_RETURN(const int64_t rest,
                           GetRest(*queue_, kCapacity - left));
    TENON_RETURN_IF_ERROR(Expect(rest == left, "some are gone"));
    TENON_ASSIGN_OR_RETURN(const int64_t forwarded, CountForwarded(position));
    TENON_RETURN_IF_ERROR(
        Expect(forwarded == before || (got && forwarded == before + 1),
               "there twice, or what was forwarded before is not all there"));
    TENON_RETURN_IF_ERROR(
        Expect(forwarded == before + 1 || position.moment != StepMoment::kEnded,
               "it was not forwarded"));
    ++(!got ? left_there_ : forwarded == before ? lost_ : forwarded_);
    return CheckWorld();
  }

  // Either the getter comes before the owner reclaims, which still holds all,
  // or after the owner has reused all blocks.
  absl::StatusOr<int64_t> CountForwarded(const StepPosition& position) {
    if (position.index % 2 == 0) return GetRest(*onward_, 0);
    got_.clear();
    TENON_RETURN_IF_ERROR(queue_->AwaitTaken(Soon()));
    TENON_RETURN_IF_ERROR(TakeWholeQuota());
    return CountLost(*onward_);
  }

  void ExpectAllWays() {
    EXPECT_GT(left_there_, 0);
    EXPECT_GT(lost_, 0) << "with the victim, which had it and nobody else";
    EXPECT_GT(forwarded_, 0);
  }

  int left_there_ = 0, lost_ = 0, forwarded_ = 0;
};

TEST_F(TensorQueueForwardStepTest, Forward) {
  EXPECT_EQ(Run(ForwardScenario(kWarm), 15), 0u);
  ExpectAllWays();
}

TEST_F(TensorQueueForwardStepTest, ForwardOfTheSameBlock) {
  one_tensor_ = true;
  EXPECT_EQ(Run(ForwardScenario(kWarm), 15), 0u);
  ExpectAllWays();
}

// It attaches to the arena, and publishes an offer of it.
TEST_F(TensorQueueForwardStepTest, FirstForward) {
  StepScenario scenario = ForwardScenario(0);
  scenario.max_stops = kMaxStops;
  scenario.around_syscalls = true;
  EXPECT_GE(Run(scenario, 301), 4u);
  ExpectAllWays();
}

}  // namespace
}  // namespace tenon

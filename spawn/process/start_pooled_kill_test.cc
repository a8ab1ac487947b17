// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Tensors in blocks of arenas as arguments of Start(), while parent or children
// are killed: a receiver has the whole tensor, and in the end no block is held.

#include <signal.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/sync/event.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/arguments/ipc_arguments.h"
#include "tenon/spawn/arguments/plain_arguments.h"
#include "tenon/spawn/arguments/shm_arguments.h"
#include "tenon/spawn/child/function.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/process/processes.h"
#include "tenon/spawn/process/start.h"
#include "tenon/spawn/report/process_error.h"
#include "tenon/spawn/settings/inherited_setting.h"
#include "tenon/spawn/settings/process_options.h"
#include "tenon/spawn/testing/child_testing.h"
#include "tenon/spawn/testing/pooled_tensor_testing.h"

namespace tenon::spawn {
namespace {

constexpr int kRounds = 200;
constexpr int64_t kOnePage = 512;

class StartPooledKillTest : public ChildTest {};

// The crash point at which children are killed.
std::string fatal_point;  // NOLINT(cert-err58-cpp): empty.

std::string SavePoint() { return fatal_point; }
absl::Status SetPoint(absl::string_view point) {
  fatal_point = std::string(point);
  if (fatal_point.empty()) return absl::OkStatus();
  SetCrashPointHook([](const CrashPoint& passed) {
    if (passed.name() == fatal_point) raise(SIGKILL);
  });
  return absl::OkStatus();
}
TENON_SPAWN_INHERIT("fatal point", SavePoint, SetPoint);

// Has room for four blocks of a page, so that they are reused soon.
std::shared_ptr<Arena> MakeSmallArena() {
  return Arena::Create({.quota_bytes = 4 * 4096, .max_blocks = 8192}).value();
}

// The contents of blocks other than a test's tensors begin below zero.
absl::Status CheckIsWhole(const Tensor& tensor) {
  TENON_ASSIGN_OR_RETURN(const auto values, tensor.data<const int64_t>());
  if (values[0] < 0) return absl::InternalError("another's");
  return CheckCounting(tensor, kOnePage, values[0]);
}

void Overwrite(Arena& arena) {
  std::vector<Tensor> all;
  for (int i = 0; i < 4; ++i) {
    auto block = arena.TryAllocate(4096);
    if (!block.ok()) continue;
    auto* values = reinterpret_cast<int64_t*>(block->data());
    for (int64_t k = 0; k < kOnePage; ++k) values[k] = -1;
  }
}

// Reads the tensor several times, and reports if it was wrong once.
absl::Status Look(int, Tensor tensor, Event wrong) {
  for (int i = 0; i < 5; ++i) {
    if (!CheckIsWhole(tensor).ok()) return wrong.Set();
    absl::SleepFor(absl::Microseconds(200));
  }
  return absl::OkStatus();
}
TENON_SPAWN_FUNCTION(Look);

// ---- Children are killed ----

TEST_F(StartPooledKillTest, ChildrenAtEachPointOfTheirHandOver) {
  const auto arena = MakeSmallArena();
  TENON_ASSERT_OK_AND_ASSIGN(auto wrong, Event::Create());
  for (const char* point :
       {"tensor_parcel.received", "attached_arena.attaching",
        "attached_arena.attached", "attached_arena.claimed",
        "tensor_parcel.claimed"}) {
    fatal_point = point;
    TENON_ASSERT_OK_AND_ASSIGN(Tensor tensor,
                               MakeCounting(*arena, kOnePage, 1));
    TENON_ASSERT_OK_AND_ASSIGN(Processes two,
                               Start(2, Look, {}, std::move(tensor), wrong));
    const auto exited = GetProcessExited(two.Join(Watchdog()));
    ASSERT_TRUE(exited.has_value()) << point;
    EXPECT_EQ(exited->signal_name, "SIGKILL") << point;
    EXPECT_TRUE(NothingIsLeftIn(*arena)) << point;
  }
  fatal_point.clear();
}

TEST_F(StartPooledKillTest, ChildrenAtAnyMoment) {
  const auto arena = MakeSmallArena();
  TENON_ASSERT_OK_AND_ASSIGN(auto wrong, Event::Create());
  std::mt19937 random(20260703);
  for (int i = 0; i < kRounds; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(Tensor tensor,
                               MakeCounting(*arena, kOnePage, i));
    TENON_ASSERT_OK_AND_ASSIGN(Processes two,
                               Start(2, Look, {}, std::move(tensor), wrong));
    absl::SleepFor(absl::Microseconds(random() % 4000));
    two[0].Kill().IgnoreError();
    Overwrite(*arena);
    two.Join(Watchdog()).IgnoreError();
    ASSERT_TRUE(NothingIsLeftIn(*arena)) << "round " << i;
  }
  EXPECT_THAT(wrong.IsSet(), IsOkAndHolds(false));
}

// ---- The parent is killed ----

// This process reaps its children once it is dead.
class StartPooledParentKillTest : public StartPooledKillTest {
 protected:
  void SetUp() override {
    StartPooledKillTest::SetUp();
    ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  }
  void TearDown() override {
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    StartPooledKillTest::TearDown();
  }

  // Kills it some time after `begun` has been set.
  void KillAndReap(Processes& parent, const Event& begun) {
    ASSERT_THAT(begun.Wait(Watchdog()), IsOk());
    ASSERT_THAT(begun.Clear(), IsOk());
    absl::SleepFor(absl::Microseconds(random_() % 8000));
    ASSERT_THAT(parent.Kill(SIGKILL), IsOk());
    EXPECT_THAT(parent.Join(Watchdog()), StatusIs(absl::StatusCode::kAborted));
  }
  void ReapOrphans() {
    ASSERT_TRUE(Becomes([] {
      while (waitpid(-1, nullptr, WNOHANG) > 0) {
      }
      return !HasChildren();
    }));
  }

 private:
  std::mt19937 random_{20260704};
};

// They end by themselves, so that they read it also without a parent.
ProcessOptions LongGrace() { return {.orphan_grace = absl::Minutes(1)}; }

// Passes on its argument, again and again, until it is killed.
absl::Status GiveOnForEver(int, Tensor tensor, Event begun, Event wrong) {
  TENON_RETURN_IF_ERROR(begun.Set());
  for (;;) {
    TENON_ASSIGN_OR_RETURN(Processes two,
                           Start(2, Look, LongGrace(), tensor, wrong));
    TENON_RETURN_IF_ERROR(two.Join(Watchdog()));
  }
}
TENON_SPAWN_FUNCTION(GiveOnForEver);

TEST_F(StartPooledParentKillTest, OfWhoGivesItOnBeforeItHasBeenSent) {
  const auto arena = MakeSmallArena();
  TENON_ASSERT_OK_AND_ASSIGN(auto begun, Event::Create());
  TENON_ASSERT_OK_AND_ASSIGN(auto wrong, Event::Create());
  TENON_ASSERT_OK_AND_ASSIGN(Tensor tensor, MakeCounting(*arena, kOnePage, 1));
  fatal_point = "hold_until_closed.held";
  TENON_ASSERT_OK_AND_ASSIGN(
      Processes parent,
      Start(1, GiveOnForEver, {}, std::move(tensor), begun, wrong));
  fatal_point.clear();
  const auto exited = GetProcessExited(parent.Join(Watchdog()));
  ASSERT_TRUE(exited.has_value());
  EXPECT_EQ(exited->signal_name, "SIGKILL");
  EXPECT_TRUE(NothingIsLeftIn(*arena));
}

TEST_F(StartPooledParentKillTest, OfWhoGivesItOnAtAnyMoment) {
  const auto arena = MakeSmallArena();
  TENON_ASSERT_OK_AND_ASSIGN(auto begun, Event::Create());
  TENON_ASSERT_OK_AND_ASSIGN(auto wrong, Event::Create());
  for (int i = 0; i < kRounds; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(Tensor tensor,
                               MakeCounting(*arena, kOnePage, i));
    TENON_ASSERT_OK_AND_ASSIGN(
        Processes parent,
        Start(1, GiveOnForEver, {}, std::move(tensor), begun, wrong));
    ASSERT_NO_FATAL_FAILURE(KillAndReap(parent, begun));
    Overwrite(*arena);  // Its children may still read, or be about to claim.
    ASSERT_NO_FATAL_FAILURE(ReapOrphans()) << "round " << i;
    ASSERT_TRUE(NothingIsLeftIn(*arena)) << "round " << i;
  }
  EXPECT_THAT(wrong.IsSet(), IsOkAndHolds(false));
}

// The same with its own tensors.
absl::Status MakeForEver(int, Event begun, Event wrong) {
  const auto arena = MakeSmallArena();
  TENON_RETURN_IF_ERROR(begun.Set());
  for (int64_t i = 0;; ++i) {
    TENON_ASSIGN_OR_RETURN(Tensor tensor, MakeCounting(*arena, kOnePage, i));
    TENON_ASSIGN_OR_RETURN(
        Processes two, Start(2, Look, LongGrace(), std::move(tensor), wrong));
    Overwrite(*arena);
    TENON_RETURN_IF_ERROR(two.Join(Watchdog()));
  }
}
TENON_SPAWN_FUNCTION(MakeForEver);

TEST_F(StartPooledParentKillTest, OfTheOwnerAtAnyMoment) {
  TENON_ASSERT_OK_AND_ASSIGN(auto begun, Event::Create());
  TENON_ASSERT_OK_AND_ASSIGN(auto wrong, Event::Create());
  for (int i = 0; i < kRounds; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(Processes parent,
                               Start(1, MakeForEver, {}, begun, wrong));
    ASSERT_NO_FATAL_FAILURE(KillAndReap(parent, begun));
    ASSERT_NO_FATAL_FAILURE(ReapOrphans()) << "round " << i;
  }
  EXPECT_THAT(wrong.IsSet(), IsOkAndHolds(false));
}

}  // namespace
}  // namespace tenon::spawn

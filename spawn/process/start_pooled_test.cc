// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Tensors in blocks of arenas as arguments of Start().

#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/sync/event.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/arguments/ipc_arguments.h"
#include "tenon/spawn/arguments/plain_arguments.h"
#include "tenon/spawn/arguments/shm_arguments.h"
#include "tenon/spawn/child/function.h"
#include "tenon/spawn/fork_server/fork_server.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/process/processes.h"
#include "tenon/spawn/process/start.h"
#include "tenon/spawn/settings/inherited_setting.h"
#include "tenon/spawn/settings/process_options.h"
#include "tenon/spawn/settings/start_method.h"
#include "tenon/spawn/testing/child_testing.h"
#include "tenon/spawn/testing/pooled_tensor_testing.h"

namespace tenon::spawn {
namespace {

using ::testing::HasSubstr;

// Actions of children before they unpack their arguments.
std::string before_arguments;  // NOLINT(cert-err58-cpp): empty.

void StopAtReceipt(const CrashPoint& passed) {
  if (absl::string_view(passed.name()) == "tensor_parcel.received") {
    raise(SIGSTOP);
  }
}

std::string SaveBefore() { return before_arguments; }
absl::Status DoBefore(absl::string_view what) {
  if (what == "stop") raise(SIGSTOP);
  if (what == "stop at receipt") SetCrashPointHook(StopAtReceipt);
  if (what == "kill") raise(SIGKILL);
  if (what == "fail") return absl::NotFoundError("told to fail");
  return absl::OkStatus();
}
TENON_SPAWN_INHERIT("before arguments", SaveBefore, DoBefore);

class StartPooledTest : public ChildTest {
 protected:
  void TearDown() override {
    before_arguments.clear();
    StopForkServer();
    ChildTest::TearDown();
  }
};

std::shared_ptr<Arena> MakeArena() {
  return Arena::Create({.name = "arguments"}).value();
}

// Has room for one block of a page.
std::shared_ptr<Arena> MakeSmallArena() {
  return Arena::Create({.quota_bytes = 4096, .max_blocks = 8192}).value();
}
constexpr int64_t kOnePage = 512;

// ---- Positions of a tensor among the arguments ----

absl::Status CheckAll(int, Tensor one, std::string text,
                      std::vector<Tensor> many, UniqueFd fd,
                      std::optional<Tensor> maybe,
                      std::map<std::string, Tensor> named,
                      std::pair<int, Tensor> paired,
                      std::tuple<Tensor, std::vector<double>> tied,
                      Tensor single) {
  TENON_RETURN_IF_ERROR(CheckCounting(one, 10, 1));
  if (text != "text" || !fd.valid() || many.size() != 3) {
    return absl::InternalError("the other arguments");
  }
  TENON_RETURN_IF_ERROR(CheckCounting(many[0], 10, 2));
  TENON_RETURN_IF_ERROR(CheckCounting(many[1], 100'000, 3));
  TENON_RETURN_IF_ERROR(CheckCounting(many[2], 10, 1));
  if (many[2].storage() != one.storage()) {
    return absl::InternalError("two storages of one");
  }
  TENON_RETURN_IF_ERROR(CheckCounting(maybe.value(), 1000, 4));
  TENON_RETURN_IF_ERROR(CheckCounting(named.at("five"), 10, 5));
  TENON_RETURN_IF_ERROR(CheckCounting(paired.second, 10, 6));
  TENON_RETURN_IF_ERROR(CheckCounting(std::get<0>(tied), 10, 7));
  TENON_ASSIGN_OR_RETURN(const auto values, single.data<int64_t>());
  return values[0] == 8 ? absl::OkStatus() : absl::InternalError("single");
}
TENON_SPAWN_FUNCTION(CheckAll);

absl::StatusOr<Processes> StartCheckAll(Arena& arena, int nprocs,
                                        StartMethod method) {
  TENON_ASSIGN_OR_RETURN(const Tensor one, MakeCounting(arena, 10, 1));
  TENON_ASSIGN_OR_RETURN(const Tensor two, MakeCounting(arena, 10, 2));
  TENON_ASSIGN_OR_RETURN(const Tensor three, MakeCounting(arena, 100'000, 3));
  TENON_ASSIGN_OR_RETURN(const Tensor four, MakeCounting(arena, 1000, 4));
  TENON_ASSIGN_OR_RETURN(const Tensor five, MakeCounting(arena, 10, 5));
  TENON_ASSIGN_OR_RETURN(const Tensor six, MakeCounting(arena, 10, 6));
  TENON_ASSIGN_OR_RETURN(const Tensor seven, MakeCounting(arena, 10, 7));
  TENON_ASSIGN_OR_RETURN(const Tensor single,
                         Tensor::CreateShared(kDtypeOf<int64_t>, {1}));
  TENON_RETURN_IF_ERROR(single.Fill(int64_t{8}));
  return Start(nprocs, CheckAll, {.method = method}, one, "text",
               std::vector<Tensor>{two, three, one},
               UniqueFd(dup(STDERR_FILENO)), std::optional<Tensor>(four),
               std::map<std::string, Tensor>{{"five", five}},
               std::pair<int, Tensor>(6, six),
               std::tuple<Tensor, std::vector<double>>(seven, {1.5}), single);
}

TEST_F(StartPooledTest, AtEachPlaceForEachOfManyChildrenByEachMethod) {
  for (const StartMethod method :
       {StartMethod::kSpawn, StartMethod::kFork, StartMethod::kForkServer}) {
    const auto arena = MakeArena();
    TENON_ASSERT_OK_AND_ASSIGN(Processes three,
                               StartCheckAll(*arena, 3, method));
    EXPECT_THAT(three.Join(Watchdog()), IsOk());
    EXPECT_TRUE(NothingIsLeftIn(*arena));
  }
}

TEST_F(StartPooledTest, ByNameAndOneProcess) {
  const auto arena = MakeArena();
  TENON_ASSERT_OK_AND_ASSIGN(auto event, Event::Create());
  {
    TENON_ASSERT_OK_AND_ASSIGN(Tensor tensor, MakeCounting(*arena, 10, 1));
    TENON_ASSERT_OK_AND_ASSIGN(
        Process process,
        StartProcess("HoldUntilSet", {}, std::move(tensor), event));
    ASSERT_THAT(event.Set(), IsOk());
    EXPECT_THAT(process.Join(Watchdog()), IsOk());
  }
  EXPECT_TRUE(NothingIsLeftIn(*arena));
}

// ---- How long the block is held ----

absl::Status HoldUntilSet(int, Tensor tensor, Event event) {
  TENON_RETURN_IF_ERROR(event.Wait(Watchdog()));
  TENON_ASSIGN_OR_RETURN(const auto values, tensor.data<const int64_t>());
  return CheckCounting(tensor, static_cast<int64_t>(values.size()), 1);
}
TENON_SPAWN_FUNCTION(HoldUntilSet);

absl::Status DropAndWait(int, Tensor tensor, Event dropped, Event event) {
  tensor = Tensor();
  TENON_RETURN_IF_ERROR(dropped.Set());
  return event.Wait(Watchdog());
}
TENON_SPAWN_FUNCTION(DropAndWait);

bool IsHeld(Arena& arena) {
  return absl::IsResourceExhausted(arena.TryAllocate(4096).status());
}

TEST_F(StartPooledTest, AsLongAsAChildHasIt) {
  const auto arena = MakeSmallArena();
  TENON_ASSERT_OK_AND_ASSIGN(auto event, Event::Create());
  TENON_ASSERT_OK_AND_ASSIGN(Tensor tensor, MakeCounting(*arena, kOnePage, 1));
  TENON_ASSERT_OK_AND_ASSIGN(
      Processes two, Start(2, HoldUntilSet, {}, std::move(tensor), event));
  EXPECT_TRUE(IsHeld(*arena));
  ASSERT_THAT(event.Set(), IsOk());
  // Only the wait for memory checks the receipts.
  EXPECT_THAT(arena->Allocate(4096, Watchdog()), IsOk());
  EXPECT_THAT(two.Join(Watchdog()), IsOk());
  EXPECT_TRUE(NothingIsLeftIn(*arena));
}

TEST_F(StartPooledTest, NotLongerThanTheChildHasIt) {
  const auto arena = MakeSmallArena();
  TENON_ASSERT_OK_AND_ASSIGN(auto dropped, Event::Create());
  TENON_ASSERT_OK_AND_ASSIGN(auto event, Event::Create());
  TENON_ASSERT_OK_AND_ASSIGN(Tensor tensor, MakeCounting(*arena, kOnePage, 1));
  TENON_ASSERT_OK_AND_ASSIGN(
      Processes one,
      Start(1, DropAndWait, {}, std::move(tensor), dropped, event));
  ASSERT_THAT(dropped.Wait(Watchdog()), IsOk());
  EXPECT_FALSE(IsHeld(*arena));  // Although the child lives on.
  ASSERT_THAT(event.Set(), IsOk());
  EXPECT_THAT(one.Join(Watchdog()), IsOk());
}

void AwaitStopped(const Processes& processes) {
  for (const pid_t pid : processes.pids()) {
    ASSERT_TRUE(Becomes([&] { return ProcessState(pid) == 'T'; }));
  }
}

class StoppedBeforeItHasClaimedTest
    : public StartPooledTest,
      public testing::WithParamInterface<const char*> {};

TEST_P(StoppedBeforeItHasClaimedTest, TheBlockIsHeld) {
  const auto arena = MakeSmallArena();
  TENON_ASSERT_OK_AND_ASSIGN(auto event, Event::Create());
  ASSERT_THAT(event.Set(), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(Tensor tensor, MakeCounting(*arena, kOnePage, 1));
  before_arguments = GetParam();
  TENON_ASSERT_OK_AND_ASSIGN(
      Processes two, Start(2, HoldUntilSet, {}, std::move(tensor), event));
  ASSERT_NO_FATAL_FAILURE(AwaitStopped(two));
  EXPECT_TRUE(IsHeld(*arena));
  ASSERT_THAT(two[0].Signal(SIGCONT), IsOk());
  EXPECT_THAT(two.Join(absl::Milliseconds(200)),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_TRUE(IsHeld(*arena));  // For the other child.
  ASSERT_THAT(two[1].Signal(SIGCONT), IsOk());
  EXPECT_THAT(two.Join(Watchdog()), IsOk());
  EXPECT_TRUE(NothingIsLeftIn(*arena));
}

INSTANTIATE_TEST_SUITE_P(Start, StoppedBeforeItHasClaimedTest,
                         testing::Values("stop", "stop at receipt"));

TEST_F(StartPooledTest, ChildrenKilledBeforeTheyHaveClaimed) {
  const auto arena = MakeArena();
  TENON_ASSERT_OK_AND_ASSIGN(auto event, Event::Create());
  for (const char* how : {"kill", "stop", "fail"}) {
    before_arguments = how;
    TENON_ASSERT_OK_AND_ASSIGN(Tensor tensor, MakeCounting(*arena, 10, 1));
    TENON_ASSERT_OK_AND_ASSIGN(
        Processes two, Start(2, HoldUntilSet, {}, std::move(tensor), event));
    if (before_arguments == "stop") {
      ASSERT_NO_FATAL_FAILURE(AwaitStopped(two));
      ASSERT_THAT(two.Kill(SIGKILL), IsOk());
    }
    EXPECT_FALSE(two.Join(Watchdog()).ok());
    EXPECT_TRUE(NothingIsLeftIn(*arena)) << how;
  }
}

// ---- Starts that fail ----

TEST_F(StartPooledTest, StartsThatFailHoldNothing) {
  const auto arena = MakeArena();
  {
    TENON_ASSERT_OK_AND_ASSIGN(auto event, Event::Create());
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor,
                               MakeCounting(*arena, 10, 1));
    EXPECT_THAT(Start(1, "NoSuchFunction", {}, tensor, event),
                StatusIs(absl::StatusCode::kNotFound));
    EXPECT_THAT(Start(1, "HoldUntilSet", {}, tensor, 5),
                StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(Start(1, "HoldUntilSet", {.argument = "x"}, tensor, event),
                StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(Start(0, "HoldUntilSet", {}, tensor, event),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
  EXPECT_TRUE(NothingIsLeftIn(*arena));
}

TEST_F(StartPooledTest, InheritedByForkItCannotBeGivenOn) {
  const auto arena = MakeArena();
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor, MakeCounting(*arena, 10, 1));
  TENON_ASSERT_OK_AND_ASSIGN(auto event, Event::Create());
  EXPECT_TRUE(PassesInChild([&] {
    EXPECT_THAT(Start(1, "HoldUntilSet", {}, tensor, event).status(),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("cannot pack an argument")));
  }));
}

// ---- Passed on ----

absl::Status GiveOn(int, Tensor tensor, Event event) {
  TENON_ASSIGN_OR_RETURN(Processes two,
                         Start(2, HoldUntilSet, {}, std::move(tensor), event));
  return two.Join(Watchdog());
}
TENON_SPAWN_FUNCTION(GiveOn);

TEST_F(StartPooledTest, ChildrenGiveItOnToTheirs) {
  const auto arena = MakeArena();
  TENON_ASSERT_OK_AND_ASSIGN(auto event, Event::Create());
  TENON_ASSERT_OK_AND_ASSIGN(Tensor tensor, MakeCounting(*arena, 10, 1));
  TENON_ASSERT_OK_AND_ASSIGN(Processes two,
                             Start(2, GiveOn, {}, std::move(tensor), event));
  ASSERT_THAT(event.Set(), IsOk());
  EXPECT_THAT(two.Join(Watchdog()), IsOk());
  EXPECT_TRUE(NothingIsLeftIn(*arena));
}

// More than the first message holds, and more than one message holds.
absl::Status CheckMany(int, std::vector<Tensor> tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    TENON_RETURN_IF_ERROR(
        CheckCounting(tensors[i], 1000, static_cast<int64_t>(i)));
  }
  return tensors.size() == 400 ? absl::OkStatus()
                               : absl::InternalError("how many");
}
TENON_SPAWN_FUNCTION(CheckMany);

TEST_F(StartPooledTest, ManyTensorsOfManyArenas) {
  std::vector<std::shared_ptr<Arena>> arenas;
  std::vector<Tensor> tensors;
  for (int64_t i = 0; i < 400; ++i) {
    if (i % 5 == 0) arenas.push_back(MakeArena());
    TENON_ASSERT_OK_AND_ASSIGN(tensors.emplace_back(),
                               MakeCounting(*arenas.back(), 1000, i));
  }
  TENON_ASSERT_OK_AND_ASSIGN(Processes two, Start(2, CheckMany, {}, tensors));
  tensors.clear();
  EXPECT_THAT(two.Join(Watchdog()), IsOk());
  for (const auto& arena : arenas) EXPECT_TRUE(NothingIsLeftIn(*arena));
}

TEST_F(StartPooledTest, TensorsOfAnArenaOfNames) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto arena,
      Arena::Create({.segment = {.strategy = SharingStrategy::kFileSystem}}));
  TENON_ASSERT_OK_AND_ASSIGN(auto event, Event::Create());
  ASSERT_THAT(event.Set(), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(Tensor tensor, MakeCounting(*arena, 10, 1));
  TENON_ASSERT_OK_AND_ASSIGN(
      Processes two, Start(2, HoldUntilSet, {}, std::move(tensor), event));
  EXPECT_THAT(two.Join(Watchdog()), IsOk());
  EXPECT_TRUE(NothingIsLeftIn(*arena));
}

}  // namespace
}  // namespace tenon::spawn

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Start methods in a process that has initialized CUDA; tensors of devices as
// arguments and results of processes.

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/device_loan_testing.h"
#include "tenon/cuda_ipc/device_mixed_testing.h"
#include "tenon/cuda_ipc/device_pool.h"
#include "tenon/cuda_ipc/driver.h"
#include "tenon/cuda_ipc/fake/fake_driver.h"
#include "tenon/cuda_ipc/machine_driver_testing.h"
#include "tenon/futures/future_testing.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/arguments/shm_arguments.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/child/function.h"
#include "tenon/spawn/child/init.h"
#include "tenon/spawn/fork_server/fork_server.h"
#include "tenon/spawn/pool/pool_function.h"
#include "tenon/spawn/pool/pool_options.h"
#include "tenon/spawn/pool/process_pool.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/process/start.h"
#include "tenon/spawn/settings/process_options.h"
#include "tenon/spawn/settings/start_method.h"

namespace tenon::cuda_ipc {
namespace {

using spawn::StartMethod;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kCount = 1000;

Deadline Soon() { return Deadline::After(absl::Seconds(60)); }

absl::StatusOr<Tensor> Filled(int64_t value) {
  TENON_ASSIGN_OR_RETURN(Tensor tensor,
                         Tensor::Create(kDtypeOf<int64_t>, {kCount}));
  TENON_RETURN_IF_ERROR(tensor.Fill(value));
  return tensor;
}

absl::Status CheckFilled(const Tensor& tensor, int64_t value) {
  TENON_ASSIGN_OR_RETURN(const Tensor here, tensor.ToCpu());
  TENON_ASSIGN_OR_RETURN(const auto data, here.data<const int64_t>());
  for (const int64_t element : data) {
    if (element == value) continue;
    return absl::DataLossError(
        absl::StrCat("an element is ", element, ", not ", value));
  }
  return absl::OkStatus();
}

// In the child: its argument has 7s, and then 8s.
absl::Status CountOnDevice(int, Tensor tensor) {
  if (tensor.is_on_cpu()) return absl::InternalError("it is on the CPU");
  TENON_RETURN_IF_ERROR(CheckFilled(tensor, 7));
  TENON_ASSIGN_OR_RETURN(const Tensor eights, Filled(8));
  return tensor.CopyFrom(eights);
}
TENON_SPAWN_FUNCTION(CountOnDevice);

// Passes it on to a child of its own, unless it is the last.
absl::Status TakeLent(int, int generations, Tensor tensor) {
  if (tensor.is_on_cpu()) return absl::InternalError("it is on the CPU");
  TENON_RETURN_IF_ERROR(CheckFilled(tensor, 7));
  if (generations == 1) {
    TENON_ASSIGN_OR_RETURN(const Tensor eights, Filled(8));
    return tensor.CopyFrom(eights);
  }
  TENON_ASSIGN_OR_RETURN(
      spawn::Process child,
      spawn::StartProcess("TakeLent", {.method = StartMethod::kSpawn},
                          generations - 1, tensor));
  return child.Join(Soon());
}
TENON_SPAWN_FUNCTION(TakeLent);

// Passes them on to a child of its own, unless it is the last.
absl::Status TakeMixed(int, int generations, Tensor here, Tensor there,
                       Tensor view) {
  TENON_RETURN_IF_ERROR(CheckMixed({here, there, view}, 7));
  if (generations == 1) {
    TENON_ASSIGN_OR_RETURN(const Tensor nines, Filled(9));
    return there.CopyFrom(nines);
  }
  TENON_ASSIGN_OR_RETURN(
      spawn::Process child,
      spawn::StartProcess("TakeMixed", {.method = StartMethod::kSpawn},
                          generations - 1, here, there, view));
  return child.Join(Soon());
}
TENON_SPAWN_FUNCTION(TakeMixed);

// In memory of a worker.
absl::StatusOr<std::vector<Tensor>> MakeMixedHere(int64_t value) {
  static const auto* const arena =
      new absl::StatusOr<std::shared_ptr<Arena>>(Arena::Create({}));
  static const auto* const pool =
      new absl::StatusOr<std::shared_ptr<DevicePool>>(DevicePool::Create(0));
  TENON_RETURN_IF_ERROR(arena->status());
  TENON_RETURN_IF_ERROR(pool->status());
  return MakeMixed(***arena, ***pool, value);
}
TENON_POOL_FUNCTION(MakeMixedHere);
absl::StatusOr<std::vector<Tensor>> GiveBackMixed(Tensor here, Tensor there,
                                                  Tensor view) {
  std::vector<Tensor> tensors = {here, there, view};
  TENON_RETURN_IF_ERROR(CheckMixed(tensors, 7));
  return tensors;
}
TENON_POOL_FUNCTION(GiveBackMixed);

absl::Status LoadCuda(spawn::Child&) { return GetDriver().status(); }
TENON_SPAWN_ENTRY("load-cuda", LoadCuda);
absl::Status DoNothing(int) { return absl::OkStatus(); }
TENON_SPAWN_FUNCTION(DoNothing);

class DeviceSpawnTest : public ::testing::Test {
 protected:
  // Once for the process, since CUDA is initialized once.
  static FakeDriver& Fake() {
    static auto* const fake = new FakeDriver;
    return *fake;
  }
  void SetUp() override {
    if (!UsesMachineDriver()) {
      Fake().SetEnvironment();
      return;
    }
    const absl::Status found = GetDriver().status();
    if (!found.ok()) GTEST_SKIP() << found;
  }

  static std::shared_ptr<DevicePool> Pool() {
    static const auto* const pool =
        new absl::StatusOr<std::shared_ptr<DevicePool>>(DevicePool::Create(0));
    EXPECT_THAT(*pool, IsOk());
    return **pool;
  }
  static Tensor Sevens() {
    absl::StatusOr<Tensor> tensor =
        Pool()->CreateTensor(kDtypeOf<int64_t>, {kCount}, Soon());
    EXPECT_THAT(tensor, IsOk());
    EXPECT_THAT(tensor->CopyFrom(Filled(7).value()), IsOk());
    return *std::move(tensor);
  }
};

TEST_F(DeviceSpawnTest, ADeviceTensorIsAnArgumentOfASpawnedChild) {
  const Tensor tensor = Sevens();
  TENON_ASSERT_OK_AND_ASSIGN(
      spawn::Process child,
      spawn::StartProcess("CountOnDevice", {.method = StartMethod::kSpawn},
                          tensor));
  EXPECT_THAT(child.Join(Soon()), IsOk());
  EXPECT_THAT(CheckFilled(tensor, 8), IsOk());
}

// In memory that another library lends.
TEST_F(DeviceSpawnTest, ALentTensorIsAnArgumentOfAGrandchild) {
  std::atomic<bool> freed = false;
  {
    TENON_ASSERT_OK_AND_ASSIGN(
        const LibraryMemory memory,
        LibraryMemory::Create(2 * kCount * sizeof(int64_t),
                              [&] { freed = true; }));
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor,
                               memory.Numbers(kCount / 2, kCount));
    ASSERT_THAT(tensor.CopyFrom(Filled(7).value()), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(
        spawn::Process child,
        spawn::StartProcess("TakeLent", {.method = StartMethod::kSpawn}, 2,
                            tensor));
    EXPECT_THAT(child.Join(Soon()), IsOk());
    EXPECT_THAT(CheckFilled(tensor, 8), IsOk());
  }
  // The children are gone.
  const absl::Time end = absl::Now() + absl::Seconds(60);
  while (!freed && absl::Now() < end) absl::SleepFor(absl::Milliseconds(5));
  EXPECT_TRUE(freed);
}

TEST_F(DeviceSpawnTest, MixedArgumentsArePassedOnToAGrandchild) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto arena, Arena::Create({}));
  TENON_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> sent,
                             MakeMixed(*arena, *Pool(), 7));
  TENON_ASSERT_OK_AND_ASSIGN(
      spawn::Process child,
      spawn::StartProcess("TakeMixed", {.method = StartMethod::kSpawn}, 3,
                          sent[0], sent[1], sent[2]));
  EXPECT_THAT(child.Join(Soon()), IsOk());
  // The last of three generations has written there.
  EXPECT_THAT(CheckFilled(sent[1], 9), IsOk());
}

TEST_F(DeviceSpawnTest, MixedResultsOfAPoolOutliveItsWorkers) {
  std::vector<Tensor> own, back;
  {
    TENON_ASSERT_OK_AND_ASSIGN(const spawn::ProcessPool workers,
                               spawn::ProcessPool::Create({.workers = 2}));
    TENON_ASSERT_OK_AND_ASSIGN(
        own, futures::Get(workers.Submit(MakeMixedHere, int64_t{7})));
    EXPECT_THAT(CheckMixed(own, 7), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(
        back,
        futures::Get(workers.Submit(GiveBackMixed, own[0], own[1], own[2])));
    EXPECT_EQ(own[1].storage(), back[1].storage());
  }
  EXPECT_THAT(CheckMixed(own, 7), IsOk());
  EXPECT_THAT(CheckMixed(back, 7), IsOk());
}

TEST_F(DeviceSpawnTest, ForkIsRefusedOnceCudaHasBeenInitialized) {
  const Tensor tensor = Sevens();
  for (const bool fork_with_threads : {false, true}) {
    EXPECT_THAT(
        spawn::StartProcess("CountOnDevice",
                            {.method = StartMethod::kFork,
                             .fork_with_threads = fork_with_threads},
                            tensor),
        StatusIs(absl::StatusCode::kFailedPrecondition,
                 AllOf(HasSubstr("CUDA has been initialized in this process"),
                       HasSubstr("use StartMethod::kSpawn"))));
  }
}

// A raw fork() cannot be refused.
TEST_F(DeviceSpawnTest, AChildOfAPlainForkIsToldWhyItCannotUseCuda) {
  const Tensor tensor = Sevens();
  const pid_t child = fork();
  if (child == 0) {
    const auto is_told = StatusIs(absl::StatusCode::kFailedPrecondition,
                                  HasSubstr("StartMethod::kSpawn"));
    EXPECT_THAT(GetDriver(), is_told);
    EXPECT_THAT(DevicePool::Create(0), is_told);
    EXPECT_FALSE(tensor.ToCpu().ok());
    EXPECT_FALSE(
        Pool()->CreateTensor(kDtypeOf<int64_t>, {kCount}, Soon()).ok());
    _exit(HasFailure() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(CheckFilled(tensor, 7), IsOk());
}

TEST_F(DeviceSpawnTest, AForkServerThatHasInitializedCudaStartsNoChildren) {
  ASSERT_THAT(spawn::StartForkServer({.preload = {"load-cuda"}}), IsOk());
  EXPECT_THAT(
      spawn::StartProcess("DoNothing", {.method = StartMethod::kForkServer}),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("the fork server cannot start children"),
                     HasSubstr("CUDA has been initialized"))));
  spawn::StopForkServer();
}

// A fork server that has not is as good as kSpawn.
TEST_F(DeviceSpawnTest, AChildOfAForkServerInitializesCudaItself) {
  const Tensor tensor = Sevens();
  TENON_ASSERT_OK_AND_ASSIGN(
      spawn::Process child,
      spawn::StartProcess("CountOnDevice", {.method = StartMethod::kForkServer},
                          tensor));
  EXPECT_THAT(child.Join(Soon()), IsOk());
  EXPECT_THAT(CheckFilled(tensor, 8), IsOk());
  spawn::StopForkServer();
}

}  // namespace
}  // namespace tenon::cuda_ipc

int main(int argc, char** argv) {
  tenon::spawn::Init(argc, argv);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

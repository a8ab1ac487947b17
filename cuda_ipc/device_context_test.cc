// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/device_context.h"

#include <stdlib.h>

#include <array>
#include <cstdint>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/device_testing.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::cuda_ipc {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

using DeviceContextTest = DeviceTest;

TEST_F(DeviceContextTest, RunNeedsNoContextAndChangesNone) {
  CUdevice device = -1;
  const auto ask = [&] {
    return other_->Run([&] {
      return other_->Error(d_.cuCtxGetDevice(&device), "cuCtxGetDevice");
    });
  };
  std::thread([&] {
    EXPECT_THAT(ask(), IsOk());
    EXPECT_EQ(device, 1);
    CUcontext current = nullptr;
    EXPECT_EQ(d_.cuCtxGetCurrent(&current), CUDA_SUCCESS);
    EXPECT_EQ(current, nullptr);
  }).join();
  // A caller's own context stays current.
  ASSERT_EQ(d_.cuCtxPushCurrent_v2(gpu_->context()), CUDA_SUCCESS);
  device = -1;
  EXPECT_THAT(ask(), IsOk());
  EXPECT_EQ(device, 1);
  CUcontext current = nullptr;
  EXPECT_EQ(d_.cuCtxPopCurrent_v2(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, gpu_->context());
}

TEST_F(DeviceContextTest, AContextIsRetainedOnceAndNeverReleased) {
  EXPECT_EQ(Get(0), gpu_);
  devices_.reset();
  EXPECT_EQ(fake_.Calls("cuDevicePrimaryCtxRetain"), 2);
  EXPECT_EQ(fake_.Calls("cuDevicePrimaryCtxRelease_v2"), 0);
  EXPECT_THAT(fake_.Leaks(),
              Contains("primary context of device 0, retained 1 times"));
}

TEST_F(DeviceContextTest, AnErrorOfTheBodyIsReturnedAndTheContextPopped) {
  EXPECT_THAT(gpu_->Run([] { return absl::AbortedError("stop"); }),
              StatusIs(absl::StatusCode::kAborted, "stop"));
  EXPECT_THAT(Held(), HasSubstr("no context"));
}

TEST_F(DeviceContextTest, EachCallThatFailsIsAnErrorAndNoContextIsLeft) {
  FailEachCall({"cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2"},
               [&] { return gpu_->Run([] { return absl::OkStatus(); }); });
}

TEST_F(DeviceContextTest, AContextThatCannotBeRetainedIsAnErrorThatMayPass) {
  fake_.Reset("");
  TENON_ASSERT_OK_AND_ASSIGN(d_, LoadDriver(fake_.path()));
  TENON_ASSERT_OK_AND_ASSIGN(devices_, DeviceContexts::Create(d_));
  for (const CUresult error :
       fake_.DocumentedErrors("cuDevicePrimaryCtxRetain")) {
    fake_.Fail("cuDevicePrimaryCtxRetain", 1, error);
    EXPECT_FALSE(devices_->Get(0).ok());
    EXPECT_EQ(fake_.Leaks().size(), 0);
  }
  EXPECT_THAT(devices_->Get(0), IsOk());
  gpu_ = Get(0);
  for (const CUresult error : fake_.DocumentedErrors("cuStreamCreate")) {
    fake_.Fail("cuStreamCreate", 1, error);
    EXPECT_FALSE(gpu_->Run([&] { return gpu_->CopyStream(); }).ok());
    EXPECT_EQ(fake_.Leaks().size(), 1);
  }
}

TEST_F(DeviceContextTest, ADeviceIsFoundByItsUuidWhateverItsOrdinal) {
  const std::array<uint8_t, 16> uuid = other_->device().uuid;
  setenv("CUDA_VISIBLE_DEVICES", "1,0", 1);
  Start("");
  unsetenv("CUDA_VISIBLE_DEVICES");
  TENON_ASSERT_OK_AND_ASSIGN(const DeviceContext* found, devices_->Find(uuid));
  EXPECT_EQ(found->device().ordinal, 0);
  EXPECT_EQ(found, Get(0));
}

TEST_F(DeviceContextTest, ADeviceThatIsNotVisibleIsNamedWithThoseThatAre) {
  EXPECT_THAT(devices_->Find({0xab}),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("ab000000-0000-0000-0000-000000000000"),
                             HasSubstr("this process sees 0: "),
                             HasSubstr("CUDA_VISIBLE_DEVICES"))));
  EXPECT_THAT(devices_->Get(2),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no device 2")));
  EXPECT_THAT(devices_->Get(-1), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(DeviceContextTest, AForkedChildIsToldToStartByExec) {
  EXPECT_TRUE(PassesInChild(
      [&] {
        const auto is_refused = StatusIs(absl::StatusCode::kFailedPrecondition,
                                         HasSubstr("StartMethod::kSpawn"));
        EXPECT_THAT(devices_->Get(0), is_refused);
        EXPECT_THAT(gpu_->Run([] { return absl::OkStatus(); }), is_refused);
      },
      /*may_have_threads=*/true));
}

}  // namespace
}  // namespace tenon::cuda_ipc

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/devices.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cuda.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/driver.h"
#include "tenon/cuda_ipc/fake_cuda.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::cuda_ipc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class DevicesTest : public ::testing::Test {
 protected:
  const std::string path_ = FakeCudaPath("libfake_cuda.so");
  FakeCuda& fake_ = ResetFakeCuda(path_);
  const absl::StatusOr<DriverTable> driver_ = LoadDriver(path_);
};

TEST_F(DevicesTest, ListsWhatThereIsInOrder) {
  ASSERT_THAT(driver_, IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const std::vector<Device> devices,
                             ListDevices(*driver_));
  ASSERT_THAT(devices, SizeIs(2));
  EXPECT_EQ(devices[0].ordinal, 0);
  EXPECT_EQ(devices[0].name, "Fake One");
  EXPECT_EQ(devices[0].total_bytes, 80ull << 30);
  EXPECT_EQ(UuidText(devices[0].uuid), "01234567-89ab-cdef-fedc-ba9876543210");
  EXPECT_EQ(devices[1].ordinal, 1);
  EXPECT_EQ(devices[1].name, "Fake Two");
  EXPECT_EQ(devices[1].total_bytes, 1u);
  EXPECT_EQ(UuidText(devices[1].uuid), "ff000000-0000-0000-0000-000000000000");
}

TEST_F(DevicesTest, ANameThatFillsTheBufferEnds) {
  ASSERT_THAT(driver_, IsOk());
  const std::string name(1'000, 'x');
  fake_.devices[0].name = name.c_str();
  TENON_ASSERT_OK_AND_ASSIGN(const std::vector<Device> devices,
                             ListDevices(*driver_));
  EXPECT_EQ(devices[0].name, std::string(256, 'x'));
}

TEST_F(DevicesTest, NoDeviceLeftIsAnEmptyList) {
  ASSERT_THAT(driver_, IsOk());
  fake_.device_count = 0;
  EXPECT_THAT(ListDevices(*driver_), IsOkAndHolds(SizeIs(0)));
}

class DevicesFailureTest : public DevicesTest,
                           public ::testing::WithParamInterface<const char*> {};

TEST_P(DevicesFailureTest, NamesTheCallAndTheDevice) {
  ASSERT_THAT(driver_, IsOk());
  fake_.failing_call = GetParam();
  fake_.failing_device = 1;
  fake_.failure = CUDA_ERROR_OUT_OF_MEMORY;
  EXPECT_THAT(ListDevices(*driver_),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr(GetParam()), HasSubstr("(device 1)"))));
}

INSTANTIATE_TEST_SUITE_P(AllCalls, DevicesFailureTest,
                         ::testing::Values("cuDeviceGet", "cuDeviceGetName",
                                           "cuDeviceTotalMem",
                                           "cuDeviceGetUuid"),
                         [](const auto& test) { return test.param; });

TEST_F(DevicesTest, ADriverThatCannotCountIsAnError) {
  ASSERT_THAT(driver_, IsOk());
  fake_.failing_call = "cuDeviceGetCount";
  fake_.failure = CUDA_ERROR_NOT_INITIALIZED;
  EXPECT_THAT(ListDevices(*driver_),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("cuDeviceGetCount")));
}

}  // namespace
}  // namespace tenon::cuda_ipc

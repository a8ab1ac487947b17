// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/devices.h"

#include <stdlib.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/driver.h"
#include "tenon/cuda_ipc/fake/fake_driver.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::cuda_ipc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class DevicesTest : public ::testing::Test {
 protected:
  void Load(const std::string& settings) {
    fake_.Reset(settings);
    ASSERT_THAT(LoadDriver(fake_.path()), IsOk());
  }

  FakeDriver fake_;
  const absl::StatusOr<DriverTable> driver_ = LoadDriver(fake_.path());
};

TEST_F(DevicesTest, ListsWhatThereIsInOrder) {
  Load(
      "devices=2 name0=One uuid0=0123456789abcdeffedcba9876543210 "
      "name1=Two memory1=1 uuid1=ff000000000000000000000000000000");
  TENON_ASSERT_OK_AND_ASSIGN(const std::vector<Device> devices,
                             ListDevices(*driver_));
  ASSERT_THAT(devices, SizeIs(2));
  EXPECT_EQ(devices[0].ordinal, 0);
  EXPECT_EQ(devices[0].name, "One");
  EXPECT_EQ(devices[0].total_bytes, uint64_t{80} << 30);
  EXPECT_EQ(UuidText(devices[0].uuid), "01234567-89ab-cdef-fedc-ba9876543210");
  EXPECT_EQ(devices[1].ordinal, 1);
  EXPECT_EQ(devices[1].name, "Two");
  EXPECT_EQ(devices[1].total_bytes, 1u);
  EXPECT_EQ(UuidText(devices[1].uuid), "ff000000-0000-0000-0000-000000000000");
}

TEST_F(DevicesTest, TheSameDeviceHasAnotherOrdinalInAnotherProcess) {
  setenv("CUDA_VISIBLE_DEVICES", "2,0", 1);
  Load("devices=3");
  unsetenv("CUDA_VISIBLE_DEVICES");
  TENON_ASSERT_OK_AND_ASSIGN(const std::vector<Device> devices,
                             ListDevices(*driver_));
  ASSERT_THAT(devices, SizeIs(2));
  EXPECT_EQ(devices[0].uuid[15], 2);
  EXPECT_EQ(devices[1].uuid[15], 0);
}

TEST_F(DevicesTest, ANameThatFillsTheBufferEnds) {
  Load("name0=" + std::string(1'000, 'x'));
  TENON_ASSERT_OK_AND_ASSIGN(const std::vector<Device> devices,
                             ListDevices(*driver_));
  EXPECT_EQ(devices[0].name, std::string(256, 'x'));
}

TEST_F(DevicesTest, ADriverWithoutDevicesHasAnEmptyList) {
  fake_.Reset("devices=0");
  ASSERT_EQ(driver_->cuInit(0), CUDA_SUCCESS);
  EXPECT_THAT(ListDevices(*driver_), IsOkAndHolds(SizeIs(0)));
}

class DevicesFailureTest : public DevicesTest,
                           public ::testing::WithParamInterface<const char*> {};

TEST_P(DevicesFailureTest, NamesTheCallAndTheDevice) {
  ASSERT_THAT(driver_, IsOk());
  fake_.Fail(GetParam(), 2, CUDA_ERROR_OUT_OF_MEMORY);
  const std::string entry = GetParam();
  EXPECT_THAT(ListDevices(*driver_),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr(entry.substr(0, entry.find('_'))),
                             HasSubstr("(device 1)"))));
}

INSTANTIATE_TEST_SUITE_P(AllCalls, DevicesFailureTest,
                         ::testing::Values("cuDeviceGet", "cuDeviceGetName",
                                           "cuDeviceTotalMem_v2",
                                           "cuDeviceGetUuid_v2"),
                         [](const auto& test) { return test.param; });

TEST_F(DevicesTest, ADriverThatCannotCountIsAnError) {
  ASSERT_THAT(driver_, IsOk());
  fake_.Fail("cuDeviceGetCount", 1, CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_THAT(ListDevices(*driver_),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("cuDeviceGetCount")));
}

TEST_F(DevicesTest, AFeatureIsOfTheDeviceAndNotOnlyOfTheDriver) {
  Load("attribute1=102:0");
  EXPECT_THAT(CheckFeature(*driver_, 0, DriverFeature::kVirtualMemory), IsOk());
  EXPECT_THAT(
      CheckFeature(*driver_, 1, DriverFeature::kVirtualMemory),
      StatusIs(absl::StatusCode::kUnimplemented,
               "device 1 does not support virtual memory: its attribute 102 "
               "is 0"));
  Load("attribute=103:0");
  EXPECT_THAT(CheckFeature(*driver_, 0, DriverFeature::kVirtualMemory),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("103")));
  Load("attribute=125:0 attribute=99:0 attribute1=41:0");
  EXPECT_THAT(CheckFeature(*driver_, 0, DriverFeature::kIpcEvents),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("125")));
  EXPECT_THAT(CheckFeature(*driver_, 0, DriverFeature::kHostRegister),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("99")));
  EXPECT_THAT(CheckFeature(*driver_, 0, DriverFeature::kLegacyIpc), IsOk());
  EXPECT_THAT(CheckFeature(*driver_, 1, DriverFeature::kLegacyIpc),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("41")));
  EXPECT_THAT(CheckFeature(*driver_, 0, DriverFeature::kStreamMemoryOps),
              IsOk());
}

TEST_F(DevicesTest, AnAttributeThatTheDriverDoesNotKnowIsAnOldDriver) {
  Load("attribute=125:none");
  EXPECT_THAT(CheckFeature(*driver_, 0, DriverFeature::kIpcEvents),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("does not know attribute 125")));
}

TEST_F(DevicesTest, AFeatureOfADeviceThatIsNotThereIsInvalid) {
  Load("");
  EXPECT_THAT(CheckFeature(*driver_, 2, DriverFeature::kHostRegister),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("cuDeviceGet(device 2)")));
  fake_.Fail("cuDeviceGetAttribute", 1, CUDA_ERROR_UNKNOWN);
  EXPECT_THAT(CheckFeature(*driver_, 0, DriverFeature::kHostRegister),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("cuDeviceGetAttribute(device 0)")));
}

}  // namespace
}  // namespace tenon::cuda_ipc

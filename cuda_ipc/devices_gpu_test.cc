// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Tests with the real driver. Skipped, with the reason, without a GPU.

#include <array>
#include <cstdint>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/devices.h"
#include "tenon/cuda_ipc/driver.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::cuda_ipc {
namespace {

using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

TEST(DevicesGpuTest, EveryDeviceSaysWhatItIs) {
  const absl::StatusOr<const DriverTable*> driver = GetDriver();
  if (!driver.ok()) GTEST_SKIP() << driver.status();
  int count = 0;
  ASSERT_EQ((*driver)->cuDeviceGetCount(&count), CUDA_SUCCESS);
  TENON_ASSERT_OK_AND_ASSIGN(const std::vector<Device> devices,
                             ListDevices(**driver));
  ASSERT_THAT(devices, SizeIs(count));
  std::set<std::array<uint8_t, 16>> uuids;
  for (int i = 0; i < count; ++i) {
    EXPECT_EQ(devices[i].ordinal, i);
    EXPECT_THAT(devices[i].name, Not(IsEmpty()));
    // Any GPU that this driver supports has at least one GiB.
    EXPECT_GE(devices[i].total_bytes, uint64_t{1} << 30);
    EXPECT_THAT(devices[i].uuid, Not(Each(0)));
    uuids.insert(devices[i].uuid);
  }
  EXPECT_THAT(uuids, SizeIs(count));
}

TEST(DevicesGpuTest, TheDriverHasWordsForItsErrors) {
  const absl::StatusOr<const DriverTable*> driver = GetDriver();
  if (!driver.ok()) GTEST_SKIP() << driver.status();
  CUdevice device;
  EXPECT_THAT(CudaError(**driver, (*driver)->cuDeviceGet(&device, 1'000'000),
                        "cuDeviceGet", "device 1000000"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "cuDeviceGet(device 1000000): invalid device ordinal "
                       "[CUDA_ERROR_INVALID_DEVICE]"));
}

}  // namespace
}  // namespace tenon::cuda_ipc

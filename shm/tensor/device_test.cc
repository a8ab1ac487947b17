// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/tensor/device.h"

#include <cstdint>
#include <cstring>
#include <limits>

#include "dlpack/dlpack.h"
#include "gtest/gtest.h"

namespace tenon {
namespace {

DLDevice OfType(int32_t type, int id) {
  DLDevice device = {kDLCPU, id};
  std::memcpy(&device.device_type, &type, sizeof(type));
  return device;
}

TEST(DeviceTest, Names) {
  EXPECT_EQ(DeviceName(kCpuDevice), "cpu");
  EXPECT_EQ(DeviceName({kDLCUDA, 0}), "cuda:0");
  EXPECT_EQ(DeviceName({kDLCUDA, 7}), "cuda:7");
  EXPECT_EQ(DeviceName({kDLCUDAHost, 0}), "cuda_host");
  EXPECT_EQ(DeviceName({kDLExtDev, 3}), "device type 12 (number 3)");
  EXPECT_EQ(DeviceName(OfType(-1, -2)), "device type -1 (number -2)");
}

TEST(DeviceTest, TypeAndNumberMakeTheSameDevice) {
  EXPECT_TRUE(SameDevice(kCpuDevice, {kDLCPU, 0}));
  EXPECT_TRUE(SameDevice({kDLCUDA, 1}, {kDLCUDA, 1}));
  EXPECT_FALSE(SameDevice({kDLCUDA, 1}, {kDLCUDA, 0}));
  EXPECT_FALSE(SameDevice({kDLCUDA, 0}, kCpuDevice));
}

TEST(DeviceTest, PinnedMemoryIsTheCpus) {
  EXPECT_TRUE(IsOnCpu(kCpuDevice));
  EXPECT_TRUE(IsOnCpu({kDLCUDAHost, 0}));
  EXPECT_FALSE(IsOnCpu({kDLCUDA, 0}));
  EXPECT_FALSE(IsOnCpu({kDLCUDAManaged, 0}));
}

// UBSan ends this test where such a type is read as an enum.
TEST(DeviceTest, AnyTypeIsANumber) {
  for (const int32_t type : {-1, 0, 1000, std::numeric_limits<int32_t>::max(),
                             std::numeric_limits<int32_t>::min()}) {
    EXPECT_EQ(DeviceType(OfType(type, 0)), type);
    EXPECT_FALSE(IsOnCpu(OfType(type, 0)));
  }
}

}  // namespace
}  // namespace tenon

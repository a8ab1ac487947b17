// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// FakeDriverTest: a test with a fake driver and a current context of device 0.

#ifndef TENON_CUDA_IPC_FAKE_FAKE_TESTING_H_
#define TENON_CUDA_IPC_FAKE_FAKE_TESTING_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/driver.h"
#include "tenon/cuda_ipc/fake/fake_driver.h"

namespace tenon::cuda_ipc {

inline constexpr size_t kPage = size_t{2} << 20;  // The fake's granularity.

class FakeDriverTest : public ::testing::Test {
 protected:
  void SetUp() override { Start(""); }

  // Resets the fake; begins again, with device 0 current.
  void Start(const std::string& settings) {
    fake_.Reset(settings);
    absl::StatusOr<DriverTable> driver = LoadDriver(fake_.path());
    ASSERT_TRUE(driver.ok()) << driver.status();
    d_ = *driver;
    context_ = Push(0);
  }

  CUcontext Push(int device) {
    CUcontext context = nullptr;
    EXPECT_EQ(d_.cuDevicePrimaryCtxRetain(&context, device), CUDA_SUCCESS);
    EXPECT_EQ(d_.cuCtxPushCurrent_v2(context), CUDA_SUCCESS);
    return context;
  }

  static CUmemAllocationProp Properties(int device = 0) {
    return {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
            .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
  }

  CUmemGenericAllocationHandle Create(size_t bytes, int device = 0) {
    const CUmemAllocationProp properties = Properties(device);
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(d_.cuMemCreate(&handle, bytes, &properties, 0), CUDA_SUCCESS);
    return handle;
  }

  CUdeviceptr Reserve(size_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_EQ(d_.cuMemAddressReserve(&address, bytes, 0, 0, 0), CUDA_SUCCESS);
    return address;
  }

  CUresult SetAccess(CUdeviceptr address, size_t bytes, CUmemAccess_flags flags,
                     int device = 0) {
    const CUmemAccessDesc access = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
        .flags = flags};
    return d_.cuMemSetAccess(address, bytes, &access, 1);
  }

  // Reserved, mapped and readable and writable by device 0.
  CUdeviceptr Map(CUmemGenericAllocationHandle handle, size_t bytes) {
    const CUdeviceptr address = Reserve(bytes);
    EXPECT_EQ(d_.cuMemMap(address, bytes, 0, handle, 0), CUDA_SUCCESS);
    EXPECT_EQ(SetAccess(address, bytes, CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
              CUDA_SUCCESS);
    return address;
  }

  CUdeviceptr Allocate(size_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_EQ(d_.cuMemAlloc_v2(&address, bytes), CUDA_SUCCESS);
    return address;
  }

  CUstream CreateStream() {
    CUstream stream = nullptr;
    EXPECT_EQ(d_.cuStreamCreate(&stream, kCuStreamNonBlocking), CUDA_SUCCESS);
    return stream;
  }

  CUresult Write(CUdeviceptr address, uint32_t value) {
    return d_.cuMemcpyHtoD_v2(address, &value, sizeof(value));
  }

  uint32_t Read(CUdeviceptr address) {
    uint32_t value = 0;
    EXPECT_EQ(d_.cuMemcpyDtoH_v2(&value, address, sizeof(value)), CUDA_SUCCESS);
    return value;
  }

  FakeDriver fake_;
  DriverTable d_ = {};
  CUcontext context_ = nullptr;
};

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_FAKE_FAKE_TESTING_H_

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/device_copy.h"

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/device_allocation.h"
#include "tenon/cuda_ipc/device_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::cuda_ipc {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr size_t kBytes = 300'000;

class DeviceCopyTest : public DeviceTest {
 protected:
  DeviceCopyTest() { std::iota(bytes_.begin(), bytes_.end(), uint8_t{1}); }

  DeviceAllocation Memory(const DeviceContext* device) {
    absl::StatusOr<DeviceAllocation> memory =
        DeviceAllocation::Create(*device, kPage);
    EXPECT_THAT(memory, IsOk());
    return *std::move(memory);
  }
  std::span<std::byte> Bytes() {
    return std::as_writable_bytes(std::span(bytes_));
  }
  std::vector<uint8_t> Read(const DeviceAllocation& memory) {
    std::vector<uint8_t> bytes(kBytes);
    EXPECT_THAT(
        CopyToHost(memory.device(), std::as_writable_bytes(std::span(bytes)),
                   memory.address()),
        IsOk());
    return bytes;
  }

  std::vector<uint8_t> bytes_ = std::vector<uint8_t>(kBytes);
};

// With each operation of a stream delayed: a missing wait is wrong bytes.
TEST_F(DeviceCopyTest, CopiesAreDoneWhenTheyReturn) {
  Start("delay_us=5000");
  const DeviceAllocation memory = Memory(gpu_);
  const DeviceAllocation second = Memory(gpu_);
  const DeviceAllocation far = Memory(other_);
  ASSERT_THAT(CopyToDevice(*gpu_, memory.address(), Bytes()), IsOk());
  EXPECT_EQ(Read(memory), bytes_);
  ASSERT_THAT(CopyBetweenDevices(*gpu_, second.address(), *gpu_,
                                 memory.address(), kBytes),
              IsOk());
  EXPECT_EQ(Read(second), bytes_);
  ASSERT_THAT(CopyBetweenDevices(*other_, far.address(), *gpu_,
                                 memory.address(), kBytes),
              IsOk());
  EXPECT_EQ(Read(far), bytes_);
  ASSERT_THAT(FillDevice(*gpu_, memory.address(), 0x5a, kBytes), IsOk());
  EXPECT_THAT(Read(memory), Each(0x5a));
  EXPECT_EQ(Read(far), bytes_);
}

TEST_F(DeviceCopyTest, TheOwnStreamIsMadeOnceAndNoOtherIsWaitedFor) {
  const DeviceAllocation memory = Memory(gpu_);
  // A stream of the user that never gets on.
  ASSERT_EQ(d_.cuCtxPushCurrent_v2(gpu_->context()), CUDA_SUCCESS);
  CUstream stuck = nullptr;
  ASSERT_EQ(d_.cuStreamCreate(&stuck, kCuStreamNonBlocking), CUDA_SUCCESS);
  ASSERT_THAT(FillDevice(*gpu_, memory.address(), 0, 4), IsOk());
  ASSERT_EQ(d_.cuStreamWaitValue32_v2(stuck, memory.address(), 1,
                                      kCuStreamWaitValueEq),
            CUDA_SUCCESS);
  const uint64_t made = fake_.Calls("cuStreamCreate");
  ASSERT_THAT(CopyToDevice(*gpu_, memory.address() + 64, Bytes().first(100)),
              IsOk());
  EXPECT_EQ(d_.cuStreamQuery(stuck), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(fake_.Calls("cuStreamCreate"), made);
  EXPECT_EQ(fake_.Calls("cuCtxSynchronize"), 0);
  ASSERT_THAT(FillDevice(*gpu_, memory.address(), 1, 1), IsOk());
  EXPECT_EQ(d_.cuStreamSynchronize(stuck), CUDA_SUCCESS);
  CUcontext current = nullptr;
  EXPECT_EQ(d_.cuCtxPopCurrent_v2(&current), CUDA_SUCCESS);
}

TEST_F(DeviceCopyTest, ThreadsCopyAtTheSameTime) {
  Start("delay_us=200");
  const DeviceAllocation memory = Memory(gpu_);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const CUdeviceptr mine = memory.address() + 4096 * i;
      for (uint32_t round = 0; round < 20; ++round) {
        uint32_t read = ~round;
        EXPECT_THAT(
            CopyToDevice(*gpu_, mine, std::as_bytes(std::span(&round, 1))),
            IsOk());
        EXPECT_THAT(
            CopyToHost(*gpu_, std::as_writable_bytes(std::span(&read, 1)),
                       mine),
            IsOk());
        EXPECT_EQ(read, round);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(DeviceCopyTest, NoBytesCostNoCall) {
  const uint64_t before = fake_.AllCalls();
  EXPECT_THAT(CopyToDevice(*gpu_, 0, {}), IsOk());
  EXPECT_THAT(FillDevice(*gpu_, 0, 0, 0), IsOk());
  EXPECT_EQ(fake_.AllCalls(), before);
}

TEST_F(DeviceCopyTest, AnAddressWithoutMemoryIsInvalid) {
  EXPECT_THAT(CopyToDevice(*gpu_, 4096, Bytes().first(1)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("cuMemcpyHtoDAsync(device 0)")));
}

TEST_F(DeviceCopyTest, EachCallThatFailsIsAnErrorAndNothingIsLost) {
  const DeviceAllocation memory = Memory(gpu_);
  const DeviceAllocation far = Memory(other_);
  const std::set<std::string> always = {
      "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuStreamSynchronize"};
  const auto with = [&](const std::string& entry) {
    std::set<std::string> entries = always;
    entries.insert(entry);
    return entries;
  };
  FailEachCall(with("cuMemcpyHtoDAsync_v2"), [&] {
    return CopyToDevice(*gpu_, memory.address(), Bytes().first(8));
  });
  FailEachCall(with("cuMemcpyDtoHAsync_v2"), [&] {
    return CopyToHost(*gpu_, Bytes().first(8), memory.address());
  });
  FailEachCall(with("cuMemcpyDtoDAsync_v2"), [&] {
    return CopyBetweenDevices(*gpu_, memory.address(), *gpu_,
                              memory.address() + 8, 8);
  });
  FailEachCall(with("cuMemcpyPeerAsync"), [&] {
    return CopyBetweenDevices(*gpu_, memory.address(), *other_, far.address(),
                              8);
  });
  FailEachCall(with("cuMemsetD8Async"),
               [&] { return FillDevice(*gpu_, memory.address(), 1, 8); });
}

}  // namespace
}  // namespace tenon::cuda_ipc

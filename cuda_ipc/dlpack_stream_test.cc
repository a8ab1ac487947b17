// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The streams of DLPack's consumers. Each case runs in a child, with a driver
// of its own.

#include "tenon/cuda_ipc/dlpack_stream.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/device_pool.h"
#include "tenon/cuda_ipc/device_process_testing.h"
#include "tenon/cuda_ipc/fence.h"
#include "tenon/cuda_ipc/fence_testing.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::cuda_ipc {
namespace {

class DLPackStreamTest : public DeviceProcessTest {};

// Of host functions, which may run until the child ends.
std::atomic<bool> opens_consumer = false;

TEST_F(DLPackStreamTest, WorkOfTheConsumersStreamFollowsTheFence) {
  RunAlone(
      [] {
        const TestDevice gpu;
        const auto pool = DevicePool::Create(0).value();
        const CUstream writer = gpu.MakeStream();
        const auto fences =
            StreamTimeline::Create(gpu.context(), writer).value();
        const auto own =
            static_cast<int64_t>(reinterpret_cast<uintptr_t>(gpu.MakeStream()));
        const Tensor from =
            pool->CreateTensor(kDtypeOf<uint8_t>, {4096}, Soon()).value();
        const Tensor to =
            pool->CreateTensor(kDtypeOf<uint8_t>, {4096}, Soon()).value();
        uint8_t value = 0;
        for (int i = 0; i < 20; ++i) {
          for (const std::optional<int64_t> number :
               {std::optional<int64_t>(), std::optional<int64_t>(1),
                std::optional<int64_t>(2), std::optional<int64_t>(own)}) {
            gpu.Fill(writer, from, ++value);
            TENON_ASSERT_OK_AND_ASSIGN(const Fence filled, fences->Record());
            ASSERT_THAT(OrderDLPackConsumer(from, filled, number), IsOk());
            const auto theirs = reinterpret_cast<CUstream>(
                static_cast<uintptr_t>(number.value_or(kCuStreamLegacy)));
            gpu.Copy(theirs, to, from);
            gpu.Synchronize(theirs);
            ASSERT_TRUE(gpu.Has(to, value)) << number.value_or(0);
          }
        }
      },
      "delay_us=1000");
}

TEST_F(DLPackStreamTest, WithoutOrderNoStreamWaits) {
  RunAlone([this] {
    const TestDevice gpu;
    const auto pool = DevicePool::Create(0).value();
    const CUstream writer = gpu.MakeStream();
    const auto fences = StreamTimeline::Create(gpu.context(), writer).value();
    const Tensor tensor =
        pool->CreateTensor(kDtypeOf<uint8_t>, {16}, Soon()).value();
    gpu.Close(writer, opens_consumer);
    TENON_ASSERT_OK_AND_ASSIGN(const Fence filled, fences->Record());
    const uint64_t before = Calls();
    EXPECT_THAT(OrderDLPackConsumer(tensor, filled, -1), IsOk());
    EXPECT_EQ(Calls(), before);
    EXPECT_FALSE(filled.IsReached());
    opens_consumer = true;
    ASSERT_THAT(filled.Wait(Soon()), IsOk());
  });
}

TEST_F(DLPackStreamTest, OtherNumbersAreRefused) {
  RunAlone([] {
    const TestDevice gpu;
    const auto pool = DevicePool::Create(0).value();
    const Tensor there =
        pool->CreateTensor(kDtypeOf<uint8_t>, {16}, Soon()).value();
    for (const int64_t number : {int64_t{0}, int64_t{-2}, INT64_MIN}) {
      EXPECT_THAT(OrderDLPackConsumer(there, Fence(), number),
                  StatusIs(absl::StatusCode::kInvalidArgument,
                           ::testing::HasSubstr("on cuda:0; want 1")));
    }
    const Tensor here = Tensor::Create(kDtypeOf<uint8_t>, {16}).value();
    EXPECT_THAT(OrderDLPackConsumer(here, Fence(), 1),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         ::testing::HasSubstr("the CPU has no streams")));
  });
}

TEST_F(DLPackStreamTest, AFenceOfATensorOfTheCpuMustBeReached) {
  RunAlone([] {
    const TestDevice gpu;
    const CUstream writer = gpu.MakeStream();
    const auto fences = StreamTimeline::Create(gpu.context(), writer).value();
    const Tensor here = Tensor::Create(kDtypeOf<uint8_t>, {16}).value();
    gpu.Close(writer, opens_consumer);
    TENON_ASSERT_OK_AND_ASSIGN(const Fence filled, fences->Record());
    EXPECT_THAT(OrderDLPackConsumer(here, filled, std::nullopt),
                StatusIs(absl::StatusCode::kUnavailable));
    opens_consumer = true;
    ASSERT_THAT(filled.Wait(Soon()), IsOk());
    EXPECT_THAT(OrderDLPackConsumer(here, filled, std::nullopt), IsOk());
    EXPECT_THAT(OrderDLPackConsumer(here, filled, -1), IsOk());
  });
}

}  // namespace
}  // namespace tenon::cuda_ipc

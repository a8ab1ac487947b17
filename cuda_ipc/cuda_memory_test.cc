// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/cuda_memory.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dlpack/dlpack.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/device_allocation.h"
#include "tenon/cuda_ipc/device_testing.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/device.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::cuda_ipc {
namespace {

using ::testing::HasSubstr;

constexpr DLDevice kGpu = {kDLCUDA, 0};
constexpr DLDevice kOther = {kDLCUDA, 1};

class CudaMemoryTest : public DeviceTest {
 protected:
  static constexpr size_t kCopied = 10'000;

  void SetUp() override {
    Begin("");
    std::iota(here_.begin(), here_.end(), uint8_t{1});
  }
  void Begin(const std::string& settings) {
    Start(settings);
    memory_ = std::make_unique<CudaMemory>(devices_.get());
  }
  // The driver's next reset finds nothing that a thread would unmap later.
  void TearDown() override { EXPECT_THAT(memory_->Trim(), IsOk()); }

  std::span<std::byte> Here() {
    return std::as_writable_bytes(std::span(here_));
  }

  // The first ones; a block may have more.
  static absl::StatusOr<std::span<std::byte>> BytesOf(const Storage& memory,
                                                      size_t size) {
    TENON_ASSIGN_OR_RETURN(std::byte* const first, memory.Address());
    return std::span(first, size);
  }

  // To a device, to another place of it, to another device, and back.
  absl::Status RoundTrip() {
    TENON_ASSIGN_OR_RETURN(const auto first, memory_->Allocate(kGpu, kCopied));
    TENON_ASSIGN_OR_RETURN(const auto second, memory_->Allocate(kGpu, kCopied));
    TENON_ASSIGN_OR_RETURN(const auto far, memory_->Allocate(kOther, kCopied));
    TENON_ASSIGN_OR_RETURN(const auto a, BytesOf(*first, kCopied));
    TENON_ASSIGN_OR_RETURN(const auto b, BytesOf(*second, kCopied));
    TENON_ASSIGN_OR_RETURN(const auto c, BytesOf(*far, kCopied));
    TENON_RETURN_IF_ERROR(memory_->Copy({kGpu, a}, {kCpuDevice, Here()}));
    TENON_RETURN_IF_ERROR(memory_->Copy({kGpu, b}, {kGpu, a}));
    TENON_RETURN_IF_ERROR(memory_->Copy({kOther, c}, {kGpu, b}));
    back_.assign(kCopied, 0);
    return memory_->Copy({kCpuDevice, std::as_writable_bytes(std::span(back_))},
                         {kOther, c});
  }

  std::unique_ptr<CudaMemory> memory_;
  std::vector<uint8_t> here_ = std::vector<uint8_t>(kCopied);
  std::vector<uint8_t> back_;
};

TEST_F(CudaMemoryTest, CopiesBetweenAllMemories) {
  ASSERT_THAT(RoundTrip(), IsOk());
  EXPECT_EQ(back_, here_);
  // What is kept for the next ones.
  EXPECT_EQ(fake_.HeldBytes(0) + fake_.HeldBytes(1), 2 * kPage);
  EXPECT_THAT(memory_->Trim(), IsOkAndHolds(2 * kPage));
  EXPECT_EQ(fake_.HeldBytes(0) + fake_.HeldBytes(1), 0u);
}

TEST_F(CudaMemoryTest, ACopyThatFailsLeavesNothing) {
  const auto copy = [&] {
    const absl::Status copied = RoundTrip();
    EXPECT_THAT(memory_->Trim(), IsOk());
    return copied;
  };
  ASSERT_THAT(copy(), IsOk());  // Creates the arenas.
  FailEachCall(
      {"cuMemcpyHtoDAsync_v2", "cuMemcpyDtoDAsync_v2", "cuMemcpyPeerAsync",
       "cuMemcpyDtoHAsync_v2", "cuStreamSynchronize"},
      copy);
}

TEST_F(CudaMemoryTest, NoDriverCallInTheSteadyState) {
  auto storage = memory_->Allocate(kGpu, 1);
  ASSERT_THAT(storage, IsOk());
  EXPECT_TRUE((*storage)->is_shared());
  EXPECT_TRUE((*storage)->writable());
  EXPECT_TRUE(SameDevice((*storage)->device(), kGpu));
  const uint64_t calls = fake_.AllCalls();
  for (int i = 0; i < 100; ++i) {
    storage->reset();
    storage = memory_->Allocate(kGpu, 1);
    ASSERT_THAT(storage, IsOk());
  }
  EXPECT_EQ(fake_.AllCalls(), calls);
}

TEST_F(CudaMemoryTest, MemoryOfOtherSizesIsUsedBeforeItFails) {
  Begin("memory=67108864");
  std::vector<std::shared_ptr<Storage>> all;
  absl::StatusOr<std::shared_ptr<Storage>> storage =
      memory_->Allocate(kGpu, 4 * kPage);
  for (; storage.ok() && all.size() < 100;
       storage = memory_->Allocate(kGpu, 4 * kPage)) {
    all.push_back(*std::move(storage));
  }
  EXPECT_THAT(storage, StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_GT(all.size(), 2u);
  all.clear();
  EXPECT_THAT(memory_->Allocate(kGpu, 24 * kPage), IsOk());
}

TEST_F(CudaMemoryTest, MoreThanThereIs) {
  EXPECT_THAT(memory_->Allocate(kGpu, size_t{1} << 60),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(memory_->Allocate(kGpu, ~size_t{0}),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(memory_->Allocate({kDLCUDA, 2}, 1),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no device 2")));
}

TEST_F(CudaMemoryTest, KnowsItsAddresses) {
  const auto made = DeviceAllocation::Create(*gpu_, 2 * kPage);
  ASSERT_THAT(made, IsOk());
  auto* const first = reinterpret_cast<std::byte*>(made->address());
  EXPECT_THAT(memory_->CheckLent(kGpu, {first, 2 * kPage}), IsOk());
  EXPECT_THAT(memory_->CheckLent(kGpu, {first + kPage, 1}), IsOk());
  for (const std::span<std::byte> bytes :
       {std::span(first, 2 * kPage + 1), std::span(first - 1, 1),
        Here().first(1)}) {
    EXPECT_THAT(memory_->CheckLent(kGpu, bytes),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("is not of the driver's memory")));
  }
  EXPECT_THAT(
      memory_->CheckLent(kOther, {first, 1}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is on cuda:0")));
  EXPECT_THAT(memory_->CheckLent({kDLCUDA, 9}, {first, 1}),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(CudaMemoryTest, BothSpansOfACopyHaveTheSameSize) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto storage, memory_->Allocate(kGpu, 100));
  TENON_ASSERT_OK_AND_ASSIGN(const auto there, BytesOf(*storage, 100));
  EXPECT_THAT(memory_->Copy({kGpu, there}, {kCpuDevice, Here().first(99)}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("100 bytes of cuda:0 for 99 bytes of cpu")));
}

TEST_F(CudaMemoryTest, IsInertInAForkedChild) {
  auto storage = memory_->Allocate(kGpu, 100).value();
  const std::span<std::byte> there = BytesOf(*storage, 100).value();
  EXPECT_TRUE(PassesInChild(
      [&] {
        EXPECT_THAT(memory_->Allocate(kGpu, 100),
                    StatusIs(absl::StatusCode::kFailedPrecondition));
        EXPECT_THAT(
            memory_->Copy({kGpu, there}, {kCpuDevice, Here().first(100)}),
            StatusIs(absl::StatusCode::kFailedPrecondition));
        EXPECT_THAT(memory_->Trim(),
                    StatusIs(absl::StatusCode::kFailedPrecondition,
                             HasSubstr("inherited by fork()")));
        const uint64_t calls = fake_.AllCalls();
        storage.reset();
        EXPECT_EQ(fake_.AllCalls(), calls);
      },
      /*may_have_threads=*/true));
}

}  // namespace
}  // namespace tenon::cuda_ipc

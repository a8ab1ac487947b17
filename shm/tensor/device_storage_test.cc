// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Storages on a device, as far as no driver is needed.

#include <array>
#include <cstddef>
#include <cstring>
#include <memory>

#include "absl/status/status.h"
#include "dlpack/dlpack.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/tensor/device.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kOnDeviceBytes = 64;

// No test dereferences it.
std::byte* const kAddress = reinterpret_cast<std::byte*>(0x7f0000000000);

std::shared_ptr<Storage> LentOn(const DLDevice& device, bool writable = true) {
  return Storage::FromLent({.data = kAddress,
                            .size_bytes = kOnDeviceBytes,
                            .writable = writable,
                            .device = device});
}

struct NoLease final : Storage::Lease {};

std::shared_ptr<Storage> PooledOn(const DLDevice& device) {
  return Storage::FromPool({.data = kAddress,
                            .size_bytes = kOnDeviceBytes,
                            .writable = true,
                            .device = device},
                           NoLease());
}

TEST(DeviceStorageTest, OthersAreOnTheCpu) {
  for (const auto& storage :
       {Storage::CreatePrivate(kOnDeviceBytes).value(),
        Storage::CreateShared(kOnDeviceBytes, SegmentKind::kSharedWritable)
            .value(),
        LentOn(kCpuDevice), PooledOn(kCpuDevice)}) {
    EXPECT_TRUE(SameDevice(storage->device(), kCpuDevice));
    EXPECT_TRUE(storage->is_on_cpu());
    EXPECT_THAT(storage->Read(), IsOkAndHolds(storage->Address().value()));
  }
}

TEST(DeviceStorageTest, TheCpuCannotAccessIt) {
  for (const auto& storage :
       {LentOn({kDLCUDA, 1}), LentOn({kDLCUDA, 1}, /*writable=*/false),
        PooledOn({kDLCUDA, 1})}) {
    EXPECT_TRUE(SameDevice(storage->device(), {kDLCUDA, 1}));
    EXPECT_FALSE(storage->is_on_cpu());
    EXPECT_THAT(
        storage->Read(),
        StatusIs(absl::StatusCode::kFailedPrecondition,
                 HasSubstr("the tensor is on cuda:1, which the CPU cannot "
                           "access; copy it to the CPU by Tensor::ToCpu()")));
    EXPECT_THAT(storage->Write(),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr("the tensor is on cuda:1"),
                               HasSubstr("Tensor::CopyFrom()"))));
    EXPECT_THAT(storage->Address(), IsOkAndHolds(kAddress));
    EXPECT_THAT(storage->CheckUsable(), IsOk());
    EXPECT_TRUE(storage->IsUsable());
  }
}

TEST(DeviceStorageTest, PinnedMemoryIsAccessible) {
  std::array<std::byte, kOnDeviceBytes> pinned = {};
  const auto storage = Storage::FromLent({.data = pinned.data(),
                                          .size_bytes = kOnDeviceBytes,
                                          .writable = true,
                                          .device = {kDLCUDAHost, 0}});
  EXPECT_EQ(DeviceName(storage->device()), "cuda_host");
  std::memset(storage->Write().value(), 7, kOnDeviceBytes);
  EXPECT_EQ(storage->Read().value()[kOnDeviceBytes - 1], std::byte{7});
}

TEST(DeviceStorageTest, MayBeReadOnly) {
  EXPECT_THAT(LentOn({kDLCUDA, 0})->CheckWritable(), IsOk());
  EXPECT_THAT(LentOn({kDLCUDA, 0}, /*writable=*/false)->CheckWritable(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("lent its memory read-only")));
}

TEST(DeviceStorageTest, OnlyAPoolsIsShared) {
  const auto lent = LentOn({kDLCUDA, 0});
  EXPECT_FALSE(lent->is_shared());
  EXPECT_THAT(lent->MoveToSegment(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("the tensor is on cuda:0"),
                             HasSubstr("in a pool of the device"))));
  const auto pooled = PooledOn({kDLCUDA, 0});
  EXPECT_TRUE(pooled->is_shared());
  EXPECT_THAT(pooled->MoveToSegment(), IsOk());
  EXPECT_THAT(pooled->Address(), IsOkAndHolds(kAddress));
}

// The drivers of devices cannot be used there.
TEST(DeviceStorageTest, IsInertInAForkedChild) {
  const auto lent = LentOn({kDLCUDA, 0});
  const auto pooled = PooledOn({kDLCUDA, 0});
  EXPECT_TRUE(PassesInChild([&] {
    for (const auto& storage : {lent, pooled}) {
      EXPECT_FALSE(storage->IsUsable());
      for (const absl::Status& status :
           {storage->CheckUsable(), storage->CheckWritable(),
            storage->Address().status(), storage->Read().status(),
            storage->Write().status()}) {
        EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                                     HasSubstr("inherited by fork()")));
      }
    }
    EXPECT_THAT(LentOn({kDLCUDA, 0})->CheckUsable(), IsOk());
  }));
}

}  // namespace
}  // namespace tenon

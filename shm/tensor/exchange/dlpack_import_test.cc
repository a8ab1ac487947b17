// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Tensors from another library.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dlpack/dlpack.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/tensor/device.h"
#include "tenon/shm/tensor/device_testing.h"
#include "tenon/shm/tensor/exchange/dlpack.h"
#include "tenon/shm/tensor/exchange/dlpack_testing.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

TYPED_TEST_SUITE(DLPackTest, DLPackForms);

TYPED_TEST(DLPackTest, ComesInWithoutACopy) {
  typename TestFixture::Producer producer;
  {
    const absl::StatusOr<Tensor> tensor = producer.Give();
    ASSERT_THAT(tensor, IsOk());
    EXPECT_EQ(tensor->spec().ToString(), "int32[2, 3, 4]");
    EXPECT_FALSE(tensor->is_shared());
    EXPECT_EQ(tensor->data<int32_t>().value().data(), producer.numbers);
    EXPECT_EQ(*tensor->at<const int32_t>({1, 2, 3}).value(), 23);
    const Tensor view = tensor->Select(0, 1).value();
    ASSERT_THAT(view.Fill(5), IsOk());
    EXPECT_EQ(producer.numbers[12], 5);
    EXPECT_EQ(producer.returned, 0);
  }
  EXPECT_EQ(producer.returned, 1);
}

TYPED_TEST(DLPackTest, IsGivenBackWithTheLastView) {
  typename TestFixture::Producer producer;
  Tensor view = producer.Give().value().Select(0, 1).value();
  EXPECT_EQ(producer.returned, 0);
  EXPECT_EQ(*view.at<const int32_t>({0, 0}).value(), 12);
  view = Tensor();
  EXPECT_EQ(producer.returned, 1);
}

TYPED_TEST(DLPackTest, WithoutStridesItIsDense) {
  typename TestFixture::Producer producer;
  producer.tensor.strides = nullptr;
  const absl::StatusOr<Tensor> tensor = producer.Give();
  ASSERT_THAT(tensor, IsOk());
  EXPECT_THAT(tensor->spec().strides(), ElementsAre(12, 4, 1));
}

TYPED_TEST(DLPackTest, AnOffsetCountsFromTheData) {
  typename TestFixture::Producer producer;
  producer.tensor.byte_offset = 8 * sizeof(int32_t);
  producer.shape = {4, 2};
  producer.strides = {4, 1};
  producer.tensor.ndim = 2;
  producer.tensor.shape = producer.shape.data();
  producer.tensor.strides = producer.strides.data();
  const absl::StatusOr<Tensor> tensor = producer.Give();
  ASSERT_THAT(tensor, IsOk());
  EXPECT_EQ(*tensor->at<const int32_t>({0, 0}).value(), 8);
  EXPECT_EQ(*tensor->at<const int32_t>({3, 1}).value(), 21);
}

TYPED_TEST(DLPackTest, StridesMayBeNegative) {
  typename TestFixture::Producer producer;
  producer.tensor.data = producer.numbers + 23;
  producer.strides = {-12, -4, -1};
  producer.tensor.strides = producer.strides.data();
  const absl::StatusOr<Tensor> tensor = producer.Give();
  ASSERT_THAT(tensor, IsOk());
  EXPECT_EQ(*tensor->at<const int32_t>({0, 0, 0}).value(), 23);
  EXPECT_EQ(*tensor->at<const int32_t>({1, 2, 3}).value(), 0);
  EXPECT_EQ(tensor->storage()->size_bytes(), sizeof(producer.numbers));
}

TYPED_TEST(DLPackTest, WithoutElementsNoDataIsNeeded) {
  typename TestFixture::Producer producer;
  producer.shape[1] = 0;
  producer.tensor.data = nullptr;
  absl::StatusOr<Tensor> tensor = producer.Give();
  ASSERT_THAT(tensor, IsOk());
  EXPECT_EQ(tensor->spec().elements(), 0);
  *tensor = Tensor();
  EXPECT_EQ(producer.returned, 1);
}

TYPED_TEST(DLPackTest, MemoryOfOthersIsNotMoved) {
  typename TestFixture::Producer producer;
  Tensor tensor = producer.Give().value();
  EXPECT_THAT(tensor.Share(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                       HasSubstr("copy the tensor")));
  Tensor copy = tensor.Clone().value();
  EXPECT_THAT(copy.Share(), IsOk());
}

TYPED_TEST(DLPackTest, ADeleterMayBeMissing) {
  int32_t number = 7;
  TypeParam managed = {};
  DLPackForm<TypeParam>::SetUp(managed);
  managed.dl_tensor = {.data = &number,
                       .device = {kDLCPU, 0},
                       .ndim = 0,
                       .dtype = kInt32,
                       .shape = nullptr,
                       .strides = nullptr,
                       .byte_offset = 0};
  const absl::StatusOr<Tensor> tensor =
      FromDLPack(typename DLPackForm<TypeParam>::Owner(&managed));
  ASSERT_THAT(tensor, IsOk());
  EXPECT_EQ(*tensor->at<const int32_t>({}).value(), 7);
}

TYPED_TEST(DLPackTest, NullIsRefused) {
  EXPECT_THAT(
      FromDLPack(typename TestFixture::Owner()),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("it is null")));
}

// ---- Devices ----

TYPED_TEST(DLPackTest, DevicesOfOtherTypesAreRefused) {
  // Not every header has the last ones.
  for (const int32_t type : {0, 13, 18, 1000, -1, -0x7fffffff - 1}) {
    typename TestFixture::Producer producer;
    std::memcpy(&producer.tensor.device.device_type, &type, sizeof(type));
    this->ExpectRefused(producer, "on device type " + std::to_string(type));
  }
}

TYPED_TEST(DLPackTest, CudaNeedsItsTarget) {
  typename TestFixture::Producer producer;
  producer.tensor.device = {kDLCUDA, 1};
  EXPECT_THAT(producer.Give(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("DLPack tensor on cuda:1: this program cannot "
                                 "access the memory of cuda:1; link "
                                 "//cuda_ipc:device_tensor")));
  EXPECT_EQ(producer.returned, 1);
}

TYPED_TEST(DLPackTest, NoDeviceHasANegativeNumber) {
  TestDevices::Get();
  for (const DLDeviceType type : {kDLCUDA, kDLExtDev, kDLVulkan}) {
    for (const int number : {-1, std::numeric_limits<int>::min()}) {
      typename TestFixture::Producer producer;
      producer.tensor.device = {type, number};
      this->ExpectRefused(producer,
                          "the negative number " + std::to_string(number));
    }
  }
}

TYPED_TEST(DLPackTest, TheCpusNumberMeansNothing) {
  for (const DLDeviceType type : {kDLCPU, kDLCUDAHost}) {
    typename TestFixture::Producer producer;
    producer.tensor.device = {type, -1};
    const absl::StatusOr<Tensor> tensor = producer.Give();
    ASSERT_THAT(tensor, IsOk());
    EXPECT_TRUE(SameDevice(tensor->device(), {type, 0}));
    // As pinned memory is the CPU's.
    EXPECT_EQ(*tensor->at<const int32_t>({1, 2, 3}).value(), 23);
    // Which its next consumer is told.
    const auto out = DLPackForm<TypeParam>::To(*tensor).value();
    EXPECT_EQ(out->dl_tensor.device.device_type, type);
  }
}

TYPED_TEST(DLPackTest, DeviceMemoryComesIn) {
  const TestDevices& devices = TestDevices::Get();
  typename TestFixture::Producer producer;
  auto memory = devices.NewMemory(1, sizeof(producer.numbers));
  std::memcpy(devices.Alias(memory.get()), producer.numbers,
              sizeof(producer.numbers));
  producer.tensor.data = memory.get();
  producer.tensor.device = devices.device(1);
  Tensor view;
  {
    const absl::StatusOr<Tensor> tensor = producer.Give();
    ASSERT_THAT(tensor, IsOk());
    EXPECT_TRUE(SameDevice(tensor->device(), devices.device(1)));
    EXPECT_FALSE(tensor->is_shared());
    EXPECT_TRUE(tensor->writable());
    EXPECT_THAT(tensor->device_data<const std::byte>(),
                IsOkAndHolds(memory.get()));
    EXPECT_THAT(tensor->data<const int32_t>(),
                StatusIs(absl::StatusCode::kFailedPrecondition));
    view = tensor->Select(0, 1).value();
  }
  // Given back with the last view.
  EXPECT_EQ(producer.returned, 0);
  EXPECT_EQ(*view.ToCpu().value().template at<const int32_t>({2, 3}).value(),
            23);
  EXPECT_TRUE(PassesInChild([&] {
    view = Tensor();
    EXPECT_EQ(producer.returned, 0);
  }));
  view = Tensor();
  EXPECT_EQ(producer.returned, 1);
  memory.reset();
  EXPECT_EQ(devices.allocations(), 0);
}

TYPED_TEST(DLPackTest, ADriverChecksDeviceMemory) {
  const TestDevices& devices = TestDevices::Get();
  const auto memory = devices.NewMemory(0, 4096);
  // 96 bytes, of which the last or the first is elsewhere; another device's; no
  // device's.
  for (const auto& [data, number] :
       {std::pair(memory.get() + 4096 - 95, 0), std::pair(memory.get() - 1, 0),
        std::pair(memory.get(), 1), std::pair(memory.get(), 7)}) {
    typename TestFixture::Producer producer;
    producer.tensor.data = data;
    producer.tensor.device = devices.device(number);
    this->ExpectRefused(producer, "its 96 bytes are not in memory of");
  }
  typename TestFixture::Producer producer;
  producer.tensor.data = memory.get() + 4096 - 96;
  producer.tensor.device = devices.device(0);
  EXPECT_THAT(producer.Give(), IsOk());
  // With negative strides its data is its last element.
  producer.strides = {-12, -4, -1};
  producer.tensor.strides = producer.strides.data();
  producer.tensor.data = memory.get() + 92;
  EXPECT_THAT(producer.Give(), IsOk());
  producer.tensor.data = memory.get() + 91;
  EXPECT_THAT(producer.Give(), StatusIs(absl::StatusCode::kInvalidArgument));
}

TYPED_TEST(DLPackTest, WithoutElementsItKeepsTheDevice) {
  typename TestFixture::Producer producer;
  producer.shape[1] = 0;
  producer.tensor.data = nullptr;
  producer.tensor.device = TestDevices::Get().device(1);
  const absl::StatusOr<Tensor> tensor = producer.Give();
  ASSERT_THAT(tensor, IsOk());
  EXPECT_TRUE(SameDevice(tensor->device(), TestDevices::Get().device(1)));
}

// Any numbers in the struct: refused, or inside the memory of a device. What
// says that it is on the CPU is not checked by anything but TensorSpec.
TYPED_TEST(DLPackTest, AnyNumbersAreRefusedOrFit) {
  const TestDevices& devices = TestDevices::Get();
  constexpr int64_t kBytesThere = 4096;
  const auto memory = devices.NewMemory(0, kBytesThere);
  const auto first = reinterpret_cast<uintptr_t>(memory.get());
  static constexpr int32_t kTypes[] = {
      kDLCPU, kDLCUDA, kDLCUDAHost, 0, kDLExtDev, -1, 1000, kMax & 0x7fffffff};
  static constexpr int64_t kNumbers[] = {
      0, 1, 2, 3, 4, 12, 64, 1024, -1, -4, int64_t{1} << 40, kMax, kMin};
  std::mt19937_64 random(1);
  const auto any = [&] { return kNumbers[random() % std::size(kNumbers)]; };
  int accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    typename TestFixture::Producer producer;
    const int32_t type =
        random() % 2 == 0 ? kDLExtDev : kTypes[random() % std::size(kTypes)];
    std::memcpy(&producer.tensor.device.device_type, &type, sizeof(type));
    producer.tensor.device.device_id =
        random() % 4 == 0 ? static_cast<int>(any()) : 0;
    producer.tensor.ndim = static_cast<int>(random() % 5) - 1;
    const auto rank =
        static_cast<size_t>(std::max<int32_t>(producer.tensor.ndim, 0));
    producer.shape.assign(rank, 1);
    producer.strides.assign(rank, 1);
    for (size_t i = 0; i < rank; ++i) {
      producer.shape[i] = random() % 3 == 0 ? any() : int64_t{3};
      producer.strides[i] = any();
    }
    producer.tensor.shape = producer.shape.data();
    producer.tensor.strides =
        random() % 3 == 0 ? nullptr : producer.strides.data();
    producer.tensor.data = reinterpret_cast<void*>(
        first + static_cast<uint64_t>(random() % 4 == 0 ? any() : 2048));
    producer.tensor.byte_offset =
        random() % 4 == 0 ? static_cast<uint64_t>(any()) : 0;
    {
      const absl::StatusOr<Tensor> tensor = producer.Give();
      ASSERT_EQ(producer.returned, tensor.ok() ? 0 : 1);
      if (tensor.ok() && type == kDLExtDev && tensor->spec().elements() > 0) {
        const auto begin =
            reinterpret_cast<uintptr_t>(tensor->storage()->Address().value());
        ASSERT_EQ(tensor->device().device_id, 0);
        ASSERT_GE(begin, first);
        ASSERT_LE(begin + tensor->storage()->size_bytes(), first + kBytesThere);
        // A stride of 0 may make it larger than all memory.
        if (tensor->spec().bytes() <= kBytesThere) {
          ASSERT_THAT(tensor->ToCpu(), IsOk());
        }
        ++accepted;
      }
    }
    ASSERT_EQ(producer.returned, 1);
  }
  EXPECT_GT(accepted, 500);
}

// ---- Numbers that cannot be ----

TYPED_TEST(DLPackTest, RanksAndShapesThatCannotBe) {
  for (const int rank : {-1, 9, std::numeric_limits<int>::max()}) {
    typename TestFixture::Producer producer;
    producer.tensor.ndim = rank;
    this->ExpectRefused(producer, std::to_string(rank) + " dimensions");
  }
  typename TestFixture::Producer without_shape;
  without_shape.tensor.shape = nullptr;
  this->ExpectRefused(without_shape, "no shape");
  for (const int64_t extent : {int64_t{-1}, kMin, kMax}) {
    typename TestFixture::Producer producer;
    producer.shape[1] = extent;
    this->ExpectRefused(producer, "");
  }
}

TYPED_TEST(DLPackTest, ReachesBeyondAllAddresses) {
  for (const int64_t stride : {kMin, kMax, -kMax}) {
    typename TestFixture::Producer producer;
    producer.strides[0] = stride;
    this->ExpectRefused(producer, "");
  }
  {
    typename TestFixture::Producer producer;
    producer.strides[0] = -(int64_t{1} << 58);
    this->ExpectRefused(producer, "exceed the address space");
  }
  for (const uint64_t offset : {~uint64_t{0}, ~uint64_t{0} - 100}) {
    typename TestFixture::Producer producer;
    producer.tensor.byte_offset = offset;
    this->ExpectRefused(producer, "exceed the address space");
  }
  typename TestFixture::Producer at_the_end;
  at_the_end.tensor.data = reinterpret_cast<void*>(~uintptr_t{0} - 3);
  this->ExpectRefused(at_the_end, "exceed the address space");
}

TYPED_TEST(DLPackTest, ElementsWithoutDataAreRefused) {
  typename TestFixture::Producer producer;
  producer.tensor.data = nullptr;
  this->ExpectRefused(producer, "no data");
}

TYPED_TEST(DLPackTest, DtypesThatDoNotFillBytesAreRefused) {
  for (const uint8_t bits : {uint8_t{0}, uint8_t{4}, uint8_t{12}}) {
    typename TestFixture::Producer producer;
    producer.tensor.dtype.bits = bits;
    this->ExpectRefused(producer, "whole bytes");
  }
  typename TestFixture::Producer producer;
  producer.tensor.dtype.lanes = 0;
  this->ExpectRefused(producer, "lane");
}

// Some libraries lend elements that are not aligned to their type.
TYPED_TEST(DLPackTest, WhatIsNotAlignedCanBeCopied) {
  alignas(8) std::byte memory[13] = {};
  typename TestFixture::Producer producer;
  producer.shape = {3};
  producer.tensor.ndim = 1;
  producer.tensor.shape = producer.shape.data();
  producer.tensor.strides = nullptr;
  producer.tensor.data = memory + 1;
  const absl::StatusOr<Tensor> tensor = producer.Give();
  ASSERT_THAT(tensor, IsOk());
  EXPECT_THAT(tensor->data<const int32_t>(),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  ASSERT_THAT(tensor->Fill(8), IsOk());
  EXPECT_THAT(tensor->Clone().value().data<int32_t>().value(), Each(8));
}

// A lender's lock may have been held by a thread that does not exist in the
// child.
TYPED_TEST(DLPackTest, AForkedChildDoesNotGiveBack) {
  typename TestFixture::Producer producer;
  Tensor tensor = producer.Give().value();
  EXPECT_TRUE(PassesInChild([&] {
    EXPECT_EQ(*tensor.at<const int32_t>({1, 2, 3}).value(), 23);
    tensor = Tensor();
    EXPECT_EQ(producer.returned, 0);
  }));
  tensor = Tensor();
  EXPECT_EQ(producer.returned, 1);
}

TYPED_TEST(DLPackTest, AForkedChildLendsNoSharedMemory) {
  const Tensor tensor = Tensor::CreateShared(kInt32, {6}).value();
  EXPECT_TRUE(PassesInChild([&] {
    EXPECT_THAT(DLPackForm<TypeParam>::To(tensor),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("inherited by fork()")));
  }));
}

}  // namespace
}  // namespace tenon

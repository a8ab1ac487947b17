// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Tensors from another library.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dlpack/dlpack.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
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

TYPED_TEST(DLPackTest, OtherDevicesAreRefused) {
  // Not every header has the last ones.
  for (const int32_t type : {0, 2, 3, 13, 18, 1000, -1}) {
    typename TestFixture::Producer producer;
    std::memcpy(&producer.tensor.device.device_type, &type, sizeof(type));
    this->ExpectRefused(producer, "on device type " + std::to_string(type));
  }
}

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

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/dlpack.h"

#include <fcntl.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/dtype.h"
#include "tenon/shm/process_testing.h"
#include "tenon/shm/segment.h"
#include "tenon/shm/status_matchers.h"
#include "tenon/shm/storage.h"
#include "tenon/shm/tensor.h"
#include "tenon/shm/tensor_handle.h"
#include "tenon/shm/tensor_importer.h"
#include "tenon/shm/tensor_spec.h"
#include "tenon/shm/unique_fd.h"
#include "tenon/third_party/dlpack/dlpack_versioned.h"

namespace tenon {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr DLDataType kInt = kDtypeOf<int32_t>;
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

// The layout is that of DLPack 1.x, which consumers have compiled in.
static_assert(offsetof(DLManagedTensorVersioned, version) == 0);
static_assert(offsetof(DLManagedTensorVersioned, manager_ctx) == 8);
static_assert(offsetof(DLManagedTensorVersioned, deleter) == 16);
static_assert(offsetof(DLManagedTensorVersioned, flags) == 24);
static_assert(offsetof(DLManagedTensorVersioned, dl_tensor) == 32);
static_assert(sizeof(DLManagedTensorVersioned) == 80);
static_assert(DLPACK_FLAG_BITMASK_READ_ONLY == 1);

Tensor Counting(absl::Span<const int64_t> shape) {
  Tensor tensor = Tensor::Create(kInt, shape).value();
  const auto elements = tensor.data<int32_t>().value();
  std::iota(elements.begin(), elements.end(), 0);
  return tensor;
}

// ---- Both forms ----

template <typename Managed>
struct Form;

template <>
struct Form<DLManagedTensorVersioned> {
  using Owner = DLPackTensor;
  static absl::StatusOr<Owner> To(const Tensor& tensor) {
    return ToDLPack(tensor);
  }
  static void SetUp(DLManagedTensorVersioned& managed) {
    managed.version = {1, 0};
  }
};

template <>
struct Form<DLManagedTensor> {
  using Owner = LegacyDLPackTensor;
  static absl::StatusOr<Owner> To(const Tensor& tensor) {
    return ToLegacyDLPack(tensor);
  }
  static void SetUp(DLManagedTensor&) {}
};

template <typename Managed>
class DLPackTest : public testing::Test {
 protected:
  using Owner = typename Form<Managed>::Owner;

  // Another library: it has 24 numbers, lends them, and counts what comes back.
  struct Producer {
    Producer() { std::iota(std::begin(numbers), std::end(numbers), 0); }

    Owner Lend() {
      auto* managed = new Managed{};
      Form<Managed>::SetUp(*managed);
      managed->dl_tensor = tensor;
      managed->manager_ctx = this;
      managed->deleter = [](Managed* self) {
        ++static_cast<Producer*>(self->manager_ctx)->returned;
        delete self;
      };
      return Owner(managed);
    }

    absl::StatusOr<Tensor> Give() { return FromDLPack(Lend()); }

    int32_t numbers[24];
    std::vector<int64_t> shape = {2, 3, 4};
    std::vector<int64_t> strides = {12, 4, 1};
    DLTensor tensor = {.data = numbers,
                       .device = {kDLCPU, 0},
                       .ndim = 3,
                       .dtype = kInt,
                       .shape = shape.data(),
                       .strides = strides.data(),
                       .byte_offset = 0};
    int returned = 0;
  };

  // What the producer's tensor is changed to is refused and given back.
  void ExpectRefused(Producer& producer, const std::string& why) {
    EXPECT_THAT(producer.Give(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
    EXPECT_EQ(producer.returned, 1) << why;
  }
};

using Forms = testing::Types<DLManagedTensorVersioned, DLManagedTensor>;
TYPED_TEST_SUITE(DLPackTest, Forms);

// ---- Out ----

TYPED_TEST(DLPackTest, GoesOutWithoutACopy) {
  const Tensor tensor = Counting({4, 6});
  const auto out =
      Form<TypeParam>::To(tensor.Slice(1, {.start = 1, .step = 2}).value());
  ASSERT_THAT(out, IsOk());
  const DLTensor& dl = (*out)->dl_tensor;
  EXPECT_EQ(dl.device.device_type, kDLCPU);
  EXPECT_EQ(dl.device.device_id, 0);
  EXPECT_EQ(DtypeName(dl.dtype), "int32");
  EXPECT_EQ(dl.byte_offset, 0u);
  ASSERT_EQ(dl.ndim, 2);
  EXPECT_THAT(absl::MakeConstSpan(dl.shape, 2), ElementsAre(4, 3));
  EXPECT_THAT(absl::MakeConstSpan(dl.strides, 2), ElementsAre(6, 2));
  EXPECT_EQ(dl.data, tensor.at<int32_t>({0, 1}).value());
}

TYPED_TEST(DLPackTest, WhatIsOutKeepsTheMemory) {
  std::weak_ptr<Storage> storage;
  typename TestFixture::Owner out;
  {
    const Tensor tensor = Counting({6});
    storage = tensor.storage();
    out = Form<TypeParam>::To(tensor).value();
  }
  EXPECT_EQ(static_cast<int32_t*>(out->dl_tensor.data)[5], 5);
  // A consumer has the pointer alone, and is done in whatever thread.
  std::thread([managed = out.release()] { managed->deleter(managed); }).join();
  EXPECT_TRUE(storage.expired());
}

TYPED_TEST(DLPackTest, WhatIsOutStaysWhereItIs) {
  Tensor tensor = Counting({6});
  auto out = Form<TypeParam>::To(tensor.Select(0, 2).value()).value();
  EXPECT_THAT(tensor.Share(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                       HasSubstr("lent to another library")));
  out.reset();
  EXPECT_THAT(tensor.Share(), IsOk());
}

TYPED_TEST(DLPackTest, SharedMemoryGoesOutAsWell) {
  const Tensor tensor = Tensor::CreateShared(kInt, {6}).value();
  auto out = Form<TypeParam>::To(tensor).value();
  static_cast<int32_t*>(out->dl_tensor.data)[5] = 99;
  EXPECT_EQ(*tensor.at<const int32_t>({5}).value(), 99);
}

TYPED_TEST(DLPackTest, WithoutElementsThereIsNoData) {
  for (const Tensor& tensor : {Tensor(), Counting({0, 3}),
                               Counting({4}).Slice(0, {.start = 4}).value()}) {
    const auto out = Form<TypeParam>::To(tensor);
    ASSERT_THAT(out, IsOk());
    EXPECT_EQ((*out)->dl_tensor.data, nullptr);
  }
}

TYPED_TEST(DLPackTest, RankZeroAndRankEight) {
  const Tensor scalar = Counting({});
  auto out = Form<TypeParam>::To(scalar).value();
  EXPECT_EQ(out->dl_tensor.ndim, 0);
  Tensor back = FromDLPack(std::move(out)).value();
  EXPECT_EQ(back.at<int32_t>({}).value(), scalar.at<int32_t>({}).value());
  const Tensor deep = Counting({2, 1, 2, 1, 2, 1, 2, 1});
  back = FromDLPack(Form<TypeParam>::To(deep).value()).value();
  EXPECT_TRUE(back.spec() == deep.spec());
}

TYPED_TEST(DLPackTest, LanesGoOutAndIn) {
  const Tensor tensor = Tensor::Create({kDLFloat, 32, 4}, {3}).value();
  auto out = Form<TypeParam>::To(tensor).value();
  EXPECT_EQ(out->dl_tensor.dtype.lanes, 4);
  const Tensor back = FromDLPack(std::move(out)).value();
  EXPECT_EQ(back.spec().ToString(), "float32x4[3]");
  EXPECT_EQ(back.data<std::byte>().value().data(),
            tensor.data<std::byte>().value().data());
}

TYPED_TEST(DLPackTest, ThereAndBackIsTheSameMemory) {
  const Tensor tensor = Counting({4, 6});
  const Tensor view = tensor.Transpose(0, 1).value();
  const Tensor back = FromDLPack(Form<TypeParam>::To(view).value()).value();
  EXPECT_EQ(back.spec().ToString(), view.spec().ToString());
  *back.at<int32_t>({5, 3}).value() = -1;
  EXPECT_EQ(*tensor.at<const int32_t>({3, 5}).value(), -1);
}

// ---- In ----

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
  Form<TypeParam>::SetUp(managed);
  managed.dl_tensor = {.data = &number,
                       .device = {kDLCPU, 0},
                       .ndim = 0,
                       .dtype = kInt,
                       .shape = nullptr,
                       .strides = nullptr,
                       .byte_offset = 0};
  const absl::StatusOr<Tensor> tensor =
      FromDLPack(typename Form<TypeParam>::Owner(&managed));
  ASSERT_THAT(tensor, IsOk());
  EXPECT_EQ(*tensor->at<const int32_t>({}).value(), 7);
}

TYPED_TEST(DLPackTest, NullIsRefused) {
  EXPECT_THAT(
      FromDLPack(typename TestFixture::Owner()),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("it is null")));
}

TYPED_TEST(DLPackTest, OtherDevicesAreRefused) {
  // The last ones are not in every header.
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
    this->ExpectRefused(producer, "outside of all addresses");
  }
  for (const uint64_t offset : {~uint64_t{0}, ~uint64_t{0} - 100}) {
    typename TestFixture::Producer producer;
    producer.tensor.byte_offset = offset;
    this->ExpectRefused(producer, "outside of all addresses");
  }
  typename TestFixture::Producer at_the_end;
  at_the_end.tensor.data = reinterpret_cast<void*>(~uintptr_t{0} - 3);
  this->ExpectRefused(at_the_end, "outside of all addresses");
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

// Some libraries lend what does not lie where its type should.
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

// A lender's lock may have been held by a thread that is not in the child.
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
  const Tensor tensor = Tensor::CreateShared(kInt, {6}).value();
  EXPECT_TRUE(PassesInChild([&] {
    EXPECT_THAT(Form<TypeParam>::To(tensor),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("inherited by fork()")));
  }));
}

// ---- What the two forms differ in ----

Tensor ReadOnly() {
  const Tensor tensor =
      Tensor::CreateShared(kInt, {6}, {.kind = SegmentKind::kOwnerWritten})
          .value();
  EXPECT_THAT(tensor.Fill(3), IsOk());
  const ExportedTensor exported = Export(tensor).value();
  TensorImporter importer;
  return importer
      .Import(exported.handle, UniqueFd(fcntl(exported.fd, F_DUPFD_CLOEXEC, 0)))
      .value();
}

TEST(VersionedDLPackTest, SaysItsVersionAndFlags) {
  const auto out = ToDLPack(Counting({6}));
  ASSERT_THAT(out, IsOk());
  EXPECT_EQ((*out)->version.major, 1u);
  EXPECT_EQ((*out)->version.minor, 0u);
  EXPECT_EQ((*out)->flags, 0u);
}

TEST(VersionedDLPackTest, ReadOnlyStaysReadOnly) {
  auto out = ToDLPack(ReadOnly());
  ASSERT_THAT(out, IsOk());
  EXPECT_EQ((*out)->flags, DLPACK_FLAG_BITMASK_READ_ONLY);
  const auto back = FromDLPack(*std::move(out));
  ASSERT_THAT(back, IsOk());
  EXPECT_FALSE(back->writable());
  EXPECT_THAT(back->data<const int32_t>().value(), Each(3));
  EXPECT_THAT(back->data<int32_t>(),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(ToDLPack(*back).value()->flags, DLPACK_FLAG_BITMASK_READ_ONLY);
}

TEST(LegacyDLPackTest, ReadOnlyDoesNotGoOut) {
  EXPECT_THAT(ToLegacyDLPack(ReadOnly()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("use the versioned one")));
}

TEST(VersionedDLPackTest, OtherMajorVersionsAreGivenBackUnread) {
  for (const uint32_t major : {0u, 2u, 1000u}) {
    int returned = 0;
    DLManagedTensorVersioned managed = {};
    managed.version = {major, 0};
    managed.manager_ctx = &returned;
    managed.deleter = [](DLManagedTensorVersioned* self) {
      ++*static_cast<int*>(self->manager_ctx);
    };
    // Of another layout, as far as anybody knows.
    std::memset(&managed.dl_tensor, 0xff, sizeof(managed.dl_tensor));
    EXPECT_THAT(
        FromDLPack(DLPackTensor(&managed)),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("want 1.x")));
    EXPECT_EQ(returned, 1);
  }
}

TEST(VersionedDLPackTest, LaterMinorVersionsAndFlagsAreTaken) {
  auto out = ToDLPack(Counting({6})).value();
  out->version.minor = 99;
  out->flags = uint64_t{1} << 63 | 2;
  const auto in = FromDLPack(std::move(out));
  ASSERT_THAT(in, IsOk());
  EXPECT_TRUE(in->writable());
}

}  // namespace
}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Export, and the differences of the two forms. Import: dlpack_import_test.cc.

#include "tenon/shm/tensor/exchange/dlpack.h"

#include <fcntl.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "dlpack/dlpack.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/tensor/device.h"
#include "tenon/shm/tensor/device_testing.h"
#include "tenon/shm/tensor/exchange/dlpack_testing.h"
#include "tenon/shm/tensor/exchange/tensor_handle.h"
#include "tenon/shm/tensor/exchange/tensor_importer.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_spec.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/third_party/dlpack/dlpack_versioned.h"

namespace tenon {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The layout is that of DLPack 1.x, which consumers are compiled against.
static_assert(offsetof(DLManagedTensorVersioned, version) == 0);
static_assert(offsetof(DLManagedTensorVersioned, manager_ctx) == 8);
static_assert(offsetof(DLManagedTensorVersioned, deleter) == 16);
static_assert(offsetof(DLManagedTensorVersioned, flags) == 24);
static_assert(offsetof(DLManagedTensorVersioned, dl_tensor) == 32);
static_assert(sizeof(DLManagedTensorVersioned) == 80);
static_assert(DLPACK_FLAG_BITMASK_READ_ONLY == 1);

TYPED_TEST_SUITE(DLPackTest, DLPackForms);

TYPED_TEST(DLPackTest, GoesOutWithoutACopy) {
  const Tensor tensor = Counting({4, 6});
  const auto out = DLPackForm<TypeParam>::To(
      tensor.Slice(1, {.start = 1, .step = 2}).value());
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
    out = DLPackForm<TypeParam>::To(tensor).value();
  }
  EXPECT_EQ(static_cast<int32_t*>(out->dl_tensor.data)[5], 5);
  // A consumer has only the pointer, and may finish in any thread.
  std::thread([managed = out.release()] { managed->deleter(managed); }).join();
  EXPECT_TRUE(storage.expired());
}

TYPED_TEST(DLPackTest, WhatIsOutStaysWhereItIs) {
  Tensor tensor = Counting({6});
  auto out = DLPackForm<TypeParam>::To(tensor.Select(0, 2).value()).value();
  EXPECT_THAT(tensor.Share(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                       HasSubstr("lent to another library")));
  out.reset();
  EXPECT_THAT(tensor.Share(), IsOk());
}

TYPED_TEST(DLPackTest, SharedMemoryGoesOutAsWell) {
  const Tensor tensor = Tensor::CreateShared(kInt32, {6}).value();
  auto out = DLPackForm<TypeParam>::To(tensor).value();
  static_cast<int32_t*>(out->dl_tensor.data)[5] = 99;
  EXPECT_EQ(*tensor.at<const int32_t>({5}).value(), 99);
}

TYPED_TEST(DLPackTest, WithoutElementsThereIsNoData) {
  for (const Tensor& tensor : {Tensor(), Counting({0, 3}),
                               Counting({4}).Slice(0, {.start = 4}).value()}) {
    const auto out = DLPackForm<TypeParam>::To(tensor);
    ASSERT_THAT(out, IsOk());
    EXPECT_EQ((*out)->dl_tensor.data, nullptr);
  }
}

TYPED_TEST(DLPackTest, RankZeroAndRankEight) {
  const Tensor scalar = Counting({});
  auto out = DLPackForm<TypeParam>::To(scalar).value();
  EXPECT_EQ(out->dl_tensor.ndim, 0);
  Tensor back = FromDLPack(std::move(out)).value();
  EXPECT_EQ(back.at<int32_t>({}).value(), scalar.at<int32_t>({}).value());
  const Tensor deep = Counting({2, 1, 2, 1, 2, 1, 2, 1});
  back = FromDLPack(DLPackForm<TypeParam>::To(deep).value()).value();
  EXPECT_TRUE(back.spec() == deep.spec());
}

TYPED_TEST(DLPackTest, LanesGoOutAndIn) {
  const Tensor tensor = Tensor::Create({kDLFloat, 32, 4}, {3}).value();
  auto out = DLPackForm<TypeParam>::To(tensor).value();
  EXPECT_EQ(out->dl_tensor.dtype.lanes, 4);
  const Tensor back = FromDLPack(std::move(out)).value();
  EXPECT_EQ(back.spec().ToString(), "float32x4[3]");
  EXPECT_EQ(back.data<std::byte>().value().data(),
            tensor.data<std::byte>().value().data());
}

TYPED_TEST(DLPackTest, ThereAndBackIsTheSameMemory) {
  const Tensor tensor = Counting({4, 6});
  const Tensor view = tensor.Transpose(0, 1).value();
  const Tensor back =
      FromDLPack(DLPackForm<TypeParam>::To(view).value()).value();
  EXPECT_EQ(back.spec().ToString(), view.spec().ToString());
  *back.at<int32_t>({5, 3}).value() = -1;
  EXPECT_EQ(*tensor.at<const int32_t>({3, 5}).value(), -1);
}

TYPED_TEST(DLPackTest, DeviceMemoryGoesOut) {
  const TestDevices& devices = TestDevices::Get();
  {
    const Tensor tensor = Counting({4, 6}).To(devices.device(1)).value();
    const Tensor view = tensor.Slice(1, {.start = 1, .step = 2}).value();
    auto out = DLPackForm<TypeParam>::To(view).value();
    const DLTensor& dl = out->dl_tensor;
    EXPECT_TRUE(SameDevice(dl.device, devices.device(1)));
    EXPECT_EQ(dl.data, view.template device_data<int32_t>().value());
    EXPECT_EQ(dl.byte_offset, 0u);
    EXPECT_THAT(absl::MakeConstSpan(dl.strides, 2), ElementsAre(6, 2));
    // And back, of the same memory.
    const Tensor back = FromDLPack(std::move(out)).value();
    EXPECT_THAT(back.CopyFrom(Counting({4, 3})), IsOk());
    const Tensor here = tensor.ToCpu().value();
    EXPECT_EQ(*here.template at<const int32_t>({3, 5}).value(), 11);
    EXPECT_EQ(*here.template at<const int32_t>({3, 4}).value(), 22);
    EXPECT_TRUE(PassesInChild([&] {
      EXPECT_THAT(DLPackForm<TypeParam>::To(tensor),
                  StatusIs(absl::StatusCode::kFailedPrecondition,
                           HasSubstr("inherited by fork()")));
    }));
  }
  EXPECT_EQ(devices.allocations(), 0);
}

// ---- Differences of the two forms ----

// Of a pool whose receivers may not write it, say. No driver is needed.
Tensor ReadOnlyOnCuda() {
  return Tensor::FromSpec(
             TensorSpec::Contiguous(kInt32, {4}).value(),
             Storage::FromLent({.data = reinterpret_cast<std::byte*>(0x10000),
                                .size_bytes = 16,
                                .writable = false,
                                .device = {kDLCUDA, 0}}))
      .value();
}

TEST(VersionedDLPackTest, ReadOnlyDeviceMemoryIsMarked) {
  const auto out = ToDLPack(ReadOnlyOnCuda());
  ASSERT_THAT(out, IsOk());
  EXPECT_EQ((*out)->flags, DLPACK_FLAG_BITMASK_READ_ONLY);
  EXPECT_EQ((*out)->dl_tensor.device.device_type, kDLCUDA);
  EXPECT_EQ((*out)->dl_tensor.data, reinterpret_cast<void*>(0x10000));
}

TEST(LegacyDLPackTest, ReadOnlyDeviceMemoryDoesNotGoOut) {
  EXPECT_THAT(ToLegacyDLPack(ReadOnlyOnCuda()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("use the versioned form")));
}

Tensor ReadOnly() {
  const Tensor tensor =
      Tensor::CreateShared(kInt32, {6}, {.kind = SegmentKind::kOwnerWritten})
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
                       HasSubstr("use the versioned form")));
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
    // Possibly of another layout.
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

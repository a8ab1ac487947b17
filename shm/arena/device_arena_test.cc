// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Tensors of arenas in memory that the CPU cannot access.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/arena/arena_testing.h"
#include "tenon/shm/arena/device_arena_testing.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/tensor/device.h"
#include "tenon/shm/tensor/device_testing.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/exchange/tensor_handle.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr DLDataType kNumber = kDtypeOf<int32_t>;

// 0, 1, 2, ... in row-major order.
Tensor Numbers(absl::Span<const int64_t> shape) {
  Tensor tensor = Tensor::Create(kNumber, shape).value();
  const auto elements = tensor.data<int32_t>().value();
  std::iota(elements.begin(), elements.end(), 0);
  return tensor;
}

std::vector<int32_t> NumbersOf(const Tensor& tensor) {
  const Tensor here = tensor.ToCpu().value().Contiguous().value();
  const auto elements = here.data<const int32_t>().value();
  return {elements.begin(), elements.end()};
}

class DeviceArenaTest : public testing::Test {
 protected:
  void Make(SegmentKind kind) {
    TENON_ASSERT_OK_AND_ASSIGN(arena_, CreateDeviceArena(0, {.kind = kind}));
  }
  void SetUp() override { Make(SegmentKind::kOwnerWritten); }
  void TearDown() override {
    arena_.reset();
    EXPECT_EQ(devices_.allocations(), 0);
  }

  Tensor New(absl::Span<const int64_t> shape) {
    const Tensor tensor =
        CreateTensor(*arena_, kNumber, shape, Deadline::Passed()).value();
    EXPECT_THAT(tensor.CopyFrom(Numbers(shape)), IsOk());
    return tensor;
  }
  static Tensor Receive(const Tensor& tensor, ArenaTensorImporter& importer) {
    const ArenaOffer offer = Offer(tensor).value();
    EXPECT_THAT(importer.Accept(offer.bytes, Travel(offer.fds)), IsOk());
    return importer.Claim(Describe(tensor).value()).value();
  }

  const TestDevices& devices_ = TestDevices::Get();
  std::shared_ptr<Arena> arena_;
};

TEST_F(DeviceArenaTest, TheOwnersTensorsAreOnItsDevice) {
  Tensor tensor = New({2, 3});
  EXPECT_TRUE(SameDevice(tensor.device(), devices_.device(0)));
  EXPECT_TRUE(tensor.is_shared());
  EXPECT_THAT(tensor.device_data<int32_t>(), IsOk());
  EXPECT_THAT(tensor.data<const int32_t>(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("the tensor is on " +
                                 DeviceName(devices_.device(0)))));
  EXPECT_THAT(NumbersOf(tensor), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(tensor.Share(), IsOk());
  EXPECT_THAT(Export(tensor), StatusIs(absl::StatusCode::kFailedPrecondition,
                                       HasSubstr("in a block of an arena")));
  // Views, and clones, which are in no arena.
  const Tensor column = tensor.Select(1, 2).value();
  EXPECT_THAT(NumbersOf(column), ElementsAre(2, 5));
  const Tensor clone = column.Clone().value();
  EXPECT_FALSE(clone.is_shared());
  EXPECT_TRUE(SameDevice(clone.device(), devices_.device(0)));
}

TEST_F(DeviceArenaTest, SeveralTensorsOfABlock) {
  const auto tensors = CreateTensors(
      *arena_,
      {{.dtype = kNumber, .shape = {3}}, {.dtype = kNumber, .shape = {2}}},
      Deadline::Passed());
  ASSERT_THAT(tensors, IsOk());
  for (const Tensor& tensor : *tensors) {
    EXPECT_TRUE(SameDevice(tensor.device(), devices_.device(0)));
    EXPECT_THAT(tensor.CopyFrom(Numbers(tensor.spec().shape())), IsOk());
  }
  EXPECT_THAT(NumbersOf((*tensors)[0]), ElementsAre(0, 1, 2));
  EXPECT_THAT(NumbersOf((*tensors)[1]), ElementsAre(0, 1));
}

TEST_F(DeviceArenaTest, AReceiverHasTheDeviceFromTheArena) {
  const Tensor sent = New({2, 3});
  ArenaTensorImporter importer;
  const Tensor got = Receive(sent.Select(0, 1).value(), importer);
  EXPECT_TRUE(SameDevice(got.device(), devices_.device(0)));
  EXPECT_THAT(NumbersOf(got), ElementsAre(3, 4, 5));
  // Read-only, as all memory of this arena.
  EXPECT_FALSE(got.writable());
  EXPECT_THAT(got.device_data<const int32_t>(), IsOk());
  for (const absl::Status& status :
       {got.device_data<int32_t>().status(), got.CopyFrom(Numbers({3}))}) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                                 HasSubstr("read-only")));
  }
  // It may be passed on.
  ArenaTensorImporter next;
  EXPECT_THAT(NumbersOf(Receive(got, next)), ElementsAre(3, 4, 5));
}

TEST_F(DeviceArenaTest, AllMayWriteASharedWritableOne) {
  Make(SegmentKind::kSharedWritable);
  const Tensor sent = New({4});
  ArenaTensorImporter importer;
  const Tensor got = Receive(sent, importer);
  ASSERT_THAT(got.Slice(0, {.start = 2}).value().CopyFrom(Numbers({2})),
              IsOk());
  EXPECT_THAT(NumbersOf(sent), ElementsAre(0, 1, 0, 1));
}

// The number of a device is one of a process.
TEST_F(DeviceArenaTest, AnotherProcessMayNumberItDifferently) {
  const Tensor sent = New({2, 3});
  EXPECT_TRUE(PassesInChild([&] {
    SwapDevicesOfOthers();
    // As received: a forked child cannot use its parent's.
    const auto file = StatusIs(absl::StatusCode::kFailedPrecondition,
                               HasSubstr("inherited by fork()"));
    EXPECT_THAT(sent.device_data<const int32_t>(), file);
    EXPECT_THAT(sent.ToCpu(), file);
    EXPECT_THAT(Describe(sent), file);
  }));
  const ArenaOffer offer = Offer(sent).value();
  const ArenaTensorHandle handle = Describe(sent).value();
  EXPECT_TRUE(PassesInChild([&] {
    SwapDevicesOfOthers();
    ArenaTensorImporter importer;
    ASSERT_THAT(importer.Accept(offer.bytes, Travel(offer.fds)), IsOk());
    const Tensor got = importer.Claim(handle).value();
    EXPECT_TRUE(SameDevice(got.device(), devices_.device(1)));
    EXPECT_THAT(NumbersOf(got), ElementsAre(0, 1, 2, 3, 4, 5));
  }));
}

}  // namespace
}  // namespace tenon

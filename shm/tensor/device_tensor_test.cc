// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Tensors on devices without hardware, in memory that the CPU cannot access.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/tensor/device.h"
#include "tenon/shm/tensor/device_memory.h"
#include "tenon/shm/tensor/device_testing.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
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

// A tensor of CUDA, for which no test here has a driver.
Tensor OnCuda(int number) {
  return Tensor::FromSpec(
             TensorSpec::Contiguous(kNumber, {4}).value(),
             Storage::FromLent({.data = reinterpret_cast<std::byte*>(0x10000),
                                .size_bytes = 16,
                                .writable = true,
                                .device = {kDLCUDA, number}}))
      .value();
}

class DeviceTensorTest : public testing::Test {
 protected:
  ~DeviceTensorTest() override {
    EXPECT_EQ(devices_.allocations(), 0);
    devices_.FailCopy(0);
  }

  // What it copies by the driver meanwhile.
  template <typename Function>
  int CopiesOf(const Function& function) {
    const int before = devices_.copies();
    function();
    return devices_.copies() - before;
  }

  TestDevices& devices_ = TestDevices::Get();
  const DLDevice first_ = devices_.device(0);
  const DLDevice second_ = devices_.device(1);
};

// ---- Errors of the CPU's accessors ----

TEST_F(DeviceTensorTest, ElementsAreNotTheCpus) {
  const Tensor tensor = Numbers({2, 3}).To(first_).value();
  EXPECT_FALSE(tensor.is_on_cpu());
  EXPECT_TRUE(SameDevice(tensor.device(), first_));
  const std::string name = DeviceName(first_);
  for (const absl::Status& status :
       {tensor.data<const int32_t>().status(),
        tensor.data<const std::byte>().status(),
        tensor.at<const int32_t>({1, 2}).status()}) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                                 AllOf(HasSubstr("the tensor is on " + name),
                                       HasSubstr("Tensor::ToCpu()"))));
  }
  for (const absl::Status& status :
       {tensor.data<int32_t>().status(), tensor.at<int32_t>({1, 2}).status(),
        tensor.Fill(int32_t{1})}) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                                 AllOf(HasSubstr("the tensor is on " + name),
                                       HasSubstr("Tensor::CopyFrom()"))));
  }
  EXPECT_THAT(NumbersOf(tensor), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST_F(DeviceTensorTest, OtherErrorsAreAsOnTheCpu) {
  const Tensor tensor = Numbers({2, 3}).To(first_).value();
  EXPECT_THAT(tensor.data<float>(), StatusIs(absl::StatusCode::kInvalidArgument,
                                             HasSubstr("accessed as float32")));
  EXPECT_THAT(tensor.at<int32_t>({2, 0}),
              StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_THAT(tensor.CopyFrom(Numbers({3, 2})),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("cannot be copied")));
}

TEST_F(DeviceTensorTest, PrivateOnesCannotBeShared) {
  Tensor tensor = Numbers({2, 3}).To(first_).value();
  EXPECT_THAT(tensor.Share(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("the tensor is on " + DeviceName(first_))));
}

// ---- Addresses ----

TEST_F(DeviceTensorTest, HasAnAddress) {
  const Tensor tensor = Numbers({2, 3}).To(first_).value();
  TENON_ASSERT_OK_AND_ASSIGN(int32_t* const data,
                             tensor.device_data<int32_t>());
  EXPECT_EQ(reinterpret_cast<std::byte*>(data),
            tensor.storage()->Address().value());
  // It need not be dense.
  const Tensor view = tensor.Transpose(0, 1).value().Select(0, 2).value();
  EXPECT_THAT(view.device_data<const int32_t>(), IsOkAndHolds(data + 2));
  EXPECT_THAT(view.device_data<const std::byte>(),
              IsOkAndHolds(reinterpret_cast<std::byte*>(data + 2)));
  EXPECT_EQ(reinterpret_cast<int32_t*>(
                devices_.Alias(reinterpret_cast<std::byte*>(data)))[5],
            5);
  EXPECT_THAT(tensor.device_data<float>(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("accessed as float32")));
  EXPECT_THAT(tensor.Slice(0, {.start = 2}).value().device_data<int32_t>(),
              IsOkAndHolds(nullptr));
}

TEST_F(DeviceTensorTest, ACpuTensorHasNone) {
  for (const Tensor& tensor : {Tensor(), Numbers({2, 3})}) {
    EXPECT_TRUE(SameDevice(tensor.device(), kCpuDevice));
    EXPECT_THAT(tensor.device_data<const std::byte>(),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("is on the CPU; use data()")));
  }
}

TEST_F(DeviceTensorTest, ReadOnlyHasOnlyAConstAddress) {
  const auto memory = devices_.NewMemory(0, 64);
  const Tensor tensor =
      Tensor::FromSpec(TensorSpec::Contiguous(kNumber, {16}).value(),
                       Storage::FromLent({.data = memory.get(),
                                          .size_bytes = 64,
                                          .writable = false,
                                          .device = first_}))
          .value();
  EXPECT_THAT(tensor.device_data<const int32_t>(), IsOk());
  for (const absl::Status& status : {tensor.device_data<int32_t>().status(),
                                     tensor.CopyFrom(Numbers({16}))}) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                                 HasSubstr("read-only")));
  }
  const Tensor copy = tensor.Clone().value();
  EXPECT_THAT(copy.CopyFrom(Numbers({16})), IsOk());
}

TEST_F(DeviceTensorTest, ViewsAreOfOneStorage) {
  const Tensor tensor = Numbers({4, 6}).To(first_).value();
  const Tensor view =
      tensor.Slice(0, {.start = 1, .step = 2}).value().Transpose(0, 1).value();
  const Tensor flat = tensor.Reshape({3, -1}).value();
  EXPECT_EQ(view.storage(), tensor.storage());
  EXPECT_EQ(flat.storage(), tensor.storage());
  EXPECT_TRUE(SameDevice(view.device(), first_));
  EXPECT_THAT(NumbersOf(view.Select(0, 5).value()), ElementsAre(11, 23));
  EXPECT_THAT(NumbersOf(flat.Select(0, 1).value()),
              ElementsAre(8, 9, 10, 11, 12, 13, 14, 15));
}

// ---- Copies ----

TEST_F(DeviceTensorTest, ToADeviceAndBack) {
  const Tensor here = Numbers({2, 3});
  const Tensor there = here.To(first_).value();
  const Tensor back = there.ToCpu().value();
  EXPECT_TRUE(back.is_on_cpu());
  EXPECT_THAT(NumbersOf(back), ElementsAre(0, 1, 2, 3, 4, 5));
  // It is there.
  EXPECT_EQ(there.To(first_).value().storage(), there.storage());
  EXPECT_EQ(here.ToCpu().value().storage(), here.storage());
  EXPECT_EQ(here.To({kDLCPU, 3}).value().storage(), here.storage());
}

TEST_F(DeviceTensorTest, ToAnotherDeviceOfTheTypeInOneCopy) {
  const Tensor there = Numbers({2, 3}).To(first_).value();
  Tensor other;
  EXPECT_EQ(CopiesOf([&] { other = there.To(second_).value(); }), 1);
  EXPECT_TRUE(SameDevice(other.device(), second_));
  EXPECT_THAT(NumbersOf(other), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST_F(DeviceTensorTest, ToADeviceOfAnotherTypeByTheCpu) {
  TestDevices& others = TestDevices::Get(kDLVPI);
  const Tensor there = Numbers({2, 3}).To(first_).value();
  const Tensor other = there.To(others.device(1)).value();
  EXPECT_EQ(others.allocations(), 1);
  EXPECT_TRUE(SameDevice(other.device(), others.device(1)));
  EXPECT_THAT(NumbersOf(other), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST_F(DeviceTensorTest, ACloneStaysOnItsDevice) {
  const Tensor there = Numbers({2, 3}).To(second_).value();
  const Tensor turned = there.Transpose(0, 1).value();
  const Tensor clone = turned.Clone().value();
  EXPECT_TRUE(SameDevice(clone.device(), second_));
  EXPECT_TRUE(clone.spec().is_contiguous());
  EXPECT_NE(clone.storage(), there.storage());
  EXPECT_THAT(NumbersOf(clone), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_EQ(there.Contiguous().value().storage(), there.storage());
  EXPECT_TRUE(SameDevice(turned.Contiguous().value().device(), second_));
}

TEST_F(DeviceTensorTest, ACloneOfPinnedMemoryIsOrdinary) {
  int32_t pinned[3] = {1, 2, 3};
  const Tensor tensor =
      Tensor::FromSpec(
          TensorSpec::Contiguous(kNumber, {3}).value(),
          Storage::FromLent({.data = reinterpret_cast<std::byte*>(pinned),
                             .size_bytes = sizeof(pinned),
                             .writable = true,
                             .device = {kDLCUDAHost, 0}}))
          .value();
  EXPECT_EQ(tensor.ToCpu().value().storage(), tensor.storage());
  const Tensor clone = tensor.Clone().value();
  EXPECT_TRUE(SameDevice(clone.device(), kCpuDevice));
  // A driver copies from it as from other memory of the CPU.
  EXPECT_THAT(NumbersOf(tensor.To(first_).value()), ElementsAre(1, 2, 3));
  EXPECT_THAT(tensor.CopyFrom(Numbers({3}).To(first_).value()), IsOk());
  EXPECT_THAT(pinned, ElementsAre(0, 1, 2));
}

TEST_F(DeviceTensorTest, WithoutElementsItKeepsTheDevice) {
  for (const Tensor& tensor : {Tensor(), Numbers({0, 3})}) {
    const Tensor there = tensor.To(first_).value();
    EXPECT_TRUE(SameDevice(there.device(), first_));
    EXPECT_TRUE(there.spec() == tensor.spec());
    EXPECT_THAT(there.CopyFrom(tensor), IsOk());
    EXPECT_TRUE(there.Clone().value().ToCpu().value().is_on_cpu());
  }
}

TEST_F(DeviceTensorTest, MayOverlap) {
  const Tensor there = Numbers({8}).To(first_).value();
  const Tensor front = there.Slice(0, {.stop = 6}).value();
  const Tensor back = there.Slice(0, {.start = 2}).value();
  ASSERT_THAT(back.CopyFrom(front), IsOk());
  EXPECT_THAT(NumbersOf(there), ElementsAre(0, 1, 0, 1, 2, 3, 4, 5));
}

// A tensor of `shape` that has gaps and turned dimensions in a dense one of
// random elements.
struct View {
  Tensor whole;
  Tensor view;
};

View RandomView(std::vector<int64_t> shape, std::mt19937_64& random) {
  const size_t turned = random() % shape.size();
  std::vector<SliceRange> ranges;
  for (const int64_t extent : shape) {
    const auto start = static_cast<int64_t>(random() % 2);
    const auto step = static_cast<int64_t>(1 + random() % 2);
    ranges.push_back(
        {.start = start, .stop = start + extent * step, .step = step});
  }
  std::vector<int64_t> whole;
  for (const SliceRange& range : ranges) {
    whole.push_back(*range.stop + static_cast<int64_t>(random() % 2));
  }
  std::swap(whole[0], whole[turned]);
  View made;
  made.whole = Tensor::Create(kNumber, whole).value();
  const auto elements = made.whole.data<int32_t>().value();
  for (int32_t& element : elements) element = static_cast<int32_t>(random());
  made.view = made.whole.Transpose(0, static_cast<int>(turned)).value();
  for (size_t i = 0; i < ranges.size(); ++i) {
    made.view = made.view.Slice(static_cast<int>(i), ranges[i]).value();
  }
  return made;
}

// The same view in a copy of the whole.
View On(const View& view, const DLDevice& device) {
  View there;
  there.whole = SameDevice(device, kCpuDevice) ? view.whole.Clone().value()
                                               : view.whole.To(device).value();
  there.view =
      Tensor::FromSpec(view.view.spec(), there.whole.storage()).value();
  return there;
}

// The same bytes as on the CPU, also between the elements.
TEST_F(DeviceTensorTest, CopiesOfAnyStridesAreAsOnTheCpu) {
  const DLDevice places[] = {kCpuDevice, first_, second_,
                             TestDevices::Get(kDLVPI).device(0)};
  std::mt19937_64 random(1);
  int by_runs = 0;
  for (int round = 0; round < 2'000; ++round) {
    std::vector<int64_t> shape(1 + random() % 4);
    for (int64_t& extent : shape) extent = static_cast<int64_t>(random() % 5);
    const View to = RandomView(shape, random);
    const View from = RandomView(shape, random);
    const View to_there = On(to, places[random() % 4]);
    const View from_there = On(from, places[random() % 4]);
    ASSERT_THAT(to.view.CopyFrom(from.view), IsOk());
    by_runs += CopiesOf([&] {
                 ASSERT_THAT(to_there.view.CopyFrom(from_there.view), IsOk());
               }) > 2;
    ASSERT_EQ(NumbersOf(to_there.whole), NumbersOf(to.whole))
        << DeviceName(to_there.view.device()) << " "
        << to.view.spec().ToString() << " from "
        << DeviceName(from_there.view.device()) << " "
        << from.view.spec().ToString();
  }
  EXPECT_GT(by_runs, 100);
}

TEST_F(DeviceTensorTest, FewCallsOfTheDriver) {
  const Tensor there = Numbers({64, 64}).To(first_).value();
  const Tensor turned = there.Transpose(0, 1).value();
  // By the CPU, instead of 4096 elements.
  EXPECT_EQ(CopiesOf([&] { EXPECT_THAT(turned.Clone(), IsOk()); }), 2);
  EXPECT_EQ(CopiesOf([&] { EXPECT_THAT(turned.ToCpu(), IsOk()); }), 1);
  EXPECT_EQ(CopiesOf([&] {
              const Tensor here = Numbers({64, 64}).Transpose(0, 1).value();
              EXPECT_THAT(here.To(first_), IsOk());
            }),
            1);
  // Two long rows, far from one another: not what is between them.
  const Tensor large = Numbers({9, 1 << 16}).To(first_).value();
  const Tensor rows = large.Slice(0, {.step = 8}).value();
  EXPECT_EQ(CopiesOf([&] { EXPECT_THAT(rows.ToCpu(), IsOk()); }), 2);
}

TEST_F(DeviceTensorTest, ADriversErrorIsTheErrorOfTheCopy) {
  const Tensor here = Numbers({4});
  const Tensor there = here.To(first_).value();
  const auto fails =
      StatusIs(absl::StatusCode::kInternal, HasSubstr("the test lets it fail"));
  devices_.FailCopy(1);
  EXPECT_THAT(here.To(first_), fails);
  devices_.FailCopy(1);
  EXPECT_THAT(there.ToCpu(), fails);
  devices_.FailCopy(1);
  EXPECT_THAT(there.Clone(), fails);
  devices_.FailCopy(2);
  EXPECT_THAT(Numbers({2, 2}).To(first_).value().Transpose(0, 1)->ToCpu(),
              fails);
  EXPECT_EQ(devices_.allocations(), 1);
  EXPECT_THAT(here.To(devices_.device(2)),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("there is no device type 12 (number 2)")));
}

// ---- Without a driver ----

TEST_F(DeviceTensorTest, WithoutADriverTheErrorNamesTheTarget) {
  const Tensor tensor = OnCuda(1);
  const Tensor here = Numbers({4});
  const auto link =
      StatusIs(absl::StatusCode::kFailedPrecondition,
               HasSubstr("cannot access the memory of cuda:1; link "
                         "//cuda_ipc:device_tensor"));
  EXPECT_THAT(tensor.ToCpu(), link);
  EXPECT_THAT(tensor.Clone(), link);
  EXPECT_THAT(tensor.To(first_), link);
  EXPECT_THAT(tensor.CopyFrom(here), link);
  EXPECT_THAT(here.CopyFrom(tensor), link);
  EXPECT_THAT(here.To({kDLCUDA, 1}), link);
  // Nothing has to be copied.
  EXPECT_THAT(tensor.Contiguous(), IsOk());
  EXPECT_THAT(tensor.To({kDLCUDA, 1}), IsOk());
  EXPECT_THAT(tensor.device_data<int32_t>(), IsOk());
}

TEST_F(DeviceTensorTest, ToNoDevice) {
  const Tensor here = Numbers({4});
  EXPECT_THAT(here.To({kDLCUDA, -1}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("the negative number -1")));
  DLDevice unknown = kCpuDevice;
  const int32_t type = 1000;
  std::memcpy(&unknown.device_type, &type, sizeof(type));
  EXPECT_THAT(here.To(unknown),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("no DeviceMemory is registered for device "
                                 "type 1000 (number 0)")));
}

TEST_F(DeviceTensorTest, ATypeHasOneDriver) {
  class None final : public DeviceMemory {
    absl::Status Copy(const To&, const From&) const override {
      return absl::OkStatus();
    }
    absl::StatusOr<std::shared_ptr<Storage>> Allocate(const DLDevice&,
                                                      size_t) const override {
      return absl::OkStatus();
    }
    absl::Status CheckLent(const DLDevice&,
                           std::span<const std::byte>) const override {
      return absl::OkStatus();
    }
  };
  EXPECT_THAT(RegisterDeviceMemory(kDLExtDev, std::make_unique<None>()),
              StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_THAT(RegisterDeviceMemory(kDLCPU, std::make_unique<None>()),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(DeviceMemoryOf(second_),
              IsOkAndHolds(static_cast<const DeviceMemory*>(&devices_)));
}

// A driver does not work in a forked child, and its memory is its parent's.
TEST_F(DeviceTensorTest, IsInertInAForkedChild) {
  Tensor there = Numbers({4}).To(first_).value();
  EXPECT_TRUE(PassesInChild([&] {
    const auto inert = StatusIs(absl::StatusCode::kFailedPrecondition,
                                HasSubstr("inherited by fork()"));
    EXPECT_THAT(there.device_data<const int32_t>(), inert);
    EXPECT_THAT(there.data<const int32_t>(), inert);
    EXPECT_THAT(there.ToCpu(), inert);
    EXPECT_THAT(there.CopyFrom(Numbers({4})), inert);
    EXPECT_THAT(Numbers({4}).CopyFrom(there), inert);
    there = Tensor();
  }));
  EXPECT_THAT(NumbersOf(there), ElementsAre(0, 1, 2, 3));
}

}  // namespace
}  // namespace tenon

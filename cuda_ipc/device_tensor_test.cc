// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Tensors on CUDA devices, by the fake driver as the driver of this process.

#include "tenon/cuda_ipc/device_tensor.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/device_context.h"
#include "tenon/cuda_ipc/device_loan_testing.h"
#include "tenon/cuda_ipc/fake/fake_driver.h"
#include "tenon/cuda_ipc/torch_exporter.h"
#include "tenon/cuda_ipc/torch_tensor.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/duplicate_fd.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/device.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/exchange/dlpack.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::cuda_ipc {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr DLDevice kGpu = {kDLCUDA, 0};
constexpr DLDevice kOther = {kDLCUDA, 1};

// Loaded once: DeviceContexts::OfProcess() keeps what it loads. With each
// operation of a stream delayed, a missing wait is wrong elements.
FakeDriver& Fake() {
  static FakeDriver& fake = *new FakeDriver("delay_us=500");
  return fake;
}

class CudaTensorTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { Fake().SetEnvironment(); }
  ~CudaTensorTest() override {
    EXPECT_THAT(TrimDeviceTensors(), IsOk());
    EXPECT_EQ(Fake().HeldBytes(0) + Fake().HeldBytes(1), 0u);
  }
};

// 0, 1, 2, ... in row-major order.
Tensor Counting(absl::Span<const int64_t> shape) {
  Tensor tensor = Tensor::Create(kDtypeOf<int32_t>, shape).value();
  const auto elements = tensor.data<int32_t>().value();
  std::iota(elements.begin(), elements.end(), 0);
  return tensor;
}

std::vector<int32_t> Elements(const Tensor& tensor) {
  const Tensor here = tensor.ToCpu().value().Contiguous().value();
  const auto elements = here.data<const int32_t>().value();
  return {elements.begin(), elements.end()};
}

TEST_F(CudaTensorTest, ToDevicesAndBack) {
  const Tensor there = Counting({2, 3}).To(kGpu).value();
  EXPECT_EQ(DeviceName(there.device()), "cuda:0");
  const Tensor other = there.To(kOther).value();
  EXPECT_EQ(DeviceName(other.device()), "cuda:1");
  EXPECT_THAT(Elements(other), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(there.data<const int32_t>(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("the tensor is on cuda:0")));
  EXPECT_THAT(Counting({2}).To({kDLCUDA, 7}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no device 7")));
}

// As those of a DevicePool: device_sharing_test.cc.
TEST_F(CudaTensorTest, CanBeSent) {
  const Tensor there = Counting({2, 3}).To(kGpu).value();
  EXPECT_TRUE(there.is_shared());
  EXPECT_TRUE(there.Clone().value().is_shared());
  const Tensor row = there.Select(0, 1).value();
  const ArenaOffer offer = Offer(row).value();
  std::vector<UniqueFd> fds;
  for (const int fd : offer.fds) {
    fds.push_back(DuplicateFd(fd, "an offer's").value());
  }
  ArenaTensorImporter importer;
  ASSERT_THAT(importer.Accept(offer.bytes, std::move(fds)), IsOk());
  const Tensor got = importer.Claim(Describe(row).value()).value();
  EXPECT_TRUE(SameDevice(got.device(), kGpu));
  EXPECT_THAT(Elements(got), ElementsAre(3, 4, 5));
}

TEST_F(CudaTensorTest, ViewsAndClones) {
  const Tensor there = Counting({4, 6}).To(kGpu).value();
  const Tensor turned = there.Transpose(0, 1).value().Select(0, 2).value();
  const Tensor clone = turned.Clone().value();
  EXPECT_TRUE(SameDevice(clone.device(), kGpu));
  ASSERT_THAT(turned.CopyFrom(Counting({4})), IsOk());
  EXPECT_THAT(Elements(clone), ElementsAre(2, 8, 14, 20));
  EXPECT_THAT(Elements(there.Select(1, 2).value()), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Elements(there.Select(1, 3).value()), ElementsAre(3, 9, 15, 21));
}

// The struct of another library over memory of a device.
template <typename Managed>
struct Theirs {
  explicit Theirs(const Tensor& tensor) {
    managed.dl_tensor = {.data = tensor.device_data<std::byte>().value(),
                         .device = tensor.device(),
                         .ndim = 1,
                         .dtype = tensor.spec().dtype(),
                         .shape = &extent,
                         .strides = nullptr,
                         .byte_offset = 0};
    extent = tensor.spec().elements();
    managed.manager_ctx = this;
    managed.deleter = [](Managed* self) {
      ++static_cast<Theirs*>(self->manager_ctx)->deleted;
    };
  }
  Managed managed = {};
  int64_t extent;
  int deleted = 0;
};

TEST_F(CudaTensorTest, DLPackOutAndIn) {
  const Tensor there = Counting({6}).To(kOther).value();
  DLPackTensor out = ToDLPack(there).value();
  EXPECT_EQ(out->dl_tensor.device.device_type, kDLCUDA);
  EXPECT_EQ(out->dl_tensor.device.device_id, 1);
  {
    const Tensor in = FromDLPack(std::move(out)).value();
    ASSERT_THAT(in.CopyFrom(Counting({6}).Slice(0, {.start = 0}).value()),
                IsOk());
    EXPECT_THAT(Elements(in), ElementsAre(0, 1, 2, 3, 4, 5));
  }
  Theirs<DLManagedTensor> theirs(there);
  {
    const Tensor in = FromDLPack(LegacyDLPackTensor(&theirs.managed)).value();
    EXPECT_THAT(Elements(in), ElementsAre(0, 1, 2, 3, 4, 5));
    EXPECT_EQ(theirs.deleted, 0);
  }
  EXPECT_EQ(theirs.deleted, 1);
}

TEST_F(CudaTensorTest, DLPackOfOtherAddressesIsRefused) {
  const Tensor here = Counting({6});
  const Tensor there = here.To(kGpu).value();
  Theirs<DLManagedTensor> theirs(there);
  theirs.managed.dl_tensor.device = kOther;
  EXPECT_THAT(FromDLPack(LegacyDLPackTensor(&theirs.managed)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("DLPack tensor on cuda:1: address 0x")));
  theirs.managed.dl_tensor.device = kGpu;
  theirs.managed.dl_tensor.data = here.data<int32_t>().value().data();
  EXPECT_THAT(FromDLPack(LegacyDLPackTensor(&theirs.managed)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("is not of the driver's memory")));
  theirs.managed.dl_tensor.device = {kDLCUDA, 7};
  EXPECT_THAT(FromDLPack(LegacyDLPackTensor(&theirs.managed)),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no device 7")));
  EXPECT_EQ(theirs.deleted, 3);
}

TEST_F(CudaTensorTest, ADeviceByItsUuid) {
  DeviceContexts* const devices = DeviceContexts::OfProcess().value();
  const auto found = FindCudaDevice(devices->devices()[1].uuid);
  ASSERT_THAT(found, IsOk());
  EXPECT_TRUE(SameDevice(*found, kOther));
  EXPECT_THAT(FindCudaDevice({1, 2, 3}), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(CudaTensorTest, AForkedChildHasNone) {
  const Tensor there = Counting({6}).To(kGpu).value();
  EXPECT_TRUE(PassesInChild(
      [&] {
        EXPECT_THAT(there.ToCpu(),
                    StatusIs(absl::StatusCode::kFailedPrecondition,
                             HasSubstr("inherited by fork()")));
        EXPECT_THAT(Counting({6}).To(kGpu),
                    StatusIs(absl::StatusCode::kFailedPrecondition));
      },
      /*may_have_threads=*/true));
  EXPECT_THAT(Elements(there), ElementsAre(0, 1, 2, 3, 4, 5));
}

// ---- Threads that exchange tensors with torch ----

constexpr int kTorchThreads = 3;
constexpr int kTorchRounds = 40;
constexpr int64_t kTorchElements = 100;

// Exports, and releases each message: one that is received by the drop of its
// tensor, others at once. Every fourth message is cancelled.
void ExportAndRelease(TorchExporter& exporter, const Tensor& tensor) {
  for (int i = 0; i < kTorchRounds; ++i) {
    const absl::StatusOr<TorchTensor> message = exporter.Export(tensor);
    ASSERT_THAT(message, IsOk());
    if (i % 4 == 0) {
      EXPECT_THAT(exporter.Cancel(*message), IsOk());
    } else if (i % 4 == 1) {
      EXPECT_THAT(ReleaseTorch(*message), IsOk());
    } else {
      const absl::StatusOr<Tensor> received =
          FromTorch(*message, Deadline::After(absl::Seconds(60)));
      ASSERT_THAT(received, IsOk());
      EXPECT_EQ(received->spec().elements(), kTorchElements);
    }
  }
}

// For ThreadSanitizer, which does not see other processes.
TEST_F(CudaTensorTest, ThreadsExportToTorchReceiveAndReleaseAtOnce) {
  std::atomic<int> freed = 0;
  TENON_ASSERT_OK_AND_ASSIGN(auto exporter, TorchExporter::Create());
  {
    const auto memory =
        LibraryMemory::Create(kTorchElements * sizeof(int64_t), [&] {
          ++freed;
        }).value();
    const Tensor tensor = memory.Numbers(0, kTorchElements).value();
    std::vector<std::thread> threads;
    for (int i = 0; i < kTorchThreads; ++i) {
      threads.emplace_back([&] { ExportAndRelease(*exporter, tensor); });
    }
    std::atomic<bool> is_done = false;
    std::thread reaper([&] {
      while (!is_done) {
        EXPECT_THAT(exporter->Reap(), IsOk());
        EXPECT_LE(exporter->unreleased(), size_t{kTorchThreads} * kTorchRounds);
      }
    });
    for (std::thread& thread : threads) thread.join();
    is_done = true;
    reaper.join();
  }
  // All were released, and nothing keeps the memory.
  EXPECT_THAT(exporter->Close(Deadline::After(absl::Seconds(60))), IsOk());
  EXPECT_EQ(exporter->unreleased(), 0u);
  EXPECT_TRUE(Becomes([&] {
    EXPECT_THAT(TrimDeviceTensors(), IsOk());
    return freed == 1;
  }));
}

}  // namespace
}  // namespace tenon::cuda_ipc

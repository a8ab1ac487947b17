// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/device_allocation.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/device_context.h"
#include "tenon/cuda_ipc/device_copy.h"
#include "tenon/cuda_ipc/device_testing.h"
#include "tenon/shm/base/duplicate_fd.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::cuda_ipc {
namespace {

using ::testing::HasSubstr;

constexpr char kOnlyTheFake[] =
    "needs the fake driver: it counts and fails calls, and has settings";

class DeviceAllocationTest : public DeviceTest {
 protected:
  DeviceAllocation Create() {
    absl::StatusOr<DeviceAllocation> memory =
        DeviceAllocation::Create(*gpu_, kPage);
    EXPECT_THAT(memory, IsOk());
    return *std::move(memory);
  }
  absl::StatusOr<DeviceAllocation> Import(int fd, DeviceAccess access,
                                          size_t bytes = kPage) {
    absl::StatusOr<UniqueFd> copy = DuplicateFd(fd, "memory");
    EXPECT_THAT(copy, IsOk());
    return DeviceAllocation::Import(*gpu_, *std::move(copy), bytes, access);
  }
  uint32_t Read(const DeviceAllocation& memory) {
    uint32_t value = 0;
    EXPECT_THAT(CopyToHost(*gpu_, std::as_writable_bytes(std::span(&value, 1)),
                           memory.address()),
                IsOk());
    return value;
  }
  // 0 without the fake, which counts them.
  size_t HeldBytes() const { return has_fake() ? fake_.HeldBytes(0) : 0; }
  absl::Status Write(const DeviceAllocation& memory, uint32_t value) {
    return CopyToDevice(*gpu_, memory.address(),
                        std::as_bytes(std::span(&value, 1)));
  }
};

TEST_F(DeviceAllocationTest, AnImportIsTheSameMemoryAtAnotherAddress) {
  const DeviceAllocation memory = Create();
  ASSERT_THAT(Write(memory, 7), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const DeviceAllocation same,
                             Import(memory.fd(), DeviceAccess::kReadWrite));
  EXPECT_NE(same.address(), memory.address());
  EXPECT_EQ(Read(same), 7);
  ASSERT_THAT(Write(same, 8), IsOk());
  EXPECT_EQ(Read(memory), 8);
  EXPECT_EQ(HeldBytes(), has_fake() ? kPage : 0);
}

TEST_F(DeviceAllocationTest, ItsDescriptorIsCloseOnExec) {
  const DeviceAllocation memory = Create();
  EXPECT_EQ(fcntl(memory.fd(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

TEST_F(DeviceAllocationTest, MemoryLivesAsLongAsAMappingOrADescriptor) {
  std::optional<DeviceAllocation> memory = Create();
  ASSERT_THAT(Write(*memory, 7), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(UniqueFd fd, DuplicateFd(memory->fd(), "memory"));
  TENON_ASSERT_OK_AND_ASSIGN(std::optional<DeviceAllocation> same,
                             Import(memory->fd(), DeviceAccess::kReadOnly));
  memory.reset();
  EXPECT_EQ(Read(*same), 7);
  same.reset();
  EXPECT_EQ(HeldBytes(), has_fake() ? kPage : 0);
  TENON_ASSERT_OK_AND_ASSIGN(same, Import(fd.get(), DeviceAccess::kReadOnly));
  EXPECT_EQ(Read(*same), 7);
  fd.Reset();
  same.reset();
  EXPECT_EQ(HeldBytes(), 0u);
}

TEST_F(DeviceAllocationTest, AReadOnlyImportCannotBeWritten) {
  if (!has_fake()) GTEST_SKIP() << kOnlyTheFake;
  const DeviceAllocation memory = Create();
  TENON_ASSERT_OK_AND_ASSIGN(const DeviceAllocation same,
                             Import(memory.fd(), DeviceAccess::kReadOnly));
  EXPECT_EQ(same.access(), DeviceAccess::kReadOnly);
  // The process's work on devices ends with it.
  EXPECT_THAT(Write(same, 1),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS")));
}

TEST_F(DeviceAllocationTest, WhereReadOnlyIsRefusedAnImportIsWritable) {
  if (!has_fake()) GTEST_SKIP() << kOnlyTheFake;
  Start("read_only=0");
  const DeviceAllocation memory = Create();
  TENON_ASSERT_OK_AND_ASSIGN(const DeviceAllocation same,
                             Import(memory.fd(), DeviceAccess::kReadOnly));
  EXPECT_EQ(same.access(), DeviceAccess::kReadWrite);
  EXPECT_THAT(Write(same, 1), IsOk());
}

TEST_F(DeviceAllocationTest, PeersAccessWhatIsMappedOnceTheyAreAllowed) {
  if (other_ == nullptr) GTEST_SKIP() << "there is one device";
  const auto read_from = [](const DeviceContext& device, CUdeviceptr address) {
    uint32_t value = 0;
    return device.Run([&]() -> absl::StatusOr<uint32_t> {
      TENON_RETURN_IF_ERROR(device.Error(
          device.driver().cuMemcpyDtoH_v2(&value, address, sizeof(value)),
          "cuMemcpyDtoH"));
      return value;
    });
  };
  EXPECT_THAT(gpu_->AllowPeer(*gpu_), IsOk());
  EXPECT_THAT(gpu_->peers(), testing::IsEmpty());
  EXPECT_THAT(gpu_->AllowPeer(*other_), IsOk());
  EXPECT_THAT(gpu_->AllowPeer(*other_), IsOk());
  EXPECT_THAT(gpu_->peers(), testing::ElementsAre(1));
  const DeviceAllocation memory = Create();
  ASSERT_THAT(Write(memory, 7), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const DeviceAllocation same,
                             Import(memory.fd(), DeviceAccess::kReadOnly));
  EXPECT_THAT(read_from(*other_, memory.address()), IsOkAndHolds(7u));
  EXPECT_THAT(read_from(*other_, same.address()), IsOkAndHolds(7u));
  const uint32_t eight = 8;
  EXPECT_THAT(CopyToDevice(*other_, memory.address(),
                           std::as_bytes(std::span(&eight, 1))),
              IsOk());
  EXPECT_EQ(Read(memory), 8);
  // Not the other way round; the process's work on devices ends with it.
  if (!has_fake()) return;
  TENON_ASSERT_OK_AND_ASSIGN(const DeviceAllocation far,
                             DeviceAllocation::Create(*other_, kPage));
  EXPECT_THAT(read_from(*gpu_, far.address()),
              StatusIs(absl::StatusCode::kInternal));
}

TEST_F(DeviceAllocationTest, DevicesThatAreNotConnectedAreNoPeers) {
  if (!has_fake()) GTEST_SKIP() << kOnlyTheFake;
  Start("peers=0");
  EXPECT_THAT(gpu_->AllowPeer(*other_),
              StatusIs(absl::StatusCode::kUnimplemented,
                       HasSubstr("device 1 cannot access the memory of device "
                                 "0 (cuDeviceCanAccessPeer)")));
  EXPECT_THAT(gpu_->peers(), testing::IsEmpty());
  const DeviceAllocation memory = Create();
  EXPECT_THAT(Write(memory, 7), IsOk());
}

TEST_F(DeviceAllocationTest, SizesAreRoundedUpToTheGranularity) {
  if (!has_fake()) GTEST_SKIP() << kOnlyTheFake;
  EXPECT_THAT(RoundUpToDevice(*gpu_, 0), IsOkAndHolds(0u));
  EXPECT_THAT(RoundUpToDevice(*gpu_, 1), IsOkAndHolds(kPage));
  EXPECT_THAT(RoundUpToDevice(*gpu_, kPage), IsOkAndHolds(kPage));
  EXPECT_THAT(RoundUpToDevice(*gpu_, kPage + 1), IsOkAndHolds(2 * kPage));
  EXPECT_THAT(RoundUpToDevice(*gpu_, std::numeric_limits<size_t>::max()),
              IsOkAndHolds(0u));
}

TEST_F(DeviceAllocationTest, AFullDeviceIsResourceExhausted) {
  if (!has_fake()) GTEST_SKIP() << kOnlyTheFake;
  Start("memory0=4194304");
  const DeviceAllocation first = Create();
  EXPECT_THAT(DeviceAllocation::Create(*gpu_, 2 * kPage),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("cuMemCreate(device 0)")));
  EXPECT_THAT(DeviceAllocation::Create(*gpu_, kPage), IsOk());
}

TEST_F(DeviceAllocationTest, ADeviceOrDriverWithoutTheFeatureSaysSo) {
  if (!has_fake()) GTEST_SKIP() << kOnlyTheFake;
  Start("attribute0=103:0");
  EXPECT_THAT(DeviceAllocation::Create(*gpu_, kPage),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("103")));
  EXPECT_THAT(RoundUpToDevice(*gpu_, kPage),
              StatusIs(absl::StatusCode::kUnimplemented));
}

TEST_F(DeviceAllocationTest, OtherDescriptorsAndOtherSizesAreRefused) {
  const DeviceAllocation memory = Create();
  const std::string before = Held();
  EXPECT_THAT(Import(memory.fd(), DeviceAccess::kReadWrite, 2 * kPage),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("cuMemMap(device 0)")));
  UniqueFd other(memfd_create("other", MFD_CLOEXEC));
  EXPECT_THAT(Import(other.get(), DeviceAccess::kReadWrite),
              StatusIs(absl::StatusCode::kInvalidArgument));
  other.Reset();
  EXPECT_EQ(Held(), before);
}

TEST_F(DeviceAllocationTest, MemoryOfAnotherDeviceIsRefused) {
  if (other_ == nullptr) GTEST_SKIP() << "there is one device";
  TENON_ASSERT_OK_AND_ASSIGN(const DeviceAllocation memory,
                             DeviceAllocation::Create(*other_, kPage));
  EXPECT_THAT(Import(memory.fd(), DeviceAccess::kReadWrite),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("is of device 1, not of device 0")));
}

TEST_F(DeviceAllocationTest,
       EachCallOfCreateThatFailsIsAnErrorAndNothingIsLost) {
  if (!has_fake()) GTEST_SKIP() << kOnlyTheFake;
  FailEachCall(
      {"cuCtxPopCurrent_v2", "cuCtxPushCurrent_v2", "cuDeviceGetAttribute",
       "cuMemAddressReserve", "cuMemCreate", "cuMemExportToShareableHandle",
       "cuMemMap", "cuMemRelease", "cuMemSetAccess"},
      [&] { return DeviceAllocation::Create(*gpu_, kPage).status(); });
}

TEST_F(DeviceAllocationTest,
       EachCallOfImportThatFailsIsAnErrorAndNothingIsLost) {
  if (!has_fake()) GTEST_SKIP() << kOnlyTheFake;
  const DeviceAllocation memory = Create();
  const auto import = [&](DeviceAccess access) {
    return [&, access] { return Import(memory.fd(), access).status(); };
  };
  FailEachCall(
      {"cuCtxPopCurrent_v2", "cuCtxPushCurrent_v2", "cuDeviceGetAttribute",
       "cuMemAddressReserve", "cuMemGetAllocationPropertiesFromHandle",
       "cuMemImportFromShareableHandle", "cuMemMap", "cuMemRelease",
       "cuMemSetAccess"},
      import(DeviceAccess::kReadWrite));
  // A refusal of read-only access is not an error.
  FailEachCall({"cuMemSetAccess"}, import(DeviceAccess::kReadOnly),
               [](const std::string&, CUresult error) {
                 return error == CUDA_ERROR_NOT_SUPPORTED ||
                        error == CUDA_ERROR_INVALID_VALUE ||
                        error == CUDA_ERROR_INVALID_DEVICE;
               });
}

TEST_F(DeviceAllocationTest, EachCallOfReleaseThatFailsCanBeRepeated) {
  if (!has_fake()) GTEST_SKIP() << kOnlyTheFake;
  FailEachCall({"cuMemAddressFree", "cuMemUnmap"}, [&]() -> absl::Status {
    DeviceAllocation memory = Create();
    const absl::Status result = memory.Release();
    EXPECT_THAT(memory.Release(), IsOk());
    EXPECT_THAT(memory.Release(), IsOk());
    return result;
  });
  // The destructor repeats it.
  const std::string before = Held();
  for (const char* const entry : {"cuMemAddressFree", "cuMemUnmap"}) {
    const DeviceAllocation memory = Create();
    fake_.Fail(entry, 1, CUDA_ERROR_INVALID_VALUE);
  }
  EXPECT_EQ(Held(), before);
}

TEST_F(DeviceAllocationTest, AReleaseNeitherWaitsNorNeedsAContext) {
  if (!has_fake()) GTEST_SKIP() << kOnlyTheFake;
  DeviceAllocation memory = Create();
  const uint64_t pushes = fake_.Calls("cuCtxPushCurrent_v2");
  const uint64_t before = fake_.AllCalls();
  ASSERT_THAT(memory.Release(), IsOk());
  EXPECT_EQ(fake_.AllCalls(), before + 2);  // Unmap, free.
  EXPECT_EQ(fake_.Calls("cuCtxPushCurrent_v2"), pushes);
  EXPECT_EQ(memory.fd(), -1);
}

TEST_F(DeviceAllocationTest, MovesHandOverAllOfIt) {
  const std::string before = Held();
  {
    DeviceAllocation memory = Create();
    const CUdeviceptr address = memory.address();
    DeviceAllocation moved = std::move(memory);
    EXPECT_EQ(moved.address(), address);
    moved = Create();
    EXPECT_NE(moved.fd(), -1);
    EXPECT_EQ(HeldBytes(), has_fake() ? kPage : 0);
  }
  EXPECT_EQ(Held(), before);
}

TEST_F(DeviceAllocationTest, AForkedChildReleasesNothing) {
  if (!has_fake()) GTEST_SKIP() << kOnlyTheFake;
  const DeviceAllocation memory = Create();
  EXPECT_TRUE(PassesInChild(
      [&] {
        const uint64_t before = fake_.AllCalls();
        {
          DeviceAllocation inherited =
              std::move(const_cast<DeviceAllocation&>(memory));
        }
        EXPECT_EQ(fake_.AllCalls(), before);
      },
      /*may_have_threads=*/true));
  EXPECT_THAT(Write(memory, 1), IsOk());
}

}  // namespace
}  // namespace tenon::cuda_ipc

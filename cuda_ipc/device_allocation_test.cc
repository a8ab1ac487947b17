// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/device_allocation.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/device_copy.h"
#include "tenon/cuda_ipc/device_testing.h"
#include "tenon/shm/base/duplicate_fd.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::cuda_ipc {
namespace {

using ::testing::HasSubstr;

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
    EXPECT_THAT(CopyToHost(*gpu_, &value, memory.address(), sizeof(value)),
                IsOk());
    return value;
  }
  absl::Status Write(const DeviceAllocation& memory, uint32_t value) {
    return CopyToDevice(*gpu_, memory.address(), &value, sizeof(value));
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
  EXPECT_EQ(fake_.HeldBytes(0), kPage);
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
  EXPECT_EQ(fake_.HeldBytes(0), kPage);
  TENON_ASSERT_OK_AND_ASSIGN(same, Import(fd.get(), DeviceAccess::kReadOnly));
  EXPECT_EQ(Read(*same), 7);
  fd.Reset();
  same.reset();
  EXPECT_EQ(fake_.HeldBytes(0), 0);
}

TEST_F(DeviceAllocationTest, AReadOnlyImportCannotBeWritten) {
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
  Start("read_only=0");
  const DeviceAllocation memory = Create();
  TENON_ASSERT_OK_AND_ASSIGN(const DeviceAllocation same,
                             Import(memory.fd(), DeviceAccess::kReadOnly));
  EXPECT_EQ(same.access(), DeviceAccess::kReadWrite);
  EXPECT_THAT(Write(same, 1), IsOk());
}

TEST_F(DeviceAllocationTest, SizesAreRoundedUpToTheGranularity) {
  EXPECT_THAT(RoundUpToDevice(*gpu_, 0), IsOkAndHolds(0u));
  EXPECT_THAT(RoundUpToDevice(*gpu_, 1), IsOkAndHolds(kPage));
  EXPECT_THAT(RoundUpToDevice(*gpu_, kPage), IsOkAndHolds(kPage));
  EXPECT_THAT(RoundUpToDevice(*gpu_, kPage + 1), IsOkAndHolds(2 * kPage));
  EXPECT_THAT(RoundUpToDevice(*gpu_, std::numeric_limits<size_t>::max()),
              IsOkAndHolds(0u));
}

TEST_F(DeviceAllocationTest, AFullDeviceIsResourceExhausted) {
  Start("memory0=4194304");
  const DeviceAllocation first = Create();
  EXPECT_THAT(DeviceAllocation::Create(*gpu_, 2 * kPage),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("cuMemCreate(device 0)")));
  EXPECT_THAT(DeviceAllocation::Create(*gpu_, kPage), IsOk());
}

TEST_F(DeviceAllocationTest, ADeviceOrDriverWithoutTheFeatureSaysSo) {
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
  TENON_ASSERT_OK_AND_ASSIGN(const DeviceAllocation memory,
                             DeviceAllocation::Create(*other_, kPage));
  EXPECT_THAT(Import(memory.fd(), DeviceAccess::kReadWrite),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("is of device 1, not of device 0")));
}

TEST_F(DeviceAllocationTest,
       EachCallOfCreateThatFailsIsAnErrorAndNothingIsLost) {
  FailEachCall(
      {"cuCtxPopCurrent_v2", "cuCtxPushCurrent_v2", "cuDeviceGetAttribute",
       "cuMemAddressReserve", "cuMemCreate", "cuMemExportToShareableHandle",
       "cuMemMap", "cuMemRelease", "cuMemSetAccess"},
      [&] { return DeviceAllocation::Create(*gpu_, kPage).status(); });
}

TEST_F(DeviceAllocationTest,
       EachCallOfImportThatFailsIsAnErrorAndNothingIsLost) {
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
    EXPECT_EQ(fake_.HeldBytes(0), kPage);
  }
  EXPECT_EQ(Held(), before);
}

TEST_F(DeviceAllocationTest, AForkedChildReleasesNothing) {
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

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The rules of contexts and memory within one process, each broken once.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/driver.h"
#include "tenon/cuda_ipc/fake/fake_driver.h"
#include "tenon/cuda_ipc/fake/fake_testing.h"

namespace tenon::cuda_ipc {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class FakeMemoryTest : public FakeDriverTest {
 protected:
  void* Pointer(CUdeviceptr address) const {
    return reinterpret_cast<void*>(address);
  }
  // The number in cuMemImportFromShareableHandle's pointer.
  static void* ByValue(int fd) {
    return reinterpret_cast<void*>(static_cast<intptr_t>(fd));
  }
};

TEST_F(FakeMemoryTest, NothingWorksBeforeInit) {
  fake_.Reset("");
  int count = 0;
  EXPECT_EQ(d_.cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
  CUcontext context = nullptr;
  EXPECT_EQ(d_.cuDevicePrimaryCtxRetain(&context, 0),
            CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_EQ(d_.cuInit(1), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(FakeMemoryTest, ContextsAreOfAThread) {
  std::thread([this] {
    CUdeviceptr address = 0;
    EXPECT_EQ(d_.cuMemAlloc_v2(&address, 1), CUDA_ERROR_INVALID_CONTEXT);
    CUmemGenericAllocationHandle handle = 0;
    const CUmemAllocationProp properties = Properties();
    EXPECT_EQ(d_.cuMemCreate(&handle, kPage, &properties, 0),
              CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(d_.cuCtxPopCurrent_v2(nullptr), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(d_.cuCtxSetCurrent(context_), CUDA_SUCCESS);
    EXPECT_EQ(d_.cuMemAlloc_v2(&address, 1), CUDA_SUCCESS);
  }).join();
  CUcontext current = nullptr;
  EXPECT_EQ(d_.cuCtxGetCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, context_);
  Push(1);
  CUdevice device = -1;
  EXPECT_EQ(d_.cuCtxGetDevice(&device), CUDA_SUCCESS);
  EXPECT_EQ(device, 1);
  EXPECT_EQ(d_.cuCtxPopCurrent_v2(&current), CUDA_SUCCESS);
  EXPECT_EQ(d_.cuCtxGetDevice(&device), CUDA_SUCCESS);
  EXPECT_EQ(device, 0);
  EXPECT_EQ(d_.cuCtxPushCurrent_v2(reinterpret_cast<CUcontext>(16)),
            CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(FakeMemoryTest, TheLastReleaseEndsAContextAndWhatItOwns) {
  const CUdeviceptr address = Allocate(4096);
  CreateStream();
  Push(0);  // Retained twice.
  EXPECT_EQ(d_.cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
  EXPECT_EQ(Write(address, 1), CUDA_SUCCESS);
  EXPECT_EQ(d_.cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
  EXPECT_EQ(Write(address, 1), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(d_.cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_THAT(fake_.Leaks(), IsEmpty());
  EXPECT_EQ(fake_.HeldBytes(0), 0);
}

TEST_F(FakeMemoryTest, TheCpuCannotReadADeviceAddress) {
  const CUdeviceptr allocated = Allocate(4096);
  const CUdeviceptr mapped = Map(Create(kPage), kPage);
  // The kernel refuses to read there, as the CPU would.
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  for (const CUdeviceptr address : {allocated, mapped}) {
    EXPECT_EQ(write(fds[1], Pointer(address), 1), -1);
    EXPECT_EQ(errno, EFAULT);
  }
  close(fds[0]);
  close(fds[1]);
}

TEST_F(FakeMemoryTest, SizesAreMultiplesOfTheGranularity) {
  CUmemAllocationProp properties = Properties();
  size_t granularity = 0;
  EXPECT_EQ(d_.cuMemGetAllocationGranularity(&granularity, &properties,
                                             CU_MEM_ALLOC_GRANULARITY_MINIMUM),
            CUDA_SUCCESS);
  EXPECT_EQ(granularity, kPage);
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(d_.cuMemCreate(&handle, kPage - 4096, &properties, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(d_.cuMemCreate(&handle, 0, &properties, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(d_.cuMemCreate(&handle, kPage, &properties, 1),
            CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr address = 0;
  EXPECT_EQ(d_.cuMemAddressReserve(&address, 4096, 0, 0, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(d_.cuMemAddressReserve(&address, kPage, 3, 0, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(d_.cuMemAddressReserve(&address, kPage, 8 * kPage, 0, 0),
            CUDA_SUCCESS);
  EXPECT_EQ(address % (8 * kPage), 0);
}

TEST_F(FakeMemoryTest, PropertiesAreChecked) {
  CUmemGenericAllocationHandle handle = 0;
  CUmemAllocationProp properties = Properties(2);
  EXPECT_EQ(d_.cuMemCreate(&handle, kPage, &properties, 0),
            CUDA_ERROR_INVALID_DEVICE);
  properties = Properties();
  properties.type = static_cast<CUmemAllocationType>(0);
  EXPECT_EQ(d_.cuMemCreate(&handle, kPage, &properties, 0),
            CUDA_ERROR_INVALID_VALUE);
  properties = Properties();
  properties.requestedHandleTypes = static_cast<CUmemAllocationHandleType>(8);
  EXPECT_EQ(d_.cuMemCreate(&handle, kPage, &properties, 0),
            CUDA_ERROR_NOT_SUPPORTED);
  Start("attribute=103:0");
  properties = Properties();
  EXPECT_EQ(d_.cuMemCreate(&handle, kPage, &properties, 0),
            CUDA_ERROR_NOT_SUPPORTED);
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
  EXPECT_EQ(d_.cuMemCreate(&handle, kPage, &properties, 0), CUDA_SUCCESS);
  Start("attribute=102:0");
  EXPECT_EQ(d_.cuMemCreate(&handle, kPage, &properties, 0),
            CUDA_ERROR_NOT_SUPPORTED);
}

TEST_F(FakeMemoryTest, AMappingIsOfAWholeAllocationInFreeReservedAddresses) {
  const CUmemGenericAllocationHandle handle = Create(2 * kPage);
  const CUdeviceptr address = Reserve(4 * kPage);
  EXPECT_EQ(d_.cuMemMap(address, kPage, kPage, handle, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(d_.cuMemMap(address, 2 * kPage, kPage, handle, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(d_.cuMemMap(address, 2 * kPage, 0, handle, 1),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(d_.cuMemMap(address, kPage, 0, handle, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(d_.cuMemMap(address + 4096, 2 * kPage, 0, handle, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(d_.cuMemMap(address + 3 * kPage, 2 * kPage, 0, handle, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(d_.cuMemMap(Reserve(kPage) + kPage, 2 * kPage, 0, handle, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(d_.cuMemMap(address, 2 * kPage, 0, handle + 1, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(d_.cuMemMap(address + kPage, 2 * kPage, 0, handle, 0),
            CUDA_SUCCESS);
  // Half of it is free.
  EXPECT_EQ(d_.cuMemMap(address, 2 * kPage, 0, handle, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(d_.cuMemMap(address + 2 * kPage, 2 * kPage, 0, handle, 0),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(FakeMemoryTest, UnmappingIsOfExactlyOneMapping) {
  const CUdeviceptr address = Reserve(4 * kPage);
  const CUmemGenericAllocationHandle one = Create(2 * kPage);
  const CUmemGenericAllocationHandle two = Create(2 * kPage);
  ASSERT_EQ(d_.cuMemMap(address, 2 * kPage, 0, one, 0), CUDA_SUCCESS);
  ASSERT_EQ(d_.cuMemMap(address + 2 * kPage, 2 * kPage, 0, two, 0),
            CUDA_SUCCESS);
  EXPECT_EQ(d_.cuMemUnmap(address, kPage), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(d_.cuMemUnmap(address + kPage, kPage), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(d_.cuMemUnmap(address, 4 * kPage), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(d_.cuMemAddressFree(address, 4 * kPage), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(d_.cuMemUnmap(address, 2 * kPage), CUDA_SUCCESS);
  EXPECT_EQ(d_.cuMemUnmap(address, 2 * kPage), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(d_.cuMemUnmap(address + 2 * kPage, 2 * kPage), CUDA_SUCCESS);
  EXPECT_EQ(d_.cuMemAddressFree(address, 2 * kPage), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(d_.cuMemAddressFree(address, 4 * kPage), CUDA_SUCCESS);
  EXPECT_EQ(d_.cuMemAddressFree(address, 4 * kPage), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(FakeMemoryTest, MemoryIsGoneWithItsLastHandleAndMapping) {
  const CUmemGenericAllocationHandle handle = Create(kPage);
  const CUdeviceptr address = Map(handle, kPage);
  CUmemGenericAllocationHandle again = 0;
  EXPECT_EQ(d_.cuMemRetainAllocationHandle(&again, Pointer(address + 5)),
            CUDA_SUCCESS);
  EXPECT_EQ(again, handle);
  EXPECT_EQ(d_.cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(d_.cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(d_.cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Write(address, 7), CUDA_SUCCESS);
  EXPECT_EQ(fake_.HeldBytes(0), kPage);
  EXPECT_EQ(d_.cuMemUnmap(address, kPage), CUDA_SUCCESS);
  EXPECT_EQ(fake_.HeldBytes(0), 0);
  EXPECT_EQ(d_.cuMemRetainAllocationHandle(&again, Pointer(address)),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(FakeMemoryTest, ANewMappingHasTheBytesAndNoAccess) {
  const CUmemGenericAllocationHandle handle = Create(kPage);
  const CUdeviceptr one = Map(handle, kPage);
  EXPECT_EQ(Write(one + 8, 42), CUDA_SUCCESS);
  const CUdeviceptr two = Map(handle, kPage);
  EXPECT_EQ(Read(two + 8), 42);
  EXPECT_EQ(d_.cuMemUnmap(one, kPage), CUDA_SUCCESS);
  ASSERT_EQ(d_.cuMemMap(one, kPage, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(Write(one, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(FakeMemoryTest, AccessIsSetForAWholeMapping) {
  const CUmemGenericAllocationHandle handle = Create(2 * kPage);
  const CUdeviceptr address = Reserve(2 * kPage);
  EXPECT_EQ(SetAccess(address, 2 * kPage, CU_MEM_ACCESS_FLAGS_PROT_READ),
            CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(d_.cuMemMap(address, 2 * kPage, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(SetAccess(address, kPage, CU_MEM_ACCESS_FLAGS_PROT_READ),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(SetAccess(address, 2 * kPage, static_cast<CUmemAccess_flags>(2)),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(SetAccess(address, 2 * kPage, CU_MEM_ACCESS_FLAGS_PROT_READ, 2),
            CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(FakeMemoryTest, AWriteToReadOnlyMemoryEndsAllWork) {
  const CUdeviceptr address = Map(Create(kPage), kPage);
  ASSERT_EQ(SetAccess(address, kPage, CU_MEM_ACCESS_FLAGS_PROT_READ),
            CUDA_SUCCESS);
  EXPECT_EQ(Read(address), 0);
  EXPECT_EQ(Write(address, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
  uint32_t value = 0;
  EXPECT_EQ(d_.cuMemcpyDtoH_v2(&value, address, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
  CUmemGenericAllocationHandle handle = 0;
  const CUmemAllocationProp properties = Properties();
  EXPECT_EQ(d_.cuMemCreate(&handle, kPage, &properties, 0),
            CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(FakeMemoryTest, ADriverMayRefuseReadOnlyAccess) {
  Start("read_only=0");
  const CUdeviceptr address = Map(Create(kPage), kPage);
  EXPECT_EQ(SetAccess(address, kPage, CU_MEM_ACCESS_FLAGS_PROT_READ),
            CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(Write(address, 1), CUDA_SUCCESS);
}

TEST_F(FakeMemoryTest, AccessIsPerDevice) {
  const CUdeviceptr address = Map(Create(kPage), kPage);
  EXPECT_EQ(SetAccess(address, kPage, CU_MEM_ACCESS_FLAGS_PROT_READ, 1),
            CUDA_SUCCESS);
  Push(1);
  EXPECT_EQ(Read(address), 0);
  EXPECT_EQ(Write(address, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
  Start("peers=0");
  const CUdeviceptr other = Map(Create(kPage), kPage);
  EXPECT_EQ(SetAccess(other, kPage, CU_MEM_ACCESS_FLAGS_PROT_READ, 1),
            CUDA_ERROR_NOT_SUPPORTED);
  int can = 1;
  EXPECT_EQ(d_.cuDeviceCanAccessPeer(&can, 0, 1), CUDA_SUCCESS);
  EXPECT_EQ(can, 0);
  Push(1);
  EXPECT_EQ(Write(other, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(FakeMemoryTest, CopiesBetweenDevicesNameBothContexts) {
  const CUdeviceptr here = Allocate(64);
  EXPECT_EQ(Write(here + 4, 99), CUDA_SUCCESS);
  const CUcontext there_context = Push(1);
  const CUdeviceptr there = Allocate(64);
  EXPECT_EQ(d_.cuMemcpyPeer(there, there_context, here, context_, 64),
            CUDA_SUCCESS);
  EXPECT_EQ(Read(there + 4), 99);
  EXPECT_EQ(d_.cuMemcpyDtoD_v2(there, here, 64), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(FakeMemoryTest, OnlyExportableMemoryIsExported) {
  CUmemAllocationProp properties = Properties();
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
  CUmemGenericAllocationHandle handle = 0;
  ASSERT_EQ(d_.cuMemCreate(&handle, kPage, &properties, 0), CUDA_SUCCESS);
  int fd = -1;
  constexpr auto kFd = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  EXPECT_EQ(d_.cuMemExportToShareableHandle(&fd, handle, kFd, 0),
            CUDA_ERROR_INVALID_VALUE);
  const CUmemGenericAllocationHandle exportable = Create(kPage);
  EXPECT_EQ(d_.cuMemExportToShareableHandle(&fd, exportable,
                                            CU_MEM_HANDLE_TYPE_NONE, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(d_.cuMemExportToShareableHandle(&fd, exportable, kFd, 1),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(fd, -1);
  ASSERT_EQ(d_.cuMemExportToShareableHandle(&fd, exportable, kFd, 0),
            CUDA_SUCCESS);
  // The caller has to set the flag.
  EXPECT_EQ(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
  close(fd);
  CUmemAllocationProp found = {};
  EXPECT_EQ(d_.cuMemGetAllocationPropertiesFromHandle(&found, exportable),
            CUDA_SUCCESS);
  EXPECT_EQ(found.requestedHandleTypes, kFd);
  EXPECT_EQ(found.location.id, 0);
}

TEST_F(FakeMemoryTest, AnImporterKeepsItsDescriptorAndCannotExport) {
  const CUmemGenericAllocationHandle handle = Create(kPage);
  EXPECT_EQ(Write(Map(handle, kPage), 5), CUDA_SUCCESS);
  constexpr auto kFd = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  int fd = -1;
  ASSERT_EQ(d_.cuMemExportToShareableHandle(&fd, handle, kFd, 0), CUDA_SUCCESS);
  CUmemGenericAllocationHandle imported = 0;
  // By its address, as a first guess may be.
  EXPECT_EQ(d_.cuMemImportFromShareableHandle(&imported, &fd, kFd),
            CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(d_.cuMemImportFromShareableHandle(&imported, ByValue(fd), kFd),
            CUDA_SUCCESS);
  EXPECT_NE(imported, handle);
  EXPECT_EQ(Read(Map(imported, kPage)), 5);
  EXPECT_EQ(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);  // Still open.
  int again = -1;
  EXPECT_EQ(d_.cuMemExportToShareableHandle(&again, imported, kFd, 0),
            CUDA_ERROR_INVALID_VALUE);
  close(fd);
}

TEST_F(FakeMemoryTest, OnlyDescriptorsOfDeviceMemoryAreImported) {
  constexpr auto kFd = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemGenericAllocationHandle handle = 0;
  const int file = memfd_create("other", MFD_CLOEXEC);
  EXPECT_EQ(d_.cuMemImportFromShareableHandle(&handle, ByValue(file), kFd),
            CUDA_ERROR_INVALID_VALUE);
  close(file);
  EXPECT_EQ(d_.cuMemImportFromShareableHandle(&handle, ByValue(file), kFd),
            CUDA_ERROR_INVALID_VALUE);
  // Of a device that this process does not see.
  int fd = -1;
  ASSERT_EQ(d_.cuMemExportToShareableHandle(&fd, Create(kPage, 1), kFd, 0),
            CUDA_SUCCESS);
  Start("devices=1");
  EXPECT_EQ(d_.cuMemImportFromShareableHandle(&handle, ByValue(fd), kFd),
            CUDA_ERROR_NOT_SUPPORTED);
  close(fd);
}

TEST_F(FakeMemoryTest, AllocationsHaveRulesOfTheirOwn) {
  CUdeviceptr address = 0;
  EXPECT_EQ(d_.cuMemAlloc_v2(&address, 0), CUDA_ERROR_INVALID_VALUE);
  address = Allocate(1'000);
  CUdeviceptr base = 0;
  size_t bytes = 0;
  EXPECT_EQ(d_.cuMemGetAddressRange_v2(&base, &bytes, address + 999),
            CUDA_SUCCESS);
  EXPECT_EQ(base, address);
  EXPECT_EQ(bytes, 1'000);
  EXPECT_EQ(d_.cuMemGetAddressRange_v2(&base, &bytes, address + 1'000),
            CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(d_.cuMemsetD8_v2(address, 1, 1'001), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(d_.cuMemsetD8_v2(address, 1, 1'000), CUDA_SUCCESS);
  EXPECT_EQ(Read(address + 996), 0x01010101);
  EXPECT_EQ(d_.cuMemFree_v2(address + 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(d_.cuMemFree_v2(Map(Create(kPage), kPage)),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(d_.cuMemFree_v2(address), CUDA_SUCCESS);
  EXPECT_EQ(d_.cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(FakeMemoryTest, PointersSayWhatTheyAre) {
  const CUdeviceptr allocated = Allocate(64);
  const CUdeviceptr mapped = Map(Create(kPage), kPage);
  int device = -1;
  EXPECT_EQ(d_.cuPointerGetAttribute(
                &device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, mapped),
            CUDA_SUCCESS);
  EXPECT_EQ(device, 0);
  bool is_legacy = false;
  constexpr auto kLegacy = CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE;
  EXPECT_EQ(d_.cuPointerGetAttribute(&is_legacy, kLegacy, allocated),
            CUDA_SUCCESS);
  EXPECT_TRUE(is_legacy);
  EXPECT_EQ(d_.cuPointerGetAttribute(&is_legacy, kLegacy, mapped),
            CUDA_SUCCESS);
  EXPECT_FALSE(is_legacy);
  EXPECT_EQ(d_.cuPointerGetAttribute(&is_legacy, kLegacy, 4096),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(FakeMemoryTest, ADeviceHasALimit) {
  Start("memory0=8388608");  // 4 pages.
  const CUmemGenericAllocationHandle handle = Create(2 * kPage);
  Allocate(kPage);
  size_t free = 0, total = 0;
  EXPECT_EQ(d_.cuMemGetInfo_v2(&free, &total), CUDA_SUCCESS);
  EXPECT_EQ(total, 4 * kPage);
  EXPECT_EQ(free, kPage);
  CUmemGenericAllocationHandle more = 0;
  const CUmemAllocationProp properties = Properties();
  EXPECT_EQ(d_.cuMemCreate(&more, 2 * kPage, &properties, 0),
            CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(d_.cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(d_.cuMemCreate(&more, 2 * kPage, &properties, 0), CUDA_SUCCESS);
}

TEST_F(FakeMemoryTest, LeaksAreListed) {
  fake_.Reset("");
  EXPECT_THAT(fake_.Leaks(), IsEmpty());
  Start("");
  EXPECT_THAT(fake_.Leaks(),
              ElementsAre("primary context of device 0, retained 1 times"));
  const CUmemGenericAllocationHandle handle = Create(kPage);
  const CUdeviceptr address = Map(handle, kPage);
  Allocate(17);
  CreateStream();
  const std::vector<std::string> leaks = fake_.Leaks();
  EXPECT_THAT(leaks, Contains("memory handle of 2097152 bytes with 1 "
                              "references"));
  EXPECT_THAT(leaks, Contains(HasSubstr("mapping of 2097152 bytes at")));
  EXPECT_THAT(leaks, Contains(HasSubstr("reservation of 2097152 bytes at")));
  EXPECT_THAT(leaks, Contains("allocation of 17 bytes"));
  EXPECT_THAT(leaks, Contains("stream of device 0"));
  EXPECT_EQ(leaks.size(), 6);
  EXPECT_EQ(d_.cuMemUnmap(address, kPage), CUDA_SUCCESS);
  EXPECT_EQ(d_.cuMemAddressFree(address, kPage), CUDA_SUCCESS);
  EXPECT_EQ(d_.cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(fake_.Leaks().size(), 3);
}

TEST_F(FakeMemoryTest, CallsAreCountedAndFailInTurn) {
  const uint64_t before = fake_.AllCalls();
  fake_.Fail("cuMemAlloc_v2", 2, CUDA_ERROR_UNKNOWN);
  CUdeviceptr address = 0;
  EXPECT_EQ(d_.cuMemAlloc_v2(&address, 64), CUDA_SUCCESS);
  EXPECT_EQ(d_.cuMemAlloc_v2(&address, 64), CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(d_.cuMemAlloc_v2(&address, 64), CUDA_SUCCESS);
  EXPECT_EQ(fake_.Calls("cuMemAlloc_v2"), 3);
  EXPECT_EQ(fake_.AllCalls(), before + 3);
  fake_.Fail("cuMemFree_v2", 0, CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(d_.cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(d_.cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
  fake_.StopFailing("cuMemFree_v2");
  EXPECT_EQ(d_.cuMemFree_v2(address), CUDA_SUCCESS);
  // By the environment's words.
  Start("fail=cuMemCreate:2:2");
  Create(kPage);
  CUmemGenericAllocationHandle handle = 0;
  const CUmemAllocationProp properties = Properties();
  EXPECT_EQ(d_.cuMemCreate(&handle, kPage, &properties, 0),
            CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(FakeMemoryTest, EveryEntryHasDocumentedErrors) {
#define TENON_EXPECT_ERRORS(symbol, parameters) \
  EXPECT_FALSE(fake_.DocumentedErrors(#symbol).empty()) << #symbol;
#define TENON_EXPECT_OPTIONAL_ERRORS(feature, symbol, parameters) \
  TENON_EXPECT_ERRORS(symbol, parameters)
  TENON_CUDA_REQUIRED_FUNCTIONS(TENON_EXPECT_ERRORS)
  TENON_CUDA_OPTIONAL_FUNCTIONS(TENON_EXPECT_OPTIONAL_ERRORS)
  EXPECT_THAT(fake_.DocumentedErrors("cuMemSetAccess"),
              ElementsAre(CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_DEVICE,
                          CUDA_ERROR_NOT_SUPPORTED));
}

}  // namespace
}  // namespace tenon::cuda_ipc

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Checks that are neither assumptions of the fake driver nor in a test binary.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/devices.h"
#include "tenon/cuda_ipc/driver.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/tools/gpu_check/check.h"
#include "tenon/tools/gpu_check/memory.h"

namespace tenon::gpu_check {
namespace {

using namespace cuda_ipc;  // NOLINT: CUDA's names.

// --- G1: what is there. ---

Outcome Probe(const Gpu& gpu) {
  std::string seen = absl::StrCat(
      gpu.device.device().name, ", ", UuidText(gpu.device.device().uuid),
      ", driver ", gpu.d.version, ", granularity ", Granularity(gpu));
  for (const int attribute : {99, 102, 103, 113, 122, 125, 128}) {
    int value = -1;
    const CUresult asked = gpu.d.cuDeviceGetAttribute(
        &value, static_cast<CUdevice_attribute>(attribute),
        gpu.device.device().ordinal);
    absl::StrAppend(&seen, ", attribute ", attribute, ": ",
                    asked == CUDA_SUCCESS ? absl::StrCat(value)
                                          : absl::StrCat("error ", int{asked}));
  }
  const UniqueFd self(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  const UniqueFd memory(
      memfd_create("gpu_check", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const bool seals =
      memory.valid() && fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK) == 0;
  absl::StrAppend(&seen, ", pidfd ", self.valid() ? "yes" : "no", ", seals ",
                  seals ? "yes" : "no");
  return PassIf(self.valid() && seals, seen);
}

// --- G7: legacy handles. ---

Outcome AHandleIsNotOpenedByItsExporter(const Gpu& gpu) {
  const absl::Status has = CheckFeature(gpu.d, DriverFeature::kLegacyIpc);
  if (!has.ok()) return NotRun(has.message());
  CUdeviceptr memory = 0;
  Need(gpu.d.cuMemAlloc_v2(&memory, size_t{2} << 20), "cuMemAlloc");
  CUipcMemHandle handle = {};
  const CUresult exported = gpu.d.cuIpcGetMemHandle(&handle, memory);
  if (exported != CUDA_SUCCESS) {
    return NotRun(absl::StrCat("cuIpcGetMemHandle returned ", int{exported}));
  }
  CUdeviceptr opened = 0;
  const CUresult result = gpu.d.cuIpcOpenMemHandle_v2(
      &opened, handle, kCuIpcMemLazyEnablePeerAccess);
  return PassIf(result == CUDA_ERROR_INVALID_CONTEXT,
                absl::StrCat("CUresult ", int{result}, ", expected 201"));
}

// --- G10: host functions. ---

Outcome HostFunctionsRunInOrderAndMayNotCall(const Gpu& gpu) {
  struct Seen {
    const DriverTable* driver;
    std::atomic<int> count = 0;
    std::atomic<int> call = -1;
  } seen{&gpu.d};
  CUstream stream = nullptr;
  Need(gpu.d.cuStreamCreate(&stream, kCuStreamNonBlocking), "stream");
  const auto count = [](void* data) {
    auto& now = *static_cast<Seen*>(data);
    size_t free = 0;
    size_t total = 0;
    now.call = now.driver->cuMemGetInfo_v2(&free, &total);
    ++now.count;
  };
  for (int i = 0; i < 8; ++i) {
    Need(gpu.d.cuLaunchHostFunc(stream, count, &seen), "cuLaunchHostFunc");
  }
  Need(gpu.d.cuStreamSynchronize(stream), "cuStreamSynchronize");
  return PassIf(seen.count == 8 && seen.call == CUDA_ERROR_NOT_PERMITTED,
                absl::StrCat(seen.count.load(), " of 8 ran, a call returned ",
                             seen.call.load(), ", expected 800"));
}

// --- G11: registered memory of memfds. ---

// A memfd that is mapped twice: as a worker has it and as its consumer.
struct TwoMappings {
  explicit TwoMappings(size_t bytes)
      : fd(memfd_create("gpu_check", MFD_CLOEXEC)),
        writable(Map(bytes, PROT_READ | PROT_WRITE)),
        readable(Map(bytes, PROT_READ)) {}
  char* Map(size_t bytes, int access) const {
    if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
      throw Broken("ftruncate() failed");
    }
    void* const data = mmap(nullptr, bytes, access, MAP_SHARED, fd.get(), 0);
    if (data == MAP_FAILED) throw Broken("mmap() failed");
    return static_cast<char*>(data);
  }
  const UniqueFd fd;
  char* const writable;
  char* const readable;
};

Outcome WhatAWriterWritesIsCopied(const Gpu& gpu) {
  constexpr size_t kBytes = size_t{4} << 20;
  const TwoMappings memory(kBytes);
  Need(gpu.d.cuMemHostRegister_v2(
           memory.readable, kBytes,
           kCuMemHostRegisterPortable | kCuMemHostRegisterReadOnly),
       "cuMemHostRegister(READ_ONLY)");
  std::memset(memory.writable, 0x6b, kBytes);  // After the registration.
  CUdeviceptr there = 0;
  CUstream stream = nullptr;
  Need(gpu.d.cuMemAlloc_v2(&there, kBytes), "cuMemAlloc");
  Need(gpu.d.cuStreamCreate(&stream, kCuStreamNonBlocking), "stream");
  Need(gpu.d.cuMemcpyHtoDAsync_v2(there, memory.readable, kBytes, stream),
       "cuMemcpyHtoDAsync");
  Need(gpu.d.cuStreamSynchronize(stream), "cuStreamSynchronize");
  std::vector<char> back(kBytes);
  Need(gpu.d.cuMemcpyDtoH_v2(back.data(), there, kBytes), "cuMemcpyDtoH");
  return PassIf(back == std::vector<char>(kBytes, 0x6b));
}

Outcome RegistrationsObeyTheirRules(const Gpu& gpu) {
  const TwoMappings memory(16384);
  char* const data = memory.writable;
  Need(gpu.d.cuMemHostRegister_v2(data, 8192, 0), "cuMemHostRegister");
  const CUresult overlap = gpu.d.cuMemHostRegister_v2(data + 4096, 8192, 0);
  const CUresult inside = gpu.d.cuMemHostUnregister(data + 4096);
  const CUresult unknown = gpu.d.cuMemHostUnregister(data + 8192);
  const CUresult done = gpu.d.cuMemHostUnregister(data);
  return PassIf(overlap == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED &&
                    inside == CUDA_ERROR_INVALID_VALUE &&
                    unknown == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED &&
                    done == CUDA_SUCCESS,
                absl::StrCat("overlap ", int{overlap}, " (712), inside ",
                             int{inside}, " (1), unknown ", int{unknown},
                             " (713), unregistered ", int{done}));
}

// --- Kernels. ---

// Adds 1 to each of `n` integers.
constexpr char kAddOne[] = R"(
.version 6.4
.target sm_50
.address_size 64
.visible .entry add_one(.param .u64 numbers, .param .u32 n) {
  .reg .pred %p;
  .reg .b32 %r<6>;
  .reg .b64 %d<4>;
  ld.param.u64 %d1, [numbers];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p, %r5, %r1;
  @%p bra done;
  cvta.to.global.u64 %d2, %d1;
  mul.wide.u32 %d3, %r5, 4;
  add.u64 %d2, %d2, %d3;
  ld.global.u32 %r2, [%d2];
  add.u32 %r2, %r2, 1;
  st.global.u32 [%d2], %r2;
done:
  ret;
}
)";

// A kernel writes through an import, and its exporter's mapping has the result.
Outcome AKernelWritesImportedMemory(const Gpu& gpu) {
  const absl::Status has = CheckFeature(gpu.d, DriverFeature::kKernels);
  if (!has.ok()) return NotRun(has.message());
  constexpr uint32_t kNumbers = 1000;
  const VirtualMemory made(gpu, Granularity(gpu));
  const UniqueFd fd = made.Export();
  CUmemGenericAllocationHandle handle = 0;
  Need(Import(gpu, fd.get(), &handle), "cuMemImportFromShareableHandle");
  const VirtualMemory imported(gpu, made.bytes(), handle);
  CUmodule module = nullptr;
  CUfunction add_one = nullptr;
  CUstream stream = nullptr;
  Need(gpu.d.cuMemsetD8_v2(made.address(), 0, made.bytes()), "cuMemsetD8");
  Need(gpu.d.cuModuleLoadData(&module, kAddOne), "cuModuleLoadData");
  Need(gpu.d.cuModuleGetFunction(&add_one, module, "add_one"), "function");
  Need(gpu.d.cuStreamCreate(&stream, kCuStreamNonBlocking), "stream");
  CUdeviceptr numbers = imported.address();
  uint32_t count = kNumbers;
  void* arguments[] = {&numbers, &count};
  Need(gpu.d.cuLaunchKernel(add_one, 8, 1, 1, 128, 1, 1, 0, stream, arguments,
                            nullptr),
       "cuLaunchKernel");
  Need(gpu.d.cuStreamSynchronize(stream), "cuStreamSynchronize");
  std::vector<uint32_t> back(kNumbers + 1);
  Need(gpu.d.cuMemcpyDtoH_v2(back.data(), made.address(),
                             back.size() * sizeof(uint32_t)),
       "cuMemcpyDtoH");
  std::vector<uint32_t> expected(kNumbers, 1);
  expected.push_back(0);
  return PassIf(back == expected);
}

}  // namespace

std::vector<Check> Others() {
  return {
      {"G1", "what device, driver and kernel have", Probe},
      {"G2.kernel", "a kernel writes imported memory",
       AKernelWritesImportedMemory},
      {"G7", "a legacy handle is not opened by its exporter",
       AHandleIsNotOpenedByItsExporter},
      {"G10", "host functions run in order and may not call the driver",
       HostFunctionsRunInOrderAndMayNotCall},
      {"G11.copy", "memory that another mapping writes is registered read-only",
       WhatAWriterWritesIsCopied},
      {"G11.rules", "rules of registration", RegistrationsObeyTheirRules},
  };
}

}  // namespace tenon::gpu_check

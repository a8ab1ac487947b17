// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// cuMemHostRegister: memory of the CPU that devices see.

#include <stdio.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <mutex>
#include <string>

#include "tenon/cuda_ipc/fake/contexts.h"
#include "tenon/cuda_ipc/fake/exports.h"
#include "tenon/cuda_ipc/fake/memory.h"
#include "tenon/cuda_ipc/fake/settings.h"

namespace tenon::cuda_ipc::fake {
namespace {

constexpr unsigned kKnownFlags = kCuMemHostRegisterPortable |
                                 kCuMemHostRegisterDeviceMap |
                                 kCuMemHostRegisterReadOnly;

bool Has(int device, CUdevice_attribute attribute) {
  const auto& attributes = CurrentSettings().devices[device].attributes;
  const auto found = attributes.find(attribute);
  return found != attributes.end() && found->second != 0;
}

// The registration that has `address`; else ranges.end(). With TableLock().
std::map<CUdeviceptr, Range>::iterator Find(uintptr_t start, size_t bytes) {
  auto& ranges = Addresses().ranges;
  for (auto range = ranges.begin(); range != ranges.end(); ++range) {
    if (range->second.kind != RangeKind::kHost) continue;
    const auto data = reinterpret_cast<uintptr_t>(range->second.data);
    if (start < data + range->second.bytes && data < start + bytes) {
      return range;
    }
  }
  return ranges.end();
}

}  // namespace

int HostAccess(uintptr_t start, size_t bytes) {
  std::ifstream maps("/proc/self/maps");
  int access = PROT_READ | PROT_WRITE;
  uintptr_t seen = start;  // All pages before it.
  for (std::string line; seen < start + bytes && std::getline(maps, line);) {
    uintptr_t first = 0;
    uintptr_t end = 0;
    char flags[5] = {};
    if (sscanf(line.c_str(), "%lx-%lx %4s", &first, &end, flags) != 3) continue;
    if (end <= seen) continue;
    if (first > seen) return -1;
    if (flags[0] != 'r') access &= ~PROT_READ;
    if (flags[1] != 'w') access &= ~PROT_WRITE;
    seen = end;
  }
  return seen < start + bytes ? -1 : access;
}

extern "C" {

CUresult cuMemHostRegister_v2(void* memory, size_t bytes, unsigned int flags) {
  TENON_FAKE_ENTER(cuMemHostRegister_v2, kContext);
  const CUcontext context = CurrentContext();
  if (memory == nullptr || bytes == 0 || (flags & ~kKnownFlags) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool is_read_only = (flags & kCuMemHostRegisterReadOnly) != 0;
  if (!Has(context->device, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED) ||
      (is_read_only &&
       !Has(context->device,
            CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED))) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  const auto host = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t start = host / kHostPage * kHostPage;
  const size_t size =
      (host + bytes - start + kHostPage - 1) / kHostPage * kHostPage;
  const std::lock_guard lock(TableLock());
  if (Find(start, size) != Addresses().ranges.end()) {
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  }
  const int needed = is_read_only ? PROT_READ : PROT_READ | PROT_WRITE;
  const int access = HostAccess(start, size);
  if (access < 0 || (access & needed) != needed) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUdeviceptr base = ReserveAddresses(size, kHostPage);
  if (base == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  const bool is_portable = (flags & kCuMemHostRegisterPortable) != 0;
  Addresses().ranges[base] = {
      .kind = RangeKind::kHost,
      .bytes = size,
      .memory = nullptr,
      .data = reinterpret_cast<char*>(start),
      .access = {{is_portable ? -1 : context->device,
                  is_read_only ? CU_MEM_ACCESS_FLAGS_PROT_READ
                               : CU_MEM_ACCESS_FLAGS_PROT_READWRITE}},
      .context = context,
      .host = host,
      .flags = flags};
  return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void* memory) {
  TENON_FAKE_ENTER(cuMemHostUnregister, kContext);
  const auto host = reinterpret_cast<uintptr_t>(memory);
  const std::lock_guard lock(TableLock());
  const auto found = Find(host, 1);
  if (found == Addresses().ranges.end()) {
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  }
  if (found->second.host != host ||
      HostAccess(reinterpret_cast<uintptr_t>(found->second.data),
                 found->second.bytes) < 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  DropRange(found);
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* address, void* memory,
                                      unsigned int flags) {
  TENON_FAKE_ENTER(cuMemHostGetDevicePointer_v2, kContext);
  const auto host = reinterpret_cast<uintptr_t>(memory);
  const std::lock_guard lock(TableLock());
  const auto found = Find(host, 1);
  if (address == nullptr || flags != 0 || found == Addresses().ranges.end() ||
      (found->second.flags & kCuMemHostRegisterDeviceMap) == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *address =
      found->first + (host - reinterpret_cast<uintptr_t>(found->second.data));
  return CUDA_SUCCESS;
}

}  // extern "C"

}  // namespace tenon::cuda_ipc::fake

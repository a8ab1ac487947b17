// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// cuMemAlloc, and questions about memory and pointers.

#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>

#include "tenon/cuda_ipc/fake/contexts.h"
#include "tenon/cuda_ipc/fake/exports.h"
#include "tenon/cuda_ipc/fake/memory.h"
#include "tenon/cuda_ipc/fake/settings.h"

namespace tenon::cuda_ipc::fake {
namespace {

// So that importers that still use freed memory notice.
constexpr int kPoison = 0xdd;

int DeviceOf(const Range& range) {
  return range.memory == nullptr ? range.context->device
                                 : range.memory->device();
}

}  // namespace

extern "C" {

CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  TENON_FAKE_ENTER(cuMemAlloc_v2, kContext);
  if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const CUcontext context = CurrentContext();
  CUresult result = CUDA_SUCCESS;
  std::shared_ptr<Memory> memory =
      Memory::Create(MemoryKind::kLegacy, context->device, bytes, result);
  if (memory == nullptr) return result;
  const CUdeviceptr base = ReserveAddresses(bytes, kHostPage);
  if (base == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::lock_guard lock(TableLock());
  Addresses().ranges[base] = {
      .kind = RangeKind::kAllocation,
      .bytes = bytes,
      .memory = memory,
      .data = memory->data(),
      .access = {{context->device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}},
      .context = context};
  *address = base;
  return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  TENON_FAKE_ENTER(cuMemFree_v2, kContext);
  const std::lock_guard lock(TableLock());
  const auto found = Addresses().ranges.find(address);
  if (found == Addresses().ranges.end() ||
      found->second.kind != RangeKind::kAllocation) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // Others may see these pages only if the handle was given out.
  if (found->second.memory->is_exportable) {
    std::memset(found->second.data, kPoison, found->second.bytes);
  }
  DropRange(found);
  return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes,
                                 CUdeviceptr address) {
  TENON_FAKE_ENTER(cuMemGetAddressRange_v2, kContext);
  const std::lock_guard lock(TableLock());
  const auto found = Addresses().Find(address);
  if (found == Addresses().ranges.end()) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = found->first;
  if (bytes != nullptr) *bytes = found->second.bytes;
  return CUDA_SUCCESS;
}

CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  TENON_FAKE_ENTER(cuMemGetInfo_v2, kContext);
  if (free == nullptr || total == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const int device = CurrentContext()->device;
  const size_t held = HeldBytes(device);
  *total = CurrentSettings().devices[device].total_bytes;
  *free = held < *total ? *total - held : 0;
  return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute,
                               CUdeviceptr address) {
  TENON_FAKE_ENTER(cuPointerGetAttribute, kContext);
  const std::lock_guard lock(TableLock());
  const auto found = Addresses().Find(address);
  if (value == nullptr || found == Addresses().ranges.end()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const Range& range = found->second;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(value) = range.kind == RangeKind::kHost
                                           ? CU_MEMORYTYPE_HOST
                                           : CU_MEMORYTYPE_DEVICE;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(value) = DeviceOf(range);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      *static_cast<bool*>(value) = range.kind == RangeKind::kAllocation;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      *static_cast<bool*>(value) = true;
      return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

}  // extern "C"

}  // namespace tenon::cuda_ipc::fake

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/fake/virtual_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tenon/cuda_ipc/fake/contexts.h"
#include "tenon/cuda_ipc/fake/exports.h"
#include "tenon/cuda_ipc/fake/memory.h"
#include "tenon/cuda_ipc/fake/settings.h"

namespace tenon::cuda_ipc::fake {
namespace {

struct Handle {
  std::shared_ptr<Memory> memory;
  int references = 0;
  int mappings = 0;
  bool is_exportable = false;
};

std::map<CUmemGenericAllocationHandle, Handle>& Handles() {
  static auto* const handles =
      new std::map<CUmemGenericAllocationHandle, Handle>;
  return *handles;
}

// No value is used twice, so a stale handle is never a valid one.
CUmemGenericAllocationHandle NewHandle() {
  static CUmemGenericAllocationHandle last = 0xfa4e000000000;
  return last += 0x10;
}

void Drop(std::map<CUmemGenericAllocationHandle, Handle>::iterator handle) {
  if (handle->second.references > 0 || handle->second.mappings > 0) return;
  Handles().erase(handle);
}

// The handle, if the caller has references left; else Handles().end().
std::map<CUmemGenericAllocationHandle, Handle>::iterator Find(
    CUmemGenericAllocationHandle value) {
  const auto found = Handles().find(value);
  return found == Handles().end() || found->second.references == 0
             ? Handles().end()
             : found;
}

bool Supports(int device, CUdevice_attribute attribute) {
  const auto& attributes = CurrentSettings().devices[device].attributes;
  const auto found = attributes.find(attribute);
  return found != attributes.end() && found->second != 0;
}

CUresult Check(const CUmemAllocationProp* properties) {
  if (properties == nullptr ||
      properties->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
      properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
      properties->win32HandleMetaData != nullptr ||
      properties->allocFlags.compressionType != 0 ||
      properties->allocFlags.usage != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int device = properties->location.id;
  if (!IsDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (!Supports(device,
                CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  const int types = properties->requestedHandleTypes;
  if ((types & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return types == 0 ||
                 Supports(
                     device,
                     CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)
             ? CUDA_SUCCESS
             : CUDA_ERROR_NOT_SUPPORTED;
}

bool IsMultiple(size_t bytes) { return bytes > 0 && bytes % kGranularity == 0; }

// Whether the range is in one reservation, and nothing is mapped there.
bool IsFree(CUdeviceptr address, size_t bytes) {
  const AddressSpace& space = Addresses();
  auto reservation = space.reservations.upper_bound(address);
  if (reservation == space.reservations.begin()) return false;
  --reservation;
  const size_t offset = address - reservation->first;
  if (offset >= reservation->second.bytes ||
      bytes > reservation->second.bytes - offset) {
    return false;
  }
  const auto next = space.ranges.lower_bound(address);
  return Addresses().Find(address) == Addresses().ranges.end() &&
         (next == space.ranges.end() || next->first >= address + bytes);
}

// The mapping of exactly this range; else ranges.end().
std::map<CUdeviceptr, Range>::iterator FindMapping(CUdeviceptr address,
                                                   size_t bytes) {
  auto& ranges = Addresses().ranges;
  const auto found = ranges.find(address);
  return found == ranges.end() || found->second.kind != RangeKind::kMapping ||
                 found->second.bytes != bytes
             ? ranges.end()
             : found;
}

void Unmap(std::map<CUdeviceptr, Range>::iterator mapping) {
  const auto handle = Handles().find(mapping->second.handle);
  DropRange(mapping);
  --handle->second.mappings;
  Drop(handle);
}

CUresult CheckAccess(const CUmemAccessDesc& access, int owner) {
  if (access.location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!IsDevice(access.location.id)) return CUDA_ERROR_INVALID_DEVICE;
  if (access.location.id != owner && !CurrentSettings().peers) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  switch (access.flags) {
    case CU_MEM_ACCESS_FLAGS_PROT_NONE:
    case CU_MEM_ACCESS_FLAGS_PROT_READWRITE:
      return CUDA_SUCCESS;
    case CU_MEM_ACCESS_FLAGS_PROT_READ:
      return CurrentSettings().read_only ? CUDA_SUCCESS
                                         : CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

std::string Text(CUdeviceptr address, size_t bytes) {
  return std::to_string(bytes) + " bytes at " + std::to_string(address);
}

}  // namespace

void AddVirtualMemoryLeaks(std::vector<std::string>& leaks) {
  for (const auto& [value, handle] : Handles()) {
    if (handle.references == 0) continue;
    leaks.push_back("memory handle of " +
                    std::to_string(handle.memory->bytes()) + " bytes with " +
                    std::to_string(handle.references) + " references");
  }
  for (const auto& [address, range] : Addresses().ranges) {
    if (range.kind != RangeKind::kMapping) continue;
    leaks.push_back("mapping of " + Text(address, range.bytes));
  }
  for (const auto& [address, reservation] : Addresses().reservations) {
    leaks.push_back("reservation of " + Text(address, reservation.bytes));
  }
}

void ResetVirtualMemory() {
  auto& space = Addresses();
  for (auto range = space.ranges.begin(); range != space.ranges.end();) {
    const auto next = std::next(range);
    DropRange(range);
    range = next;
  }
  for (const auto& [address, reservation] : space.reservations) {
    FreeAddresses(address, reservation.bytes);
  }
  space.reservations.clear();
  Handles().clear();
}

extern "C" {

CUresult cuMemGetAllocationGranularity(size_t* granularity,
                                       const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags) {
  TENON_FAKE_ENTER(cuMemGetAllocationGranularity, kInitialized);
  if (granularity == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = Check(properties);
  if (result == CUDA_SUCCESS) *granularity = kGranularity;
  return result;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                     const CUmemAllocationProp* properties,
                     unsigned long long flags) {
  TENON_FAKE_ENTER(cuMemCreate, kContext);
  if (handle == nullptr || flags != 0 || !IsMultiple(bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  CUresult result = Check(properties);
  if (result != CUDA_SUCCESS) return result;
  std::shared_ptr<Memory> memory = Memory::Create(
      MemoryKind::kVirtual, properties->location.id, bytes, result);
  if (memory == nullptr) return result;
  const std::lock_guard lock(TableLock());
  *handle = NewHandle();
  Handles()[*handle] = {
      .memory = std::move(memory),
      .references = 1,
      .is_exportable = properties->requestedHandleTypes ==
                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
  return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  TENON_FAKE_ENTER(cuMemRelease, kInitialized);
  const std::lock_guard lock(TableLock());
  const auto found = Find(handle);
  if (found == Handles().end()) return CUDA_ERROR_INVALID_VALUE;
  --found->second.references;
  Drop(found);
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* address, size_t bytes,
                             size_t alignment, CUdeviceptr /*hint*/,
                             unsigned long long flags) {
  TENON_FAKE_ENTER(cuMemAddressReserve, kContext);
  if (address == nullptr || flags != 0 || !IsMultiple(bytes) ||
      (alignment & (alignment - 1)) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUdeviceptr reserved = ReserveAddresses(
      bytes, alignment < kGranularity ? kGranularity : alignment);
  if (reserved == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::lock_guard lock(TableLock());
  Addresses().reservations[reserved] = {bytes};
  *address = reserved;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  TENON_FAKE_ENTER(cuMemAddressFree, kInitialized);
  const std::lock_guard lock(TableLock());
  auto& reservations = Addresses().reservations;
  const auto found = reservations.find(address);
  if (found == reservations.end() || found->second.bytes != bytes ||
      !IsFree(address, bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  FreeAddresses(address, bytes);
  reservations.erase(found);
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  TENON_FAKE_ENTER(cuMemMap, kContext);
  const std::lock_guard lock(TableLock());
  const auto found = Find(handle);
  if (found == Handles().end() || flags != 0 || offset != 0 ||
      address % kGranularity != 0 || bytes != found->second.memory->bytes() ||
      !IsFree(address, bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  ++found->second.mappings;
  Addresses().ranges[address] = {.kind = RangeKind::kMapping,
                                 .bytes = bytes,
                                 .memory = found->second.memory,
                                 .data = found->second.memory->data(),
                                 .access = {},
                                 .handle = handle};
  return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  TENON_FAKE_ENTER(cuMemUnmap, kInitialized);
  const std::lock_guard lock(TableLock());
  const auto found = FindMapping(address, bytes);
  if (found == Addresses().ranges.end()) return CUDA_ERROR_INVALID_VALUE;
  Unmap(found);
  return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes,
                        const CUmemAccessDesc* access, size_t count) {
  TENON_FAKE_ENTER(cuMemSetAccess, kContext);
  const std::lock_guard lock(TableLock());
  const auto found = FindMapping(address, bytes);
  if (found == Addresses().ranges.end() || access == nullptr || count == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < count; ++i) {
    const CUresult result =
        CheckAccess(access[i], found->second.memory->device());
    if (result != CUDA_SUCCESS) return result;
  }
  for (size_t i = 0; i < count; ++i) {
    found->second.access[access[i].location.id] = access[i].flags;
  }
  return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void* shareable,
                                      CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type,
                                      unsigned long long flags) {
  TENON_FAKE_ENTER(cuMemExportToShareableHandle, kInitialized);
  const std::lock_guard lock(TableLock());
  const auto found = Find(handle);
  if (found == Handles().end() || shareable == nullptr || flags != 0 ||
      type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
      !found->second.is_exportable) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // Not close-on-exec: the caller must not rely on it.
  const int fd = dup(found->second.memory->fd());
  if (fd < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *static_cast<int*>(shareable) = fd;
  return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle,
                                        void* shareable,
                                        CUmemAllocationHandleType type) {
  TENON_FAKE_ENTER(cuMemImportFromShareableHandle, kContext);
  if (handle == nullptr || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // The descriptor itself is in the pointer. It stays the caller's.
  const int fd = static_cast<int>(reinterpret_cast<intptr_t>(shareable));
  CUresult result = CUDA_SUCCESS;
  std::shared_ptr<Memory> memory =
      Memory::Open(MemoryKind::kVirtual, fd, result);
  if (memory == nullptr) return result;
  const std::lock_guard lock(TableLock());
  *handle = NewHandle();
  Handles()[*handle] = {.memory = std::move(memory), .references = 1};
  return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationPropertiesFromHandle(
    CUmemAllocationProp* properties, CUmemGenericAllocationHandle handle) {
  TENON_FAKE_ENTER(cuMemGetAllocationPropertiesFromHandle, kInitialized);
  const std::lock_guard lock(TableLock());
  const auto found = Find(handle);
  if (found == Handles().end() || properties == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *properties = {
      .type = CU_MEM_ALLOCATION_TYPE_PINNED,
      .requestedHandleTypes = found->second.is_exportable
                                  ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
                                  : CU_MEM_HANDLE_TYPE_NONE,
      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE,
                   .id = found->second.memory->device()}};
  return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle,
                                     void* address) {
  TENON_FAKE_ENTER(cuMemRetainAllocationHandle, kInitialized);
  const std::lock_guard lock(TableLock());
  const auto range = Addresses().Find(reinterpret_cast<CUdeviceptr>(address));
  if (handle == nullptr || range == Addresses().ranges.end() ||
      range->second.kind != RangeKind::kMapping) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *handle = range->second.handle;
  ++Handles()[*handle].references;
  return CUDA_SUCCESS;
}

}  // extern "C"

}  // namespace tenon::cuda_ipc::fake

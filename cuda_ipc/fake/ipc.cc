// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Legacy handles of memory: cuIpcGetMemHandle and its counterparts.

#include <unistd.h>

#include <mutex>
#include <string>
#include <utility>

#include "tenon/cuda_ipc/fake/contexts.h"
#include "tenon/cuda_ipc/fake/exporter.h"
#include "tenon/cuda_ipc/fake/exports.h"
#include "tenon/cuda_ipc/fake/memory.h"
#include "tenon/cuda_ipc/fake/settings.h"

namespace tenon::cuda_ipc::fake {
namespace {

// Of memory from the context's own device, or of one that it can reach.
bool CanReach(CUcontext context, int device) {
  return context->device == device || CurrentSettings().peers;
}

// The import of this handle into this context; else ranges.end(). With
// TableLock().
std::map<CUdeviceptr, Range>::iterator FindImport(CUcontext context,
                                                  const std::string& key) {
  auto& ranges = Addresses().ranges;
  for (auto range = ranges.begin(); range != ranges.end(); ++range) {
    if (range->second.kind == RangeKind::kImport &&
        range->second.context == context && range->second.import_key == key) {
      return range;
    }
  }
  return ranges.end();
}

}  // namespace

extern "C" {

CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
  TENON_FAKE_ENTER(cuIpcGetMemHandle, kContext);
  const std::lock_guard lock(TableLock());
  const auto found = Addresses().ranges.find(address);
  if (handle == nullptr || found == Addresses().ranges.end() ||
      found->second.kind != RangeKind::kAllocation) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  found->second.memory->is_exportable = true;
  WriteHandle(*found->second.memory, handle->reserved);
  return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* address, CUipcMemHandle handle,
                               unsigned int flags) {
  TENON_FAKE_ENTER(cuIpcOpenMemHandle_v2, kContext);
  if (address == nullptr || flags != kCuIpcMemLazyEnablePeerAccess) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUcontext context = CurrentContext();
  const std::string key(handle.reserved, sizeof(handle.reserved));
  Exported exported;
  const CUresult result =
      OpenHandle(MemoryKind::kLegacy, handle.reserved, exported);
  if (result != CUDA_SUCCESS) return result;
  const std::lock_guard lock(TableLock());
  const auto opened = FindImport(context, key);
  if (opened != Addresses().ranges.end()) {
    close(exported.exporter);
    ++opened->second.opens;
    *address = opened->first;
    return CUDA_SUCCESS;
  }
  const size_t bytes = exported.memory->bytes();
  const bool is_reached = CanReach(context, exported.memory->device());
  const CUdeviceptr base = is_reached ? ReserveAddresses(bytes, kHostPage) : 0;
  if (base == 0) {
    close(exported.exporter);
    return is_reached ? CUDA_ERROR_MAP_FAILED : CUDA_ERROR_TOO_MANY_PEERS;
  }
  char* const data = exported.memory->data();
  Addresses().ranges[base] = {
      .kind = RangeKind::kImport,
      .bytes = bytes,
      .memory = std::move(exported.memory),
      .data = data,
      .access = {{context->device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}},
      .context = context,
      .opens = 1,
      .import_key = key,
      .exporter = exported.exporter};
  *address = base;
  return CUDA_SUCCESS;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  TENON_FAKE_ENTER(cuIpcCloseMemHandle, kContext);
  const std::lock_guard lock(TableLock());
  const auto found = Addresses().ranges.find(address);
  if (found == Addresses().ranges.end() ||
      found->second.kind != RangeKind::kImport ||
      found->second.context != CurrentContext()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (--found->second.opens == 0) DropRange(found);
  return CUDA_SUCCESS;
}

}  // extern "C"

}  // namespace tenon::cuda_ipc::fake

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/fake/contexts.h"

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tenon/cuda_ipc/fake/exports.h"
#include "tenon/cuda_ipc/fake/memory.h"
#include "tenon/cuda_ipc/fake/settings.h"
#include "tenon/cuda_ipc/fake/streams.h"

namespace tenon::cuda_ipc::fake {
namespace {

struct Contexts {
  std::map<int, CUcontext> primary;  // By device.
  std::set<CUcontext> all;
};

Contexts& Table() {
  static auto* const contexts = new Contexts;
  return *contexts;
}

thread_local std::vector<CUcontext> stack;

bool IsContext(CUcontext context) {
  const std::lock_guard lock(TableLock());
  return Table().all.count(context) > 0;
}

// Frees what belongs to the context. With TableLock().
void Destroy(CUcontext context) {
  context->is_destroyed = true;
  auto& ranges = Addresses().ranges;
  for (auto range = ranges.begin(); range != ranges.end();) {
    const auto next = std::next(range);
    if (range->second.context == context) DropRange(range);
    range = next;
  }
  CloseStreamsOf(context);
}

}  // namespace

CUcontext CurrentContext() { return stack.empty() ? nullptr : stack.back(); }

CUresult CheckContext() {
  const CUcontext context = CurrentContext();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const std::lock_guard lock(TableLock());
  return context->is_destroyed ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
}

bool IsDevice(int device) {
  return device >= 0 &&
         device < static_cast<int>(CurrentSettings().devices.size());
}

void AddContextLeaks(std::vector<std::string>& leaks) {
  for (const auto& [device, context] : Table().primary) {
    leaks.push_back("primary context of device " + std::to_string(device) +
                    ", retained " + std::to_string(context->retained) +
                    " times");
  }
}

void ResetContexts() {
  Table().primary.clear();
  stack.clear();
}

extern "C" {

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  TENON_FAKE_ENTER(cuDevicePrimaryCtxRetain, kInitialized);
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!IsDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  const std::lock_guard lock(TableLock());
  CUcontext& primary = Table().primary[device];
  if (primary == nullptr) {
    primary = new CUctx_st{.device = device};
    Table().all.insert(primary);
  }
  ++primary->retained;
  *context = primary;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  TENON_FAKE_ENTER(cuDevicePrimaryCtxRelease_v2, kInitialized);
  if (!IsDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  const std::lock_guard lock(TableLock());
  const auto found = Table().primary.find(device);
  if (found == Table().primary.end()) return CUDA_ERROR_INVALID_CONTEXT;
  if (--found->second->retained > 0) return CUDA_SUCCESS;
  Destroy(found->second);
  Table().primary.erase(found);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  TENON_FAKE_ENTER(cuCtxGetCurrent, kInitialized);
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *context = CurrentContext();
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  TENON_FAKE_ENTER(cuCtxSetCurrent, kInitialized);
  if (context != nullptr && !IsContext(context)) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  if (!stack.empty()) stack.pop_back();
  if (context != nullptr) stack.push_back(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context) {
  TENON_FAKE_ENTER(cuCtxPushCurrent_v2, kInitialized);
  if (context == nullptr || !IsContext(context)) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  stack.push_back(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext* context) {
  TENON_FAKE_ENTER(cuCtxPopCurrent_v2, kInitialized);
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (context != nullptr) *context = stack.back();
  stack.pop_back();
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  TENON_FAKE_ENTER(cuCtxGetDevice, kContext);
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = CurrentContext()->device;
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize() {
  TENON_FAKE_ENTER(cuCtxSynchronize, kContext);
  return SynchronizeStreamsOf(CurrentContext());
}

}  // extern "C"

}  // namespace tenon::cuda_ipc::fake

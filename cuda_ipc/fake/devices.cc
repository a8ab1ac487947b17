// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// cuInit, versions, texts of errors, and devices.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>

#include "tenon/cuda_ipc/fake/contexts.h"
#include "tenon/cuda_ipc/fake/entry_state.h"
#include "tenon/cuda_ipc/fake/exports.h"
#include "tenon/cuda_ipc/fake/settings.h"

namespace tenon::cuda_ipc::fake {
namespace {

struct ErrorText {
  CUresult error;
  const char* name;
  const char* text;
};

constexpr ErrorText kErrors[] = {
#define TENON_FAKE_TEXT(name, text) \
  { name, #name, text }
    TENON_FAKE_TEXT(CUDA_SUCCESS, "no error"),
    TENON_FAKE_TEXT(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    TENON_FAKE_TEXT(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    TENON_FAKE_TEXT(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    TENON_FAKE_TEXT(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    TENON_FAKE_TEXT(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    TENON_FAKE_TEXT(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    TENON_FAKE_TEXT(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    TENON_FAKE_TEXT(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    TENON_FAKE_TEXT(CUDA_ERROR_NOT_READY, "device not ready"),
    TENON_FAKE_TEXT(CUDA_ERROR_ILLEGAL_ADDRESS,
                    "an illegal memory access was encountered"),
    TENON_FAKE_TEXT(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    TENON_FAKE_TEXT(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
#undef TENON_FAKE_TEXT
};

const ErrorText* Find(CUresult error) {
  if (!CurrentSettings().texts) return nullptr;
  const auto* const found =
      std::find_if(std::begin(kErrors), std::end(kErrors),
                   [error](const auto& each) { return each.error == error; });
  return found == std::end(kErrors) ? nullptr : found;
}

const DeviceSettings& Of(CUdevice device) {
  return CurrentSettings().devices[device];
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned int flags) {
  TENON_FAKE_ENTER(cuInit, kNothing);
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const auto result = static_cast<CUresult>(CurrentSettings().init);
  if (result != CUDA_SUCCESS) return result;
  return SetInitialized() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult cuDriverGetVersion(int* version) {
  TENON_FAKE_ENTER(cuDriverGetVersion, kNothing);
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = CurrentSettings().version;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char** text) {
  TENON_FAKE_ENTER(cuGetErrorName, kNothing);
  const ErrorText* const found = Find(error);
  *text = found == nullptr ? nullptr : found->name;
  return found == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  TENON_FAKE_ENTER(cuGetErrorString, kNothing);
  const ErrorText* const found = Find(error);
  *text = found == nullptr ? nullptr : found->text;
  return found == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  TENON_FAKE_ENTER(cuDeviceGetCount, kInitialized);
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<int>(CurrentSettings().devices.size());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  TENON_FAKE_ENTER(cuDeviceGet, kInitialized);
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!IsDevice(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  TENON_FAKE_ENTER(cuDeviceGetName, kInitialized);
  if (name == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (!IsDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  // Like strncpy, so no terminator if the name is too long.
  std::strncpy(name, Of(device).name.c_str(), length);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  TENON_FAKE_ENTER(cuDeviceGetUuid_v2, kInitialized);
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!IsDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::memcpy(uuid->bytes, Of(device).uuid.data(), sizeof(uuid->bytes));
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  TENON_FAKE_ENTER(cuDeviceTotalMem_v2, kInitialized);
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!IsDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = Of(device).total_bytes;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute,
                              CUdevice device) {
  TENON_FAKE_ENTER(cuDeviceGetAttribute, kInitialized);
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!IsDevice(device)) return CUDA_ERROR_INVALID_DEVICE;
  const auto found = Of(device).attributes.find(attribute);
  if (found == Of(device).attributes.end()) return CUDA_ERROR_INVALID_VALUE;
  *value = found->second;
  return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  TENON_FAKE_ENTER(cuDeviceCanAccessPeer, kInitialized);
  if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!IsDevice(device) || !IsDevice(peer)) return CUDA_ERROR_INVALID_DEVICE;
  *can = CurrentSettings().peers && device != peer ? 1 : 0;
  return CUDA_SUCCESS;
}

}  // extern "C"

}  // namespace tenon::cuda_ipc::fake

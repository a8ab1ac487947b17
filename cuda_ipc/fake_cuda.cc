// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/fake_cuda.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>

#include "cuda.h"

namespace tenon::cuda_ipc {
namespace {

FakeCuda fake;

// The result that `call` returns before any other action. `device` is -1 for
// calls without a device.
CUresult Check(const char* call, int device) {
  if (!fake.is_initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (std::strcmp(call, fake.failing_call) == 0 &&
      (device == -1 || device == fake.failing_device)) {
    return fake.failure;
  }
  if (device < -1 || device >= fake.device_count) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  return CUDA_SUCCESS;
}

struct ErrorWords {
  CUresult result;
  const char* name;
  const char* words;
};

constexpr ErrorWords kErrors[] = {
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "no such device"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no device at all"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
};

const ErrorWords* Find(CUresult result) {
  if (!fake.knows_errors) return nullptr;
  const auto* const found =
      std::find_if(std::begin(kErrors), std::end(kErrors),
                   [result](const auto& e) { return e.result == result; });
  return found == std::end(kErrors) ? nullptr : found;
}

}  // namespace

extern "C" FakeCuda* TenonFakeCuda() { return &fake; }

}  // namespace tenon::cuda_ipc

// cuda.h declares all of these, so a wrong signature does not compile.

using tenon::cuda_ipc::Check;
using tenon::cuda_ipc::fake;
using tenon::cuda_ipc::Find;

extern "C" {

CUresult cuInit(unsigned int flags) {
  ++fake.init_calls;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  fake.is_initialized = fake.init_result == CUDA_SUCCESS;
  return fake.init_result;
}

CUresult cuDriverGetVersion(int* version) {
  *version = fake.version;
  return std::strcmp(fake.failing_call, "cuDriverGetVersion") == 0
             ? fake.failure
             : CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char** name) {
  const auto* const found = Find(error);
  *name = found == nullptr ? nullptr : found->name;
  return found == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char** words) {
  const auto* const found = Find(error);
  *words = found == nullptr ? nullptr : found->words;
  return found == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  const CUresult result = Check("cuDeviceGetCount", -1);
  if (result == CUDA_SUCCESS) *count = fake.device_count;
  return result;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (ordinal < 0) return CUDA_ERROR_INVALID_DEVICE;
  const CUresult result = Check("cuDeviceGet", ordinal);
  if (result == CUDA_SUCCESS) *device = ordinal;
  return result;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  const CUresult result = Check("cuDeviceGetName", device);
  if (result != CUDA_SUCCESS) return result;
  // Like strncpy, so no terminator if the name is too long.
  std::strncpy(name, fake.devices[device].name, length);
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t* bytes, CUdevice device) {
  const CUresult result = Check("cuDeviceTotalMem", device);
  if (result == CUDA_SUCCESS) *bytes = fake.devices[device].total_bytes;
  return result;
}

// The function of CUDA 3.1 under the plain name.
CUresult TenonFakeOldTotalMem(unsigned int* bytes,
                              CUdevice device) __asm__("cuDeviceTotalMem");
CUresult TenonFakeOldTotalMem(unsigned int* bytes, CUdevice device) {
  *bytes = 31 + device;
  return CUDA_SUCCESS;
}

#ifndef TENON_FAKE_CUDA_WITHOUT_UUID
CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  const CUresult result = Check("cuDeviceGetUuid", device);
  if (result != CUDA_SUCCESS) return result;
  std::memcpy(uuid->bytes, fake.devices[device].uuid, sizeof(uuid->bytes));
  return CUDA_SUCCESS;
}
#endif

}  // extern "C"

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Plain names that libcuda exports beside the versioned ones: functions of old
// ABIs. The fake's always fail, so that a table filled with one is noticed.

#include "tenon/cuda_ipc/cuda_api.h"

namespace tenon::cuda_ipc::fake {

#define TENON_FAKE_RETIRED(symbol) \
  CUresult symbol() { return CUDA_ERROR_UNKNOWN; }

extern "C" {
TENON_FAKE_RETIRED(cuDeviceGetUuid)
TENON_FAKE_RETIRED(cuDeviceTotalMem)
TENON_FAKE_RETIRED(cuDevicePrimaryCtxRelease)
TENON_FAKE_RETIRED(cuCtxPushCurrent)
TENON_FAKE_RETIRED(cuCtxPopCurrent)
TENON_FAKE_RETIRED(cuMemAlloc)
TENON_FAKE_RETIRED(cuMemFree)
TENON_FAKE_RETIRED(cuMemGetAddressRange)
TENON_FAKE_RETIRED(cuMemGetInfo)
TENON_FAKE_RETIRED(cuMemcpyHtoD)
TENON_FAKE_RETIRED(cuMemcpyDtoH)
TENON_FAKE_RETIRED(cuMemcpyDtoD)
TENON_FAKE_RETIRED(cuMemcpyHtoDAsync)
TENON_FAKE_RETIRED(cuMemcpyDtoHAsync)
TENON_FAKE_RETIRED(cuMemcpyDtoDAsync)
TENON_FAKE_RETIRED(cuMemsetD8)
TENON_FAKE_RETIRED(cuStreamDestroy)
TENON_FAKE_RETIRED(cuEventDestroy)
TENON_FAKE_RETIRED(cuIpcOpenMemHandle)
TENON_FAKE_RETIRED(cuStreamWriteValue32)
TENON_FAKE_RETIRED(cuStreamWaitValue32)
TENON_FAKE_RETIRED(cuMemHostRegister)
TENON_FAKE_RETIRED(cuMemHostGetDevicePointer)
}

}  // namespace tenon::cuda_ipc::fake

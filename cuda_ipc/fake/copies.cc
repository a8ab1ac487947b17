// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Copies, fills and operations on words of memory.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tenon/cuda_ipc/fake/contexts.h"
#include "tenon/cuda_ipc/fake/exports.h"
#include "tenon/cuda_ipc/fake/memory.h"
#include "tenon/cuda_ipc/fake/streams.h"

namespace tenon::cuda_ipc::fake {
namespace {

CUresult ToDevice(int device, CUdeviceptr to, const char* from, size_t bytes) {
  return Access(device, to, bytes, true, [&from](char* data, size_t size) {
    std::memcpy(data, from, size);
    from += size;
  });
}

CUresult FromDevice(int device, char* to, CUdeviceptr from, size_t bytes) {
  return Access(device, from, bytes, false, [&to](char* data, size_t size) {
    std::memcpy(to, data, size);
    to += size;
  });
}

// In pieces, so that a large copy needs little memory.
CUresult Between(int to_device, CUdeviceptr to, int from_device,
                 CUdeviceptr from, size_t bytes) {
  std::vector<char> piece(std::min(bytes, size_t{1} << 20));
  while (bytes > 0) {
    const size_t size = std::min(bytes, piece.size());
    CUresult result = FromDevice(from_device, piece.data(), from, size);
    if (result != CUDA_SUCCESS) return result;
    result = ToDevice(to_device, to, piece.data(), size);
    if (result != CUDA_SUCCESS) return result;
    to += size;
    from += size;
    bytes -= size;
  }
  return CUDA_SUCCESS;
}

CUresult Fill(int device, CUdeviceptr to, unsigned char value, size_t bytes) {
  return Access(device, to, bytes, true, [value](char* data, size_t size) {
    std::memset(data, value, size);
  });
}

int Current() { return CurrentContext()->device; }

// Runs `work` for the stream's device on the stream.
CUresult On(CUstream stream, std::function<void(int)> work) {
  const std::shared_ptr<Stream> found = FindStream(stream);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const int device = DeviceOf(*found);
  Enqueue(*found, [device, work = std::move(work)] { work(device); });
  return CUDA_SUCCESS;
}

// The words are in shared memory, so these are atomic like those of a device.
std::atomic<uint32_t>& WordAt(char* data) {
  return *reinterpret_cast<std::atomic<uint32_t>*>(data);
}

bool Fulfils(uint32_t seen, uint32_t value, unsigned flags) {
  switch (flags) {
    case kCuStreamWaitValueGeq:
      return static_cast<int32_t>(seen - value) >= 0;
    case kCuStreamWaitValueEq:
      return seen == value;
    default:
      return (seen & value) != 0;
  }
}

void WaitForWord(int device, CUdeviceptr address, uint32_t value,
                 unsigned flags) {
  bool is_done = false;
  while (!is_done && !ShouldStop()) {
    Access(device, address, sizeof(uint32_t), false, [&](char* data, size_t) {
      is_done = Fulfils(WordAt(data).load(), value, flags);
    });
    if (!is_done) Pause();
  }
}

bool IsWord(CUdeviceptr address) {
  return address % sizeof(uint32_t) == 0 && IsKnown(address, sizeof(uint32_t));
}

}  // namespace

extern "C" {

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
  TENON_FAKE_ENTER(cuMemcpyHtoD_v2, kContext);
  if (!IsKnown(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return ToDevice(Current(), to, static_cast<const char*>(from), bytes);
}

CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
  TENON_FAKE_ENTER(cuMemcpyDtoH_v2, kContext);
  if (!IsKnown(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return FromDevice(Current(), static_cast<char*>(to), from, bytes);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  TENON_FAKE_ENTER(cuMemcpyDtoD_v2, kContext);
  if (!IsKnown(to, bytes) || !IsKnown(from, bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return Between(Current(), to, Current(), from, bytes);
}

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                      CUcontext from_context, size_t bytes) {
  TENON_FAKE_ENTER(cuMemcpyPeer, kContext);
  if (to_context == nullptr || from_context == nullptr) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  if (!IsKnown(to, bytes) || !IsKnown(from, bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return Between(to_context->device, to, from_context->device, from, bytes);
}

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t bytes) {
  TENON_FAKE_ENTER(cuMemsetD8_v2, kContext);
  if (!IsKnown(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return Fill(Current(), to, value, bytes);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes,
                              CUstream stream) {
  TENON_FAKE_ENTER(cuMemcpyHtoDAsync_v2, kContext);
  if (!IsKnown(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
  const char* const host = static_cast<const char*>(from);
  if (IsRegistered(from, bytes)) {
    return On(stream, [=](int device) { ToDevice(device, to, host, bytes); });
  }
  // Pageable memory is read before the call returns.
  return On(stream,
            [to, staged = std::vector<char>(host, host + bytes)](int device) {
              ToDevice(device, to, staged.data(), staged.size());
            });
}

CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes,
                              CUstream stream) {
  TENON_FAKE_ENTER(cuMemcpyDtoHAsync_v2, kContext);
  if (!IsKnown(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = On(stream, [=](int device) {
    FromDevice(device, static_cast<char*>(to), from, bytes);
  });
  if (result != CUDA_SUCCESS || IsRegistered(to, bytes)) return result;
  // Pageable memory is written before the call returns.
  return Synchronize(*FindStream(stream));
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                              CUstream stream) {
  TENON_FAKE_ENTER(cuMemcpyDtoDAsync_v2, kContext);
  if (!IsKnown(to, bytes) || !IsKnown(from, bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return On(stream,
            [=](int device) { Between(device, to, device, from, bytes); });
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context,
                           CUdeviceptr from, CUcontext from_context,
                           size_t bytes, CUstream stream) {
  TENON_FAKE_ENTER(cuMemcpyPeerAsync, kContext);
  if (to_context == nullptr || from_context == nullptr) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  if (!IsKnown(to, bytes) || !IsKnown(from, bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return On(stream, [=](int) {
    Between(to_context->device, to, from_context->device, from, bytes);
  });
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes,
                         CUstream stream) {
  TENON_FAKE_ENTER(cuMemsetD8Async, kContext);
  if (!IsKnown(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return On(stream, [=](int device) { Fill(device, to, value, bytes); });
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address,
                                 uint32_t value, unsigned int flags) {
  TENON_FAKE_ENTER(cuStreamWriteValue32_v2, kContext);
  if (!IsWord(address) || flags > 1) return CUDA_ERROR_INVALID_VALUE;
  return On(stream, [=](int device) {
    Access(device, address, sizeof(value), true,
           [value](char* data, size_t) { WordAt(data).store(value); });
  });
}

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address,
                                uint32_t value, unsigned int flags) {
  TENON_FAKE_ENTER(cuStreamWaitValue32_v2, kContext);
  if (flags > kCuStreamWaitValueAnd) return CUDA_ERROR_NOT_SUPPORTED;
  if (!IsWord(address)) return CUDA_ERROR_INVALID_VALUE;
  return On(stream,
            [=](int device) { WaitForWord(device, address, value, flags); });
}

}  // extern "C"

}  // namespace tenon::cuda_ipc::fake

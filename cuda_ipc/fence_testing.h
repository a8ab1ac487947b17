// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TestDevice: a device and its streams in a child of a DeviceProcessTest.

#ifndef TENON_CUDA_IPC_FENCE_TESTING_H_
#define TENON_CUDA_IPC_FENCE_TESTING_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/device_context.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::cuda_ipc {

// Threads: thread-compatible. Processes: of the process that made it.
class TestDevice {
 public:
  explicit TestDevice(int ordinal = 0)
      : device_(**DeviceContexts::OfProcess().value()->Get(ordinal)) {}

  const DeviceContext& context() const { return device_; }

  CUstream MakeStream() const {
    CUstream stream = nullptr;
    Call([&](const DriverTable& d) {
      return d.cuStreamCreate(&stream, kCuStreamNonBlocking);
    });
    return stream;
  }
  // Work that ends once `open`, which lives as long as the process, is true.
  void Close(CUstream stream, const std::atomic<bool>& open) const {
    Call([&](const DriverTable& d) {
      return d.cuLaunchHostFunc(
          stream,
          [](void* gate) {
            const auto& opened = *static_cast<std::atomic<bool>*>(gate);
            Becomes([&opened] { return opened.load(); });
          },
          const_cast<std::atomic<bool>*>(&open));
    });
  }
  void Fill(CUstream stream, const Tensor& tensor, uint8_t value) const {
    Call([&](const DriverTable& d) {
      return d.cuMemsetD8Async(AddressOf(tensor), value, SizeOf(tensor),
                               stream);
    });
  }
  void Copy(CUstream stream, const Tensor& to, const Tensor& from) const {
    Call([&](const DriverTable& d) {
      return d.cuMemcpyDtoDAsync_v2(AddressOf(to), AddressOf(from), SizeOf(to),
                                    stream);
    });
  }
  // `body` while a graph captures the stream; the capture must end well.
  void Capture(CUstream stream, const std::function<void()>& body) const {
    Call([&](const DriverTable& d) {
      return d.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
    });
    body();
    CUgraph graph = nullptr;
    Call([&](const DriverTable& d) {
      return d.cuStreamEndCapture(stream, &graph);
    });
    Call([&](const DriverTable& d) { return d.cuGraphDestroy(graph); });
  }
  void Synchronize(CUstream stream) const {
    Call([&](const DriverTable& d) { return d.cuStreamSynchronize(stream); });
  }
  bool IsIdle(CUstream stream) const {
    bool is_idle = false;
    EXPECT_THAT(device_.Run([&] {
      is_idle = device_.driver().cuStreamQuery(stream) == CUDA_SUCCESS;
      return absl::OkStatus();
    }),
                IsOk());
    return is_idle;
  }
  bool BecomesIdle(CUstream stream) const {
    return Becomes([&] { return IsIdle(stream); });
  }

  // `body` with the context current.
  void Context(const std::function<void(const DriverTable&)>& body) const {
    EXPECT_THAT(device_.Run([&] {
      body(device_.driver());
      return absl::OkStatus();
    }),
                IsOk());
  }
  void Call(const std::function<CUresult(const DriverTable&)>& call) const {
    EXPECT_THAT(
        device_.Run([&] { return device_.Error(call(device_.driver()), ""); }),
        IsOk());
  }

  static CUdeviceptr AddressOf(const Tensor& tensor) {
    return reinterpret_cast<uintptr_t>(tensor.device_data<uint8_t>().value());
  }
  static size_t SizeOf(const Tensor& tensor) {
    return static_cast<size_t>(tensor.spec().bytes());
  }
  // Whether all bytes are `value`, by a copy that waits for no stream.
  static bool Has(const Tensor& tensor, uint8_t value) {
    const Tensor here = tensor.ToCpu().value();
    const auto bytes = here.data<const uint8_t>().value();
    for (const uint8_t byte : bytes) {
      if (byte != value) return false;
    }
    return true;
  }

 private:
  const DeviceContext& device_;
};

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_FENCE_TESTING_H_

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// What tests of loans lend: memory of cuMemAlloc, as another library has it,
// by DLPack.

#ifndef TENON_CUDA_IPC_DEVICE_LOAN_TESTING_H_
#define TENON_CUDA_IPC_DEVICE_LOAN_TESTING_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dlpack/dlpack.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/device_context.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/exchange/dlpack.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon::cuda_ipc {

// An allocation of cuMemAlloc on device 0 of this process, freed with the last
// tensor over it; `freed` is called after that.
class LibraryMemory {
 public:
  static absl::StatusOr<LibraryMemory> Create(
      size_t bytes, std::function<void()> freed = [] {}) {
    TENON_ASSIGN_OR_RETURN(DeviceContexts* const devices,
                           DeviceContexts::OfProcess());
    TENON_ASSIGN_OR_RETURN(const DeviceContext* const gpu, devices->Get(0));
    CUdeviceptr address = 0;
    TENON_RETURN_IF_ERROR(gpu->Run([&] {
      return gpu->Error(gpu->driver().cuMemAlloc_v2(&address, bytes),
                        "cuMemAlloc");
    }));
    return LibraryMemory(
        std::shared_ptr<void>(reinterpret_cast<void*>(address),
                              [gpu, freed = std::move(freed)](void* memory) {
                                Free(*gpu, memory);
                                freed();
                              }));
  }

  CUdeviceptr address() const {
    return reinterpret_cast<CUdeviceptr>(memory_.get());
  }

  // `count` numbers from the `first`th of the allocation on, each time by a
  // struct of its own.
  absl::StatusOr<Tensor> Numbers(int64_t first, int64_t count) const {
    auto lent = std::make_unique<Lent>();
    lent->memory = memory_;
    lent->shape = count;
    lent->managed = {
        .dl_tensor = {.data = memory_.get(),
                      .device = {.device_type = kDLCUDA, .device_id = 0},
                      .ndim = 1,
                      .dtype = kDtypeOf<int64_t>,
                      .shape = &lent->shape,
                      .strides = nullptr,
                      .byte_offset =
                          static_cast<uint64_t>(first) * sizeof(int64_t)},
        .manager_ctx = lent.get(),
        .deleter = [](DLManagedTensor* managed) {
          delete static_cast<Lent*>(managed->manager_ctx);
        }};
    return FromDLPack(LegacyDLPackTensor(&lent.release()->managed));
  }

 private:
  struct Lent {
    std::shared_ptr<void> memory;
    int64_t shape;
    DLManagedTensor managed;
  };

  explicit LibraryMemory(std::shared_ptr<void> memory)
      : memory_(std::move(memory)) {}

  static void Free(const DeviceContext& gpu, void* memory) {
    static_cast<void>(gpu.Run([&] {
      return gpu.Error(
          gpu.driver().cuMemFree_v2(reinterpret_cast<CUdeviceptr>(memory)),
          "cuMemFree");
    }));
  }

  std::shared_ptr<void> memory_;
};

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_DEVICE_LOAN_TESTING_H_

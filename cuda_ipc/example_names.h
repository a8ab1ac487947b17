// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// What the examples of this package use without declaring it.

#ifndef TENON_CUDA_IPC_EXAMPLE_NAMES_H_
#define TENON_CUDA_IPC_EXAMPLE_NAMES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/device_allocation.h"
#include "tenon/cuda_ipc/device_context.h"
#include "tenon/cuda_ipc/fence.h"
#include "tenon/cuda_ipc/legacy_memory.h"
#include "tenon/cuda_ipc/torch_tensor.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/exchange/dlpack.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon::cuda_ipc {

extern std::array<uint8_t, 16> uuid;
extern DeviceContexts* devices;
extern const DeviceContext* gpu;
extern DeviceAllocation memory;
extern LegacyImports legacy;
extern LegacyHandle handle;
extern CUdeviceptr address;
extern size_t bytes;
extern std::span<const float> pixels;
extern UniqueFd fd;
extern Tensor tensor;
extern Tensor image;
extern TensorQueue& queue;
extern CUstream stream;
extern CUstream theirs;
extern std::unique_ptr<StreamTimeline> timeline;  // Of `theirs`.
extern TensorMessage taken;
extern const TorchTensor shared;
extern const Fence written;
extern const std::optional<int64_t> number;
extern const Deadline deadline;

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_EXAMPLE_NAMES_H_

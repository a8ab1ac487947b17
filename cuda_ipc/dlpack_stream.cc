// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/dlpack_stream.h"

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "dlpack/dlpack.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/device_context.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/device.h"

namespace tenon::cuda_ipc {
namespace {

constexpr int64_t kNoOrder = -1;

absl::Status Unfit(const Tensor& tensor, int64_t stream,
                   absl::string_view want) {
  return absl::InvalidArgumentError(
      absl::StrCat("OrderDLPackConsumer(): stream ", stream, " of a tensor on ",
                   DeviceName(tensor.device()), "; want ", want));
}

}  // namespace

absl::Status OrderDLPackConsumer(const Tensor& tensor, const Fence& filled,
                                 std::optional<int64_t> stream) {
  if (tensor.device().device_type != kDLCUDA) {
    if (stream.value_or(kNoOrder) != kNoOrder) {
      return Unfit(tensor, *stream, "none, or -1: the CPU has no streams");
    }
    return filled.Check();
  }
  const int64_t number = stream.value_or(kCuStreamLegacy);
  if (number == kNoOrder) return absl::OkStatus();
  if (number <= 0) {
    return Unfit(tensor, number,
                 "1 (legacy default), 2 (per-thread default), -1 (no order) or "
                 "a CUstream");
  }
  TENON_ASSIGN_OR_RETURN(DeviceContexts * devices, DeviceContexts::OfProcess());
  TENON_ASSIGN_OR_RETURN(const DeviceContext* device,
                         devices->Get(tensor.device().device_id));
  // 1 and 2 are CUDA's own handles of these streams.
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return filled.WaitOn(*device, reinterpret_cast<CUstream>(number));
}

}  // namespace tenon::cuda_ipc

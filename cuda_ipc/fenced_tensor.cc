// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/fenced_tensor.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "tenon/cuda_ipc/internal/trace_range.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::cuda_ipc {

void AddFenced(TensorMessage& message, const FencedTensor& fenced) {
  const TraceRange range("AddFenced");
  const int64_t value = fenced.fence.IsReached() ? 0 : fenced.fence.value();
  message.Add(fenced.tensor).Add(value);
  if (value == 0) {
    message.Add(int64_t{0});
  } else {
    message.Add(fenced.fence.timeline());
  }
}

absl::StatusOr<FencedTensor> GetFenced(const TensorMessage& message,
                                       size_t index) {
  const TraceRange range("GetFenced");
  FencedTensor fenced;
  TENON_ASSIGN_OR_RETURN(fenced.tensor, message.tensor(index));
  TENON_ASSIGN_OR_RETURN(const int64_t value, message.integer(index + 1));
  if (value == 0) return fenced;
  TENON_ASSIGN_OR_RETURN(const Tensor timeline, message.tensor(index + 2));
  TENON_ASSIGN_OR_RETURN(fenced.fence, Fence::FromParts(timeline, value));
  return fenced;
}

}  // namespace tenon::cuda_ipc

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// What tests of carriers send: a tensor of the CPU, one of a device, and a view
// of that.

#ifndef TENON_CUDA_IPC_DEVICE_MIXED_TESTING_H_
#define TENON_CUDA_IPC_DEVICE_MIXED_TESTING_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tenon/cuda_ipc/device_pool.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon::cuda_ipc {

inline constexpr size_t kMixed = 3;
inline constexpr int64_t kMixedCount = 1000;

// All elements of the first are `value`, of the others `value` + 1.
inline absl::StatusOr<std::vector<Tensor>> MakeMixed(Arena& arena,
                                                     DevicePool& pool,
                                                     int64_t value) {
  const Deadline deadline = Deadline::After(absl::Seconds(30));
  TENON_ASSIGN_OR_RETURN(Tensor here, CreateTensor(arena, kDtypeOf<int64_t>,
                                                   {kMixedCount}, deadline));
  TENON_ASSIGN_OR_RETURN(
      Tensor there,
      pool.CreateTensor(kDtypeOf<int64_t>, {kMixedCount}, deadline));
  TENON_RETURN_IF_ERROR(here.Fill(value + 1));
  TENON_RETURN_IF_ERROR(there.CopyFrom(here));
  TENON_RETURN_IF_ERROR(here.Fill(value));
  TENON_ASSIGN_OR_RETURN(Tensor view,
                         there.Slice(0, {.start = 100, .stop = 200}));
  return std::vector<Tensor>{here, there, view};
}

// OK if they are these.
inline absl::Status CheckMixed(const std::vector<Tensor>& tensors,
                               int64_t value) {
  if (tensors.size() != kMixed) {
    return absl::InternalError(absl::StrCat(tensors.size(), " tensors"));
  }
  for (size_t i = 0; i < kMixed; ++i) {
    const Tensor& tensor = tensors[i];
    if (tensor.is_on_cpu() != (i == 0)) {
      return absl::InternalError(
          absl::StrCat("tensor ", i, " is in other memory"));
    }
    const int64_t expected = i == 0 ? value : value + 1;
    TENON_ASSIGN_OR_RETURN(const Tensor here, tensor.ToCpu());
    TENON_ASSIGN_OR_RETURN(const auto elements, here.data<const int64_t>());
    if (elements.size() != (i == 2 ? 100 : kMixedCount)) {
      return absl::InternalError(
          absl::StrCat("tensor ", i, " has ", elements.size(), " elements"));
    }
    for (const int64_t element : elements) {
      if (element == expected) continue;
      return absl::DataLossError(absl::StrCat(
          "an element of tensor ", i, " is ", element, ", not ", expected));
    }
  }
  if (tensors[1].storage() != tensors[2].storage()) {
    return absl::InternalError("the view has a storage of its own");
  }
  return absl::OkStatus();
}

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_DEVICE_MIXED_TESTING_H_

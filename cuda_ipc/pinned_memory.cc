// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/pinned_memory.h"

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/cuda_ipc/internal/cuda_page_pinner.h"
#include "tenon/shm/arena/page_pinner.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon::cuda_ipc {
namespace {

constinit const CudaPagePinner kPinner;

// Before main(), in each program with this file.
bool Register() {
  TENON_CHECK(RegisterPagePinner(kPinner).ok(),
              "another library has registered a pinner of memory");
  return true;
}
[[maybe_unused]] const bool kRegistered = Register();

absl::StatusOr<const std::byte*> AddressOf(const Tensor& tensor) {
  if (tensor.storage() == nullptr || tensor.storage()->lease() == nullptr) {
    return absl::InvalidArgumentError(
        "PinMemory(): the tensor is not in an arena of the CPU; create it "
        "with CreateTensor() of an arena, or receive it");
  }
  return tensor.storage()->Read();
}

}  // namespace

absl::Status PinMemory(const Tensor& tensor) {
  TENON_ASSIGN_OR_RETURN(const std::byte* const address, AddressOf(tensor));
  return PinPagesOf(address);
}

bool IsPinned(const Tensor& tensor) {
  const absl::StatusOr<const std::byte*> address = AddressOf(tensor);
  return address.ok() && ArePagesPinned(*address);
}

}  // namespace tenon::cuda_ipc

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/tensor/tensor_loan.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/device.h"
#include "tenon/shm/tensor/device_memory.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon {
namespace {

absl::Status HasNoLoan(const Tensor& tensor) {
  return absl::FailedPreconditionError(absl::StrCat(
      "tensor ", tensor.spec().ToString(), " is on ",
      DeviceName(tensor.device()),
      " in memory that other processes cannot map; create it in a pool of the "
      "device, or send a copy on the CPU (Tensor::ToCpu())"));
}

}  // namespace

absl::StatusOr<Tensor> LoanOf(const Tensor& tensor) {
  if (tensor.is_on_cpu() || tensor.is_shared()) {
    return absl::FailedPreconditionError(
        absl::StrCat("LoanOf(): tensor ", tensor.spec().ToString(),
                     " is on the CPU or in a pool; send the tensor itself"));
  }
  TENON_RETURN_IF_ERROR(tensor.storage()->CheckUsable());
  const absl::StatusOr<const DeviceMemory*> devices =
      DeviceMemoryOf(tensor.device());
  if (!devices.ok()) return HasNoLoan(tensor);
  absl::StatusOr<std::shared_ptr<Storage>> loan =
      (*devices)->Lend(tensor.storage());
  if (absl::IsUnimplemented(loan.status())) return HasNoLoan(tensor);
  if (!loan.ok()) return std::move(loan).status();
  const auto bytes = static_cast<int64_t>((*loan)->size_bytes());
  TENON_ASSIGN_OR_RETURN(const TensorSpec spec,
                         TensorSpec::Contiguous(kDtypeOf<uint8_t>, {bytes}));
  return Tensor::FromSpec(spec, *std::move(loan));
}

absl::StatusOr<Tensor> FromLoan(const Tensor& loan, int32_t type,
                                const TensorSpec& spec) {
  // An untrusted number, which the enum may not hold.
  DLDevice device = kCpuDevice;
  static_assert(sizeof(device.device_type) == sizeof(type));
  std::memcpy(&device.device_type, &type, sizeof(type));
  TENON_ASSIGN_OR_RETURN(const DeviceMemory* const devices,
                         DeviceMemoryOf(device));
  if (loan.storage() == nullptr) {
    return absl::InvalidArgumentError("FromLoan(): the loan is empty");
  }
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<Storage> memory,
                         devices->Borrow(loan.storage()));
  return Tensor::FromSpec(spec, std::move(memory));
}

}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/tensor/exchange/dlpack.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/device.h"
#include "tenon/shm/tensor/device_memory.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_spec.h"
#include "tenon/third_party/dlpack/dlpack_versioned.h"

namespace tenon {
namespace {

// ---- Out ----

// A lent tensor: the struct, its arrays, and the storage that it keeps alive.
template <typename Managed>
struct Loan {
  explicit Loan(const Tensor& lent) : tensor(lent), pin(tensor.storage()) {}

  static void Return(Managed* managed) {
    delete static_cast<Loan*>(managed->manager_ctx);
  }

  Managed managed = {};
  std::array<int64_t, TensorSpec::kMaxRank> shape = {};
  std::array<int64_t, TensorSpec::kMaxRank> strides = {};
  Tensor tensor;
  Storage::Pin pin;
};

template <typename Managed>
absl::StatusOr<std::unique_ptr<Managed, DLPackDeleter>> Lend(Tensor tensor) {
  if (tensor.storage() == nullptr) {
    TENON_ASSIGN_OR_RETURN(
        tensor, Tensor::Create(tensor.spec().dtype(), tensor.spec().shape()));
  }
  TENON_ASSIGN_OR_RETURN(std::byte* const bytes, tensor.storage()->Address());
  const TensorSpec& spec = tensor.spec();
  auto loan = std::make_unique<Loan<Managed>>(tensor);
  std::copy(spec.shape().begin(), spec.shape().end(), loan->shape.begin());
  std::copy(spec.strides().begin(), spec.strides().end(),
            loan->strides.begin());
  DLTensor& out = loan->managed.dl_tensor;
  // The caller's flags or error prevent writes.
  out.data = spec.elements() == 0 ? nullptr : bytes + spec.byte_offset();
  out.device = tensor.device();
  out.ndim = spec.rank();
  out.dtype = spec.dtype();
  out.shape = loan->shape.data();
  out.strides = loan->strides.data();
  loan->managed.manager_ctx = loan.get();
  loan->managed.deleter = Loan<Managed>::Return;
  return std::unique_ptr<Managed, DLPackDeleter>(&loan.release()->managed);
}

// ---- In ----

absl::Status Refuse(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("DLPack tensor: ", why));
}

// With an offset into memory that begins with its lowest element.
absl::StatusOr<TensorSpec> SpecOf(const DLTensor& in) {
  if (in.ndim < 0 || in.ndim > TensorSpec::kMaxRank) {
    return Refuse(absl::StrCat("it has ", in.ndim, " dimensions; at most ",
                               int{TensorSpec::kMaxRank}));
  }
  if (in.ndim > 0 && in.shape == nullptr) return Refuse("it has no shape");
  const auto rank = static_cast<size_t>(in.ndim);
  const absl::Span<const int64_t> shape(in.shape, rank);
  if (in.strides == nullptr) return TensorSpec::Contiguous(in.dtype, shape);
  return TensorSpec::Anchored(in.dtype, shape, {in.strides, rank});
}

// The memory of the elements.
absl::StatusOr<std::span<std::byte>> BytesOf(const DLTensor& in,
                                             const TensorSpec& spec) {
  if (spec.elements() == 0) return std::span<std::byte>();
  if (in.data == nullptr) return Refuse("it has elements, but no data");
  const auto data = reinterpret_cast<uintptr_t>(in.data);
  const uint64_t size = spec.byte_range().end;
  uintptr_t first;
  uintptr_t end;
  if (__builtin_add_overflow(data, in.byte_offset, &first) ||
      first < spec.byte_offset() ||
      __builtin_add_overflow(first - spec.byte_offset(), size, &end)) {
    return Refuse("its elements exceed the address space");
  }
  // The sums were checked as numbers.
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return std::span(reinterpret_cast<std::byte*>(end - size), size);
}

// By its driver, unless it is the CPU's.
absl::Status CheckDevice(const DLDevice& device) {
  if (IsOnCpu(device)) return absl::OkStatus();
  return DeviceMemoryOf(device).status();
}
absl::Status CheckBytes(const DLDevice& device,
                        std::span<const std::byte> bytes) {
  if (IsOnCpu(device) || bytes.empty()) return absl::OkStatus();
  TENON_ASSIGN_OR_RETURN(const DeviceMemory* const memory,
                         DeviceMemoryOf(device));
  return memory->CheckLent(device, bytes);
}

absl::Status OnDevice(const DLDevice& device, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(
      status.code(), absl::StrCat("DLPack tensor on ", DeviceName(device), ": ",
                                  status.message()));
}

template <typename Managed>
absl::StatusOr<Tensor> Borrow(std::unique_ptr<Managed, DLPackDeleter> managed,
                              bool writable) {
  const DLTensor& in = managed->dl_tensor;
  DLDevice device = in.device;
  if (IsOnCpu(device)) device.device_id = 0;  // Some libraries number it.
  TENON_RETURN_IF_ERROR(OnDevice(device, CheckDevice(device)));
  TENON_ASSIGN_OR_RETURN(const TensorSpec spec, SpecOf(in));
  TENON_ASSIGN_OR_RETURN(const std::span<std::byte> bytes, BytesOf(in, spec));
  TENON_RETURN_IF_ERROR(OnDevice(device, CheckBytes(device, bytes)));
  std::shared_ptr<void> lender(managed.release(),
                               [made_under = ForkCount()](Managed* lent) {
                                 // In a forked child the lender's locks may be
                                 // held for ever.
                                 if (ForkCount() == made_under)
                                   DLPackDeleter()(lent);
                               });
  return Tensor::FromSpec(spec, Storage::FromLent({.data = bytes.data(),
                                                   .size_bytes = bytes.size(),
                                                   .writable = writable,
                                                   .lender = std::move(lender),
                                                   .device = device}));
}

}  // namespace

absl::StatusOr<DLPackTensor> ToDLPack(const Tensor& tensor) {
  TENON_ASSIGN_OR_RETURN(DLPackTensor out,
                         Lend<DLManagedTensorVersioned>(tensor));
  // No feature of later minor versions is used.
  out->version = {.major = 1, .minor = 0};
  out->flags = tensor.writable() ? 0 : DLPACK_FLAG_BITMASK_READ_ONLY;
  return out;
}

absl::StatusOr<LegacyDLPackTensor> ToLegacyDLPack(const Tensor& tensor) {
  if (!tensor.writable()) {
    return absl::FailedPreconditionError(
        "the tensor is read-only, which legacy DLPack cannot express: use the "
        "versioned form, or copy the tensor");
  }
  return Lend<DLManagedTensor>(tensor);
}

absl::StatusOr<Tensor> FromDLPack(DLPackTensor managed) {
  if (managed == nullptr) return Refuse("it is null");
  // Other fields may be elsewhere in another major version.
  if (managed->version.major != 1) {
    return Refuse(absl::StrCat("it has version ", managed->version.major, ".",
                               managed->version.minor, "; want 1.x"));
  }
  const bool read_only = managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY;
  return Borrow(std::move(managed), !read_only);
}

absl::StatusOr<Tensor> FromDLPack(LegacyDLPackTensor managed) {
  if (managed == nullptr) return Refuse("it is null");
  return Borrow(std::move(managed), /*writable=*/true);
}

}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/tensor/tensor.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/tensor/device.h"
#include "tenon/shm/tensor/device_memory.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/strided_copy.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon {
namespace {

// A bool is accessed as its byte.
bool CanBeAccessedAs(DLDataType dtype, DLDataType as) {
  if (dtype.code == kBoolCode && dtype.bits == 8) dtype.code = kDLUInt;
  return SameDtype(dtype, as);
}

absl::Status CheckAligned(const std::byte* address, size_t alignment) {
  if (reinterpret_cast<uintptr_t>(address) % alignment == 0) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the tensor's elements are not aligned to ", alignment,
                   " bytes: copy it first"));
}

}  // namespace

absl::StatusOr<Tensor> Tensor::Create(DLDataType dtype,
                                      absl::Span<const int64_t> shape,
                                      MemoryInit init) {
  TENON_ASSIGN_OR_RETURN(const TensorSpec spec,
                         TensorSpec::Contiguous(dtype, shape));
  TENON_ASSIGN_OR_RETURN(
      std::shared_ptr<Storage> storage,
      Storage::CreatePrivate(static_cast<size_t>(spec.bytes()), init));
  return Tensor(spec, std::move(storage));
}

absl::StatusOr<Tensor> Tensor::CreateShared(
    DLDataType dtype, absl::Span<const int64_t> shape,
    const SharedTensorOptions& options) {
  TENON_ASSIGN_OR_RETURN(const TensorSpec spec,
                         TensorSpec::Contiguous(dtype, shape));
  TENON_ASSIGN_OR_RETURN(
      std::shared_ptr<Storage> storage,
      Storage::CreateShared(static_cast<size_t>(spec.bytes()), options.kind,
                            options.segment));
  return Tensor(spec, std::move(storage));
}

absl::StatusOr<Tensor> Tensor::CopyOfValues(DLDataType dtype,
                                            std::span<const std::byte> values,
                                            absl::Span<const int64_t> shape) {
  TENON_ASSIGN_OR_RETURN(Tensor copy,
                         Create(dtype, shape, MemoryInit::kUninitialized));
  const TensorSpec& spec = copy.spec_;
  if (values.size() != static_cast<size_t>(spec.bytes())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Tensor::CopyOf(): ",
        values.size() / static_cast<size_t>(spec.element_bytes()),
        " values for tensor ", spec.ToString(), "; want ", spec.elements()));
  }
  if (values.empty()) return copy;
  TENON_ASSIGN_OR_RETURN(std::byte* const to, copy.Memory(/*writes=*/true));
  std::memcpy(to, values.data(), values.size());
  return copy;
}

absl::StatusOr<Tensor> Tensor::CreateSharedFrom(
    DLDataType dtype, absl::Span<const int64_t> shape,
    absl::Span<const std::byte> bytes, const SharedTensorOptions& options) {
  TENON_ASSIGN_OR_RETURN(const TensorSpec spec,
                         TensorSpec::Contiguous(dtype, shape));
  if (bytes.size() != static_cast<size_t>(spec.bytes())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Tensor::CreateSharedFrom(): ", bytes.size(), " bytes for tensor ",
        spec.ToString(), "; want ", spec.bytes()));
  }
  TENON_ASSIGN_OR_RETURN(
      std::shared_ptr<Storage> storage,
      Storage::CreateSharedFrom({bytes.data(), bytes.size()}, options.kind,
                                options.segment));
  return Tensor(spec, std::move(storage));
}

absl::StatusOr<Tensor> Tensor::FromSpec(TensorSpec spec,
                                        std::shared_ptr<Storage> storage) {
  TENON_CHECK(storage != nullptr, "Tensor::FromSpec() without a storage");
  TENON_RETURN_IF_ERROR(spec.CheckFits(storage->size_bytes()));
  return Tensor(spec, std::move(storage));
}

void Tensor::EndAsTooSmall() {
  Abort("Tensor() with a smaller storage than was checked");
}

// ---- Elements ----

absl::Status Tensor::CheckDtype(const Access& access) const {
  if (access.any_dtype || CanBeAccessedAs(spec_.dtype(), access.dtype)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "tensor ", spec_.ToString(), " accessed as ", DtypeName(access.dtype)));
}

absl::StatusOr<std::byte*> Tensor::Memory(bool writes) const {
  if (storage_ == nullptr) return nullptr;
  if (writes) return storage_->Write();
  TENON_ASSIGN_OR_RETURN(const std::byte* bytes, storage_->Read());
  // A read-only tensor returns it as const.
  return const_cast<std::byte*>(bytes);
}

absl::StatusOr<std::byte*> Tensor::Dense(const Access& access) const {
  TENON_RETURN_IF_ERROR(CheckDtype(access));
  if (!spec_.is_contiguous()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "tensor ", spec_.ToString(), " is not contiguous: copy it first"));
  }
  TENON_ASSIGN_OR_RETURN(std::byte * memory, Memory(access.writes));
  if (spec_.elements() == 0) return nullptr;
  memory += spec_.byte_offset();
  TENON_RETURN_IF_ERROR(CheckAligned(memory, access.alignment));
  return memory;
}

absl::StatusOr<std::byte*> Tensor::At(const Access& access,
                                      absl::Span<const int64_t> index) const {
  TENON_RETURN_IF_ERROR(CheckDtype(access));
  TENON_ASSIGN_OR_RETURN(const uint64_t offset, spec_.ByteOffsetOf(index));
  TENON_ASSIGN_OR_RETURN(std::byte * memory, Memory(access.writes));
  TENON_RETURN_IF_ERROR(CheckAligned(memory + offset, access.alignment));
  return memory + offset;
}

absl::StatusOr<std::byte*> Tensor::FirstOnDevice(const Access& access) const {
  TENON_RETURN_IF_ERROR(CheckDtype(access));
  if (is_on_cpu()) {
    return absl::FailedPreconditionError(
        absl::StrCat("Tensor::device_data(): tensor ", spec_.ToString(),
                     " is on the CPU; use data()"));
  }
  if (access.writes) TENON_RETURN_IF_ERROR(storage_->CheckWritable());
  TENON_ASSIGN_OR_RETURN(std::byte * memory, storage_->Address());
  if (spec_.elements() == 0) return nullptr;
  memory += spec_.byte_offset();
  TENON_RETURN_IF_ERROR(CheckAligned(memory, access.alignment));
  return memory;
}

absl::Status Tensor::FillWith(const Access& access, const void* value) const {
  TENON_RETURN_IF_ERROR(CheckDtype(access));
  TENON_ASSIGN_OR_RETURN(std::byte * memory, Memory(/*writes=*/true));
  // One value for every index.
  const std::vector<int64_t> strides(spec_.shape().size(), 0);
  TENON_ASSIGN_OR_RETURN(
      const TensorSpec from,
      TensorSpec::Strided(spec_.dtype(), spec_.shape(), strides));
  StridedCopy({spec_, memory}, {from, static_cast<const std::byte*>(value)});
  return absl::OkStatus();
}

bool Tensor::MayOverlap(const Tensor& other) const {
  if (storage_ == nullptr || other.storage_ == nullptr) return false;
  const TensorSpec::ByteRange a = spec_.byte_range();
  const TensorSpec::ByteRange b = other.spec_.byte_range();
  // One segment may be mapped twice.
  if (storage_ == other.storage_ ||
      (storage_->id() && storage_->id() == other.storage_->id())) {
    return a.first < b.end && b.first < a.end;
  }
  // Lent memory may have other users as well. Addresses of two devices that are
  // equal by chance cost a copy.
  const absl::StatusOr<std::byte*> here = storage_->Address();
  const absl::StatusOr<std::byte*> there = other.storage_->Address();
  if (!here.ok() || !there.ok()) return true;
  const std::less<const std::byte*> before;
  return before(*here + a.first, *there + b.end) &&
         before(*there + b.first, *here + a.end);
}

absl::Status Tensor::CopyFrom(const Tensor& other) const {
  if (spec_.shape() != other.spec_.shape() ||
      !SameDtype(spec_.dtype(), other.spec_.dtype())) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", other.spec_.ToString(),
                     " cannot be copied to tensor ", spec_.ToString()));
  }
  if (!is_on_cpu() || !other.is_on_cpu()) return CopyAcross(other);
  TENON_ASSIGN_OR_RETURN(std::byte * to, Memory(/*writes=*/true));
  TENON_ASSIGN_OR_RETURN(const std::byte* from, other.Memory(/*writes=*/false));
  if (MayOverlap(other)) {
    TENON_ASSIGN_OR_RETURN(const Tensor copy, other.Clone());
    return CopyFrom(copy);
  }
  StridedCopy({spec_, to}, {other.spec_, from});
  return absl::OkStatus();
}

absl::StatusOr<Tensor> Tensor::DenseOn(const DLDevice& device) const {
  if (DeviceType(device) == kDLCPU) {
    return Create(spec_.dtype(), spec_.shape(), MemoryInit::kUninitialized);
  }
  TENON_ASSIGN_OR_RETURN(const DeviceMemory* const memory,
                         DeviceMemoryOf(device));
  TENON_ASSIGN_OR_RETURN(const TensorSpec spec,
                         TensorSpec::Contiguous(spec_.dtype(), spec_.shape()));
  if (spec.bytes() == 0) {
    return Tensor(spec,
                  Storage::FromLent({.writable = true, .device = device}));
  }
  TENON_ASSIGN_OR_RETURN(
      std::shared_ptr<Storage> storage,
      memory->Allocate(device, static_cast<size_t>(spec.bytes())));
  return FromSpec(spec, std::move(storage));
}

absl::StatusOr<Tensor> Tensor::Clone() const {
  TENON_ASSIGN_OR_RETURN(Tensor copy,
                         DenseOn(is_on_cpu() ? kCpuDevice : device()));
  TENON_RETURN_IF_ERROR(copy.CopyFrom(*this));
  return copy;
}

absl::StatusOr<Tensor> Tensor::To(DLDevice device) const {
  if (SameDevice(device, this->device()) ||
      (DeviceType(device) == kDLCPU && is_on_cpu())) {
    return *this;
  }
  TENON_ASSIGN_OR_RETURN(Tensor copy, DenseOn(device));
  TENON_RETURN_IF_ERROR(copy.CopyFrom(*this));
  return copy;
}

// ---- Copies from and to devices ----

// A copy of all bytes from the first element to the last one, with the strides
// of this tensor.
absl::StatusOr<Tensor> Tensor::ToCpuWithGaps() const {
  const TensorSpec::ByteRange range = spec_.byte_range();
  const auto bytes = static_cast<size_t>(range.end - range.first);
  TENON_ASSIGN_OR_RETURN(
      std::shared_ptr<Storage> here,
      Storage::CreatePrivate(bytes, MemoryInit::kUninitialized));
  TENON_ASSIGN_OR_RETURN(const DeviceMemory* const memory,
                         DeviceMemoryOf(device()));
  TENON_ASSIGN_OR_RETURN(std::byte* const to, here->Write());
  TENON_ASSIGN_OR_RETURN(const std::byte* const from, storage_->Address());
  TENON_RETURN_IF_ERROR(memory->Copy({here->device(), {to, bytes}},
                                     {device(), {from + range.first, bytes}}));
  TENON_ASSIGN_OR_RETURN(
      const TensorSpec spec,
      TensorSpec::Strided(spec_.dtype(), spec_.shape(), spec_.strides(),
                          spec_.byte_offset() - range.first));
  return FromSpec(spec, std::move(here));
}

absl::Status Tensor::CopyRuns(const Tensor& other) const {
  TENON_ASSIGN_OR_RETURN(
      const DeviceMemory* const memory,
      DeviceMemoryOf(is_on_cpu() ? other.device() : device()));
  TENON_ASSIGN_OR_RETURN(std::byte* const to, storage_->Address());
  TENON_ASSIGN_OR_RETURN(const std::byte* const from,
                         other.storage_->Address());
  return ForEachRun(spec_, other.spec_, [&](const StridedRun& run) {
    return memory->Copy({device(), {to + run.to, run.bytes}},
                        {other.device(), {from + run.from, run.bytes}});
  });
}

absl::Status Tensor::CopyAcross(const Tensor& other) const {
  // A tensor without storage has no elements.
  if (storage_ != nullptr) TENON_RETURN_IF_ERROR(storage_->CheckWritable());
  if (other.storage_ != nullptr) {
    TENON_RETURN_IF_ERROR(other.storage_->CheckUsable());
  }
  const uint64_t runs = CountRuns(spec_, other.spec_);
  if (runs == 0) return absl::OkStatus();
  if (MayOverlap(other)) {
    TENON_ASSIGN_OR_RETURN(const Tensor copy, other.Clone());
    return CopyFrom(copy);
  }
  // A driver copies between devices of its type and the CPU.
  if (!is_on_cpu() && !other.is_on_cpu() &&
      DeviceType(device()) != DeviceType(other.device())) {
    TENON_ASSIGN_OR_RETURN(const Tensor here, other.ToCpu());
    return CopyFrom(here);
  }
  if (runs == 1) return CopyRuns(other);
  // A call of a driver costs about as much as so many bytes.
  constexpr uint64_t kBytesOfACall = 64 << 10;
  if (!other.is_on_cpu()) {
    const TensorSpec::ByteRange range = other.spec_.byte_range();
    if ((range.end - range.first) / kBytesOfACall < runs) {
      TENON_ASSIGN_OR_RETURN(const Tensor here, other.ToCpuWithGaps());
      return CopyFrom(here);
    }
  } else if (spec_.is_contiguous() && !other.spec_.is_contiguous()) {
    TENON_ASSIGN_OR_RETURN(const Tensor dense, other.Clone());
    return CopyFrom(dense);
  }
  // What is between the elements stays as it is.
  return CopyRuns(other);
}

absl::StatusOr<Tensor> Tensor::Contiguous() const {
  if (spec_.is_contiguous()) return *this;
  return Clone();
}

// ---- Views ----

absl::StatusOr<Tensor> Tensor::ViewOf(absl::StatusOr<TensorSpec> spec) const {
  if (!spec.ok()) return std::move(spec).status();
  return Tensor(*spec, storage_);
}

absl::StatusOr<Tensor> Tensor::Slice(int dim, const SliceRange& range) const {
  return ViewOf(spec_.Slice(dim, range));
}

absl::StatusOr<Tensor> Tensor::Select(int dim, int64_t index) const {
  return ViewOf(spec_.Select(dim, index));
}

absl::StatusOr<Tensor> Tensor::Transpose(int dim_a, int dim_b) const {
  return ViewOf(spec_.Transpose(dim_a, dim_b));
}

absl::StatusOr<Tensor> Tensor::Reshape(absl::Span<const int64_t> shape) const {
  return ViewOf(spec_.Reshape(shape));
}

absl::Status Tensor::Share(const SegmentOptions& options) {
  if (storage_ == nullptr) {
    TENON_ASSIGN_OR_RETURN(storage_, Storage::CreatePrivate(0));
  }
  return storage_->MoveToSegment(options);
}

}  // namespace tenon

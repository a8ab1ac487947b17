// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/tensor_codec/tensor_copies.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/device.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon {

absl::StatusOr<size_t> TensorCopies::Add(const Tensor& tensor) {
  if (!tensor.is_on_cpu()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "tensor ", tensor.spec().ToString(), " is on ",
        DeviceName(tensor.device()),
        " in memory that other processes cannot map; create it in a pool of "
        "the device, or send a copy on the CPU (Tensor::ToCpu())"));
  }
  const TensorSpec::ByteRange range = tensor.spec().byte_range();
  const uint64_t first = range.first / kAlignment * kAlignment;
  const auto [number, is_new] =
      numbers_.emplace(tensor.storage().get(), copies_.size());
  if (is_new) copies_.push_back({.storage = tensor.storage()});
  Copy& copy = copies_[number->second];
  if (range.end != 0) {
    copy.first = copy.end == 0 ? first : std::min(copy.first, first);
    copy.end = std::max(copy.end, range.end);
  }
  return number->second;
}

size_t TensorCopies::Place(size_t offset) {
  size_t end = offset;
  for (Copy& copy : copies_) {
    copy.at = AlignUp(end);
    end = copy.at + static_cast<size_t>(copy.end - copy.first);
  }
  return end;
}

absl::StatusOr<TensorSpec> TensorCopies::SpecOf(size_t copy,
                                                const TensorSpec& spec,
                                                size_t block_bytes) const {
  const Copy& copied = copies_[copy];
  const uint64_t offset = spec.elements() == 0
                              ? copied.at
                              : copied.at + spec.byte_offset() - copied.first;
  TENON_ASSIGN_OR_RETURN(
      const TensorSpec moved,
      TensorSpec::Strided(spec.dtype(), spec.shape(), spec.strides(), offset));
  TENON_RETURN_IF_ERROR(moved.CheckFits(block_bytes));
  return moved;
}

absl::Status TensorCopies::Write(std::span<std::byte> block) const {
  for (const Copy& copy : copies_) {
    if (copy.end == 0) continue;
    TENON_ASSIGN_OR_RETURN(const std::byte* from, copy.storage->Read());
    std::memcpy(block.data() + copy.at, from + copy.first,
                static_cast<size_t>(copy.end - copy.first));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Tensor>> CopyIntoArena(
    Arena& arena, absl::Span<const Tensor> tensors, Deadline deadline) {
  TensorCopies copies;
  std::vector<size_t> numbers;
  for (const Tensor& tensor : tensors) {
    TENON_ASSIGN_OR_RETURN(numbers.emplace_back(), copies.Add(tensor));
  }
  const auto bytes = std::max(copies.Place(0), size_t{1});
  TENON_ASSIGN_OR_RETURN(const Tensor block,
                         CreateTensor(arena, kDtypeOf<uint8_t>,
                                      {static_cast<int64_t>(bytes)}, deadline));
  TENON_ASSIGN_OR_RETURN(const auto to, block.data<std::byte>());
  TENON_RETURN_IF_ERROR(copies.Write({to.data(), to.size()}));
  std::vector<Tensor> copied;
  for (size_t i = 0; i < tensors.size(); ++i) {
    TENON_ASSIGN_OR_RETURN(const TensorSpec spec,
                           copies.SpecOf(numbers[i], tensors[i].spec(), bytes));
    TENON_ASSIGN_OR_RETURN(copied.emplace_back(),
                           Tensor::FromSpec(spec, block.storage()));
  }
  return copied;
}

}  // namespace tenon

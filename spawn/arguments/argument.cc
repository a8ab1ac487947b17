// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/arguments/argument.h"

#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/ipc/tensor_codec/tensor_copies.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/demangle.h"
#include "tenon/shm/base/duplicate_fd.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/spawn/arguments/argument_arena.h"

namespace tenon::spawn {

PackedTensors::PackedTensors() = default;
PackedTensors::~PackedTensors() = default;
PackedTensors::PackedTensors(PackedTensors&&) noexcept = default;
PackedTensors& PackedTensors::operator=(PackedTensors&&) noexcept = default;

absl::Status ArgumentWriter::PutFd(int fd) {
  TENON_ASSIGN_OR_RETURN(UniqueFd copy, DuplicateFd(fd, "an argument"));
  fds_.push_back(std::move(copy));
  return absl::OkStatus();
}

void ArgumentWriter::PutTensor(Tensor tensor) {
  tensors_.list.emplace_back(std::move(tensor));
}

absl::Status ArgumentWriter::CopyPrivate() {
  const auto is_copied = [](const Tensor& tensor) {
    return !tensor.is_shared() && tensor.is_on_cpu();
  };
  std::vector<Tensor> tensors;
  for (const absl::StatusOr<Tensor>& tensor : tensors_.list) {
    if (is_copied(*tensor)) tensors.push_back(*tensor);
  }
  if (tensors.empty()) return absl::OkStatus();
  TENON_ASSIGN_OR_RETURN(const auto arena, ArgumentArena());
  TENON_ASSIGN_OR_RETURN(tensors,
                         CopyIntoArena(*arena, tensors, Deadline::Passed()));
  auto next = tensors.begin();
  for (absl::StatusOr<Tensor>& tensor : tensors_.list) {
    if (is_copied(*tensor)) tensor = std::move(*next++);
  }
  return absl::OkStatus();
}

absl::StatusOr<PackedArguments> ArgumentWriter::Finish() && {
  TENON_RETURN_IF_ERROR(CopyPrivate());
  return PackedArguments{.bytes = std::move(bytes_).bytes(),
                         .fds = std::move(fds_),
                         .on_start = std::move(on_start_),
                         .exclusive = std::move(exclusive_),
                         .tensors = std::move(tensors_)};
}

absl::StatusOr<UniqueFd> ArgumentReader::TakeFd() {
  if (next_fd_ == fds_.size()) {
    return absl::DataLossError(
        absl::StrCat("arguments have only ", fds_.size(), " descriptors"));
  }
  return std::move(fds_[next_fd_++]);
}

absl::StatusOr<Tensor> ArgumentReader::TakeTensor() {
  if (next_tensor_ == tensors_.list.size()) {
    return absl::DataLossError(
        absl::StrCat("arguments have only ", tensors_.list.size(), " tensors"));
  }
  return std::move(tensors_.list[next_tensor_++]);
}

absl::Status ArgumentReader::Finish() const {
  if (next_tensor_ != tensors_.list.size()) {
    return absl::DataLossError(
        absl::StrCat(tensors_.list.size() - next_tensor_,
                     " surplus tensors in the arguments"));
  }
  if (next_fd_ != fds_.size()) {
    return absl::DataLossError(absl::StrCat(
        fds_.size() - next_fd_, " surplus descriptors in the arguments"));
  }
  return bytes_.Finish();
}

std::string ReadableTypeName(const std::type_info& type) {
  return Demangle(type.name());
}

}  // namespace tenon::spawn

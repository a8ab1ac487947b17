// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/arguments/shm_arguments.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/tensor/exchange/tensor_handle.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_loan.h"
#include "tenon/spawn/arguments/argument.h"

namespace tenon::spawn {
namespace {

absl::StatusOr<SegmentKind> CheckKind(uint8_t kind) {
  switch (static_cast<SegmentKind>(kind)) {
    case SegmentKind::kOwnerWritten:
    case SegmentKind::kSharedWritable:
      return static_cast<SegmentKind>(kind);
  }
  return absl::DataLossError(absl::StrCat("unknown segment kind ", int{kind}));
}

}  // namespace

absl::Status ArgumentTraits<Segment>::Pack(const Segment& segment,
                                           ArgumentWriter& to) {
  to.Put(static_cast<uint8_t>(segment.kind()));
  to.PutString(segment.name());
  return segment.name().empty() ? to.PutFd(segment.fd()) : absl::OkStatus();
}

absl::StatusOr<Segment> ArgumentTraits<Segment>::Unpack(ArgumentReader& from) {
  TENON_ASSIGN_OR_RETURN(const auto bits, from.Get<uint8_t>());
  TENON_ASSIGN_OR_RETURN(const SegmentKind kind, CheckKind(bits));
  TENON_ASSIGN_OR_RETURN(const std::string name, from.GetString());
  if (!name.empty()) return Segment::Open(name, kind);
  TENON_ASSIGN_OR_RETURN(UniqueFd fd, from.TakeFd());
  return Segment::Adopt(std::move(fd), kind);
}

absl::Status ArgumentTraits<Tensor>::Pack(const Tensor& tensor,
                                          ArgumentWriter& to) {
  // An error that would prevent sending is returned here.
  if (tensor.is_shared()) {
    TENON_RETURN_IF_ERROR(tensor.storage()->lease() != nullptr
                              ? DescribeBlock(tensor).status()
                              : Export(tensor).status());
  } else if (!tensor.is_on_cpu()) {
    TENON_RETURN_IF_ERROR(LoanOf(tensor).status());
  }
  to.PutTensor(tensor);
  return absl::OkStatus();
}

absl::StatusOr<Tensor> ArgumentTraits<Tensor>::Unpack(ArgumentReader& from) {
  return from.TakeTensor();
}

}  // namespace tenon::spawn

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/data/sealed_tensor.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/base/size_text.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon::loader {
namespace {

constexpr SharingStrategy kStrategy = SharingStrategy::kFileDescriptor;

absl::StatusOr<std::shared_ptr<Storage>> SealedStorage(
    absl::Span<const std::byte> bytes) {
  if (bytes.empty()) {
    return Storage::CreateShared(0, SegmentKind::kOwnerWritten,
                                 {.strategy = kStrategy});
  }
  TENON_ASSIGN_OR_RETURN(
      Segment segment,
      Segment::CreateFilled(std::span(bytes.data(), bytes.size()),
                            SegmentKind::kOwnerWritten,
                            {.strategy = kStrategy}));
  return Storage::FromSegment(std::move(segment));
}

}  // namespace

absl::StatusOr<Tensor> SealedTensor(DLDataType dtype,
                                    absl::Span<const int64_t> shape,
                                    absl::Span<const std::byte> bytes) {
  TENON_ASSIGN_OR_RETURN(TensorSpec spec, TensorSpec::Contiguous(dtype, shape));
  if (static_cast<int64_t>(bytes.size()) != spec.bytes()) {
    return absl::InvalidArgumentError(
        absl::StrCat("SealedTensor(): ", SizeText(bytes.size()),
                     " for a tensor of ", spec.ToString(), "; want ",
                     SizeText(static_cast<uint64_t>(spec.bytes()))));
  }
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<Storage> storage,
                         SealedStorage(bytes));
  return Tensor::FromSpec(spec, std::move(storage));
}

}  // namespace tenon::loader

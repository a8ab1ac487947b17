// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// For tests of tensor importers: tensors in every kind of segment, and their
// delivery from another process.

#ifndef TENON_SHM_TENSOR_EXCHANGE_TENSOR_IMPORTER_TESTING_H_
#define TENON_SHM_TENSOR_EXCHANGE_TENSOR_IMPORTER_TESTING_H_

#include <fcntl.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/exchange/tensor_handle.h"
#include "tenon/shm/tensor/exchange/tensor_importer.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/process_testing.h"

namespace tenon {

inline constexpr DLDataType kInt = kDtypeOf<int32_t>;

// A channel's delivery: the handle's bytes, and a separate descriptor.
struct Delivery {
  TensorHandle handle;
  UniqueFd fd;
};

inline Delivery Deliver(const ExportedTensor& exported) {
  Delivery delivery = {
      .handle = TensorHandle::Parse(exported.handle.AsBytes()).value(),
      .fd = UniqueFd()};
  for (const int fd : exported.fds()) {
    delivery.fd.Reset(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  }
  return delivery;
}

inline absl::StatusOr<Tensor> Send(const Tensor& tensor,
                                   TensorImporter& importer) {
  Delivery delivery = Deliver(Export(tensor).value());
  return importer.Import(delivery.handle, std::move(delivery.fd));
}

struct ImporterCase {
  SegmentKind kind;
  SharingStrategy strategy;
};

class TensorImporterTest : public testing::TestWithParam<ImporterCase> {
 protected:
  // 0, 1, 2, ... in a segment.
  Tensor Counting(absl::Span<const int64_t> shape) {
    Tensor tensor =
        Tensor::CreateShared(kInt, shape,
                             {.kind = GetParam().kind,
                              .segment = {.strategy = GetParam().strategy,
                                          .name_prefix = prefix_}})
            .value();
    const auto elements = tensor.data<int32_t>().value();
    std::iota(elements.begin(), elements.end(), 0);
    return tensor;
  }

  bool by_name() const {
    return GetParam().strategy == SharingStrategy::kFileSystem;
  }
  bool owner_written() const {
    return GetParam().kind == SegmentKind::kOwnerWritten;
  }

  const std::string prefix_ = UniqueTestPrefix();
};

inline auto AllImporterCases() {
  return testing::Values(
      ImporterCase{SegmentKind::kSharedWritable,
                   SharingStrategy::kFileDescriptor},
      ImporterCase{SegmentKind::kSharedWritable, SharingStrategy::kFileSystem},
      ImporterCase{SegmentKind::kOwnerWritten,
                   SharingStrategy::kFileDescriptor},
      ImporterCase{SegmentKind::kOwnerWritten, SharingStrategy::kFileSystem});
}

}  // namespace tenon

#endif  // TENON_SHM_TENSOR_EXCHANGE_TENSOR_IMPORTER_TESTING_H_

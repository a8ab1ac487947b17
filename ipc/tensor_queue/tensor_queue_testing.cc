// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/tensor_queue/tensor_queue_testing.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/dtype.h"

namespace tenon {
namespace {

constexpr auto kDtype = kDtypeOf<int64_t>;

SegmentOptions Options(SharingStrategy strategy, const std::string& prefix) {
  SegmentOptions options;
  options.strategy = strategy;
  options.name_prefix = prefix;
  return options;
}

}  // namespace

std::string TensorWayName(TensorWay way) {
  switch (way) {
    case TensorWay::kPooled:
      return "Pooled";
    case TensorWay::kPooledByName:
      return "PooledByName";
    case TensorWay::kFileDescriptor:
      return "FileDescriptor";
    case TensorWay::kOwnerWritten:
      return "OwnerWritten";
    case TensorWay::kFileSystem:
      return "FileSystem";
    case TensorWay::kPrivate:
      return "Private";
  }
  return "?";
}

Deadline TestDeadline() { return Deadline::After(absl::Seconds(15)); }

TensorMaker::TensorMaker(TensorWay way, TensorQueue* queue, std::string prefix)
    : way_(way), queue_(queue), prefix_(std::move(prefix)) {}

absl::StatusOr<Tensor> TensorMaker::Make(int64_t value) {
  absl::StatusOr<Tensor> tensor;
  switch (way_) {
    case TensorWay::kPooled:
      tensor = queue_->CreateTensor(kDtype, {3, 5}, TestDeadline());
      break;
    case TensorWay::kPooledByName: {
      if (arena_ == nullptr) {
        ArenaOptions options;
        options.segment = Options(SharingStrategy::kFileSystem, prefix_);
        TENON_ASSIGN_OR_RETURN(arena_, Arena::Create(options));
      }
      tensor = CreateTensor(*arena_, kDtype, {3, 5}, TestDeadline());
      break;
    }
    case TensorWay::kFileDescriptor:
    case TensorWay::kOwnerWritten:
    case TensorWay::kFileSystem: {
      const bool named = way_ == TensorWay::kFileSystem;
      const bool owned = way_ == TensorWay::kOwnerWritten;
      tensor = Tensor::CreateShared(
          kDtype, {3, 5},
          {.kind = owned ? SegmentKind::kOwnerWritten
                         : SegmentKind::kSharedWritable,
           .segment = Options(named ? SharingStrategy::kFileSystem
                                    : SharingStrategy::kFileDescriptor,
                              prefix_)});
      break;
    }
    case TensorWay::kPrivate:
      tensor = Tensor::Create(kDtype, {3, 5});
      break;
  }
  if (tensor.ok()) TENON_RETURN_IF_ERROR(tensor->Fill(value));
  return tensor;
}

testing::AssertionResult IsTensorOf(const absl::StatusOr<Tensor>& tensor,
                                    int64_t value) {
  if (!tensor.ok()) return testing::AssertionFailure() << tensor.status();
  const auto dense = tensor->Contiguous();
  if (!dense.ok()) return testing::AssertionFailure() << dense.status();
  const auto elements = dense->data<const int64_t>();
  if (!elements.ok()) return testing::AssertionFailure() << elements.status();
  if (elements->empty()) return testing::AssertionFailure() << "no elements";
  for (const int64_t element : *elements) {
    if (element == value) continue;
    return testing::AssertionFailure()
           << "an element is " << element << "; want " << value;
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult GetsTensorOf(TensorQueue& queue, int64_t value) {
  const auto message = queue.Get(TestDeadline());
  if (!message.ok()) return testing::AssertionFailure() << message.status();
  return IsTensorOf(message->tensor(0), value);
}

}  // namespace tenon

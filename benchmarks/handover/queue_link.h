// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// QueueLink: a TensorQueue each way as a Link (works.h), with the defaults that
// users get.

#ifndef TENON_BENCHMARKS_HANDOVER_QUEUE_LINK_H_
#define TENON_BENCHMARKS_HANDOVER_QUEUE_LINK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "tenon/benchmarks/harness/subject.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/must.h"

namespace tenon::benchmarks {

class QueueEnd {
 public:
  using Item = Tensor;

  QueueEnd(std::unique_ptr<TensorQueue> out, std::unique_ptr<TensorQueue> in,
           int64_t bytes)
      : out_(std::move(out)), in_(std::move(in)), bytes_(bytes) {}

  Tensor New() {
    return Must(
        out_->CreateTensor(kDtypeOf<uint8_t>, {bytes_}, Deadline::Never()));
  }
  static std::span<uint8_t> Bytes(const Tensor& tensor) {
    const auto bytes = Must(tensor.data<uint8_t>());
    return {bytes.data(), bytes.size()};
  }
  void Put(const Tensor& tensor) {
    Check(out_->Put(tensor, Deadline::Never()));
  }
  // The caller keeps its tensor.
  void PutKeeping(const Tensor& tensor) { Put(tensor); }
  Tensor Get() {
    for (;;) {
      auto got = in_->TryGetTensor();
      Check(got.status());
      if (*got) return **std::move(got);
      StdAtomics::Pause();
    }
  }
  Tensor GetAsleep() { return Must(in_->GetTensor(Deadline::Never())); }
  static void Release(Tensor) {}

  size_t bytes() const { return static_cast<size_t>(bytes_); }

 private:
  const std::unique_ptr<TensorQueue> out_, in_;
  const int64_t bytes_;
};

// Tensors in a segment of their own, created from bytes.
template <SharingStrategy kStrategy>
class OwnEnd : public QueueEnd {
 public:
  using QueueEnd::QueueEnd;

  Tensor NewFrom(std::span<const std::byte> from) {
    return Must(Tensor::CreateSharedFrom(
        kDtypeOf<uint8_t>, {static_cast<int64_t>(from.size())}, from,
        {.segment = {.strategy = kStrategy}}));
  }
};

// A queue each way, for tensors of `bytes`.
template <typename EndType>
class QueueLinkOf {
 public:
  using End = EndType;

  explicit QueueLinkOf(int64_t bytes = 4096) : bytes_(bytes) {}

  std::unique_ptr<End> Asker() {
    return std::make_unique<End>(std::move(there_), std::move(back_), bytes_);
  }
  std::unique_ptr<End> Answerer() {
    auto in = Must(TensorQueue::Open(std::move(there_handle_)));
    auto out = Must(TensorQueue::Open(std::move(back_handle_)));
    return std::make_unique<End>(std::move(out), std::move(in), bytes_);
  }

 private:
  const int64_t bytes_;
  std::unique_ptr<TensorQueue> there_ = Must(TensorQueue::Create());
  std::unique_ptr<TensorQueue> back_ = Must(TensorQueue::Create());
  QueueHandle there_handle_ = Must(there_->Share());
  QueueHandle back_handle_ = Must(back_->Share());
};

// By strategy: in a block of an arena, in a segment by descriptor, by name.
using QueueLink = QueueLinkOf<QueueEnd>;
using DescriptorLink = QueueLinkOf<OwnEnd<SharingStrategy::kFileDescriptor>>;
using NameLink = QueueLinkOf<OwnEnd<SharingStrategy::kFileSystem>>;

}  // namespace tenon::benchmarks

#endif  // TENON_BENCHMARKS_HANDOVER_QUEUE_LINK_H_

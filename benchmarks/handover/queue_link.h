// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// QueueLink: a TensorQueue each way as a Link (works.h), with the defaults that
// users get.

#ifndef TENON_BENCHMARKS_HANDOVER_QUEUE_LINK_H_
#define TENON_BENCHMARKS_HANDOVER_QUEUE_LINK_H_

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "tenon/benchmarks/harness/subject.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon::benchmarks {

template <int64_t kBytes>
class QueueEnd {
 public:
  using Item = Tensor;

  QueueEnd(std::unique_ptr<TensorQueue> out, std::unique_ptr<TensorQueue> in)
      : out_(std::move(out)), in_(std::move(in)) {}

  Tensor New() {
    return Must(
        out_->CreateTensor(kDtypeOf<uint8_t>, {kBytes}, Deadline::Never()));
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

 private:
  const std::unique_ptr<TensorQueue> out_, in_;
};

// Of tensors of that size.
template <int64_t kBytes>
class QueueLinkOf {
 public:
  using End = QueueEnd<kBytes>;

  std::unique_ptr<End> Asker() {
    return std::make_unique<End>(std::move(there_), std::move(back_));
  }
  std::unique_ptr<End> Answerer() {
    auto in = Must(TensorQueue::Open(std::move(there_handle_)));
    auto out = Must(TensorQueue::Open(std::move(back_handle_)));
    return std::make_unique<End>(std::move(out), std::move(in));
  }

 private:
  std::unique_ptr<TensorQueue> there_ = Must(TensorQueue::Create());
  std::unique_ptr<TensorQueue> back_ = Must(TensorQueue::Create());
  QueueHandle there_handle_ = Must(there_->Share());
  QueueHandle back_handle_ = Must(back_->Share());
};

using QueueLink = QueueLinkOf<4096>;

}  // namespace tenon::benchmarks

#endif  // TENON_BENCHMARKS_HANDOVER_QUEUE_LINK_H_

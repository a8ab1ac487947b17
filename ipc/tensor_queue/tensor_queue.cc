// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/tensor_queue/tensor_queue.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tenon/ipc/queue/fd_board.h"
#include "tenon/ipc/tensor_queue/tensor_reaper.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon {
namespace {

// Two cache lines: one dense tensor of up to five dimensions, or of three and a
// number.
constexpr size_t kRecordBytes = 128;

}  // namespace

// Decodes the records of one call before they are taken.
class TensorQueue::Claimer : public QueueClaimer {
 protected:
  explicit Claimer(TensorQueue* queue) : queue_(*queue) {}

  // T: TensorMessage or Tensor, empty before.
  template <typename T>
  absl::Status Decode(const QueueItem& item, T* into) {
    const auto take = [&] {
      uint64_t generation = 0;
      return queue_.queue_->ReadFds(item.slot, &generation);
    };
    TensorSource source(take, &found_);
    absl::Status status = queue_.decoder_.Decode(item.bytes, source, into);
    TENON_CRASH_POINT("tensor_queue.claimed");
    return status;
  }

 private:
  TensorQueue& queue_;
  // The sender's published descriptors.
  std::optional<ReceivedTensorFds> found_;
};

class TensorQueue::MessageClaimer final : public Claimer {
 public:
  explicit MessageClaimer(TensorQueue* queue) : Claimer(queue) {}

  absl::Status Claim(const QueueItem& item) override {
    absl::Status status = Decode(item, &messages_.emplace_back());
    if (!status.ok()) messages_.pop_back();
    return status;
  }
  void Undo(const QueueItem&) override { messages_.pop_back(); }

  absl::InlinedVector<TensorMessage, 1>& messages() { return messages_; }

 private:
  absl::InlinedVector<TensorMessage, 1> messages_;
};

// For calls that take one record.
class TensorQueue::TensorClaimer final : public Claimer {
 public:
  TensorClaimer(TensorQueue* queue, Tensor* tensor)
      : Claimer(queue), tensor_(*tensor) {}

  absl::Status Claim(const QueueItem& item) override {
    return Decode(item, &tensor_);
  }
  void Undo(const QueueItem&) override { tensor_ = Tensor(); }

 private:
  Tensor& tensor_;
};

absl::StatusOr<std::unique_ptr<TensorQueue>> TensorQueue::Create(
    const QueueOptions& options, const TensorQueueParticipantOptions& use) {
  TENON_ASSIGN_OR_RETURN(auto queue, QueueCore::Create(QueueType::kTensors,
                                                       kRecordBytes, options));
  return Make(std::move(queue), use, options.name);
}

absl::StatusOr<std::unique_ptr<TensorQueue>> TensorQueue::Open(
    QueueHandle&& handle, const TensorQueueParticipantOptions& use) {
  TENON_ASSIGN_OR_RETURN(
      auto queue,
      QueueCore::Open(std::move(handle), QueueType::kTensors, kRecordBytes));
  return Make(std::move(queue), use, "queue");
}

absl::StatusOr<std::unique_ptr<TensorQueue>> TensorQueue::Make(
    std::unique_ptr<QueueCore> queue, const TensorQueueParticipantOptions& use,
    const std::string& name) {
  auto made = absl::WrapUnique(new TensorQueue(std::move(queue), use));
  TENON_ASSIGN_OR_RETURN(
      made->sender_, TensorSender::Create(made->queue_.get(), &made->decoder_,
                                          use.arena, name));
  return made;
}

TensorQueue::~TensorQueue() = default;

absl::StatusOr<bool> TensorQueue::TryTake(QueueClaimer* claimer) {
  sender_->ReapIfDue();
  std::array<std::byte, kRecordBytes> record;
  TENON_ASSIGN_OR_RETURN(const size_t got, queue_->TryGet(record, claimer));
  return got != 0;
}

absl::Status TensorQueue::Take(Deadline deadline, QueueClaimer* claimer) {
  TENON_ASSIGN_OR_RETURN(const bool taken, TryTake(claimer));
  if (taken) [[likely]]
    return absl::OkStatus();
  std::array<std::byte, kRecordBytes> record;
  return WaitAndSweep(record, deadline, claimer).status();
}

// Arena owners may trim or end meanwhile.
absl::StatusOr<size_t> TensorQueue::WaitAndSweep(std::span<std::byte> records,
                                                 Deadline deadline,
                                                 QueueClaimer* claimer) {
  constexpr absl::Duration kBetweenSweeps = absl::Seconds(1);
  for (;;) {
    decoder_.SweepNowAndThen();
    const bool keeps = decoder_.mapped().arenas != 0;
    absl::StatusOr<size_t> got = WaitAndReap(
        keeps ? Earlier(deadline, Deadline::After(kBetweenSweeps)) : deadline,
        [&](Deadline slice) { return queue_->Get(records, slice, claimer); });
    if (!absl::IsDeadlineExceeded(got.status()) || !keeps ||
        deadline.has_passed()) {
      return got;
    }
  }
}

absl::StatusOr<TensorMessage> TensorQueue::Get(Deadline deadline) {
  MessageClaimer claimer(this);
  TENON_RETURN_IF_ERROR(Take(deadline, &claimer));
  return std::move(claimer.messages().front());
}

absl::StatusOr<std::optional<TensorMessage>> TensorQueue::TryGet() {
  MessageClaimer claimer(this);
  TENON_ASSIGN_OR_RETURN(const bool taken, TryTake(&claimer));
  if (!taken) return std::optional<TensorMessage>();
  return std::optional<TensorMessage>(std::move(claimer.messages().front()));
}

absl::StatusOr<Tensor> TensorQueue::GetTensor(Deadline deadline) {
  absl::StatusOr<Tensor> tensor(absl::in_place);
  TensorClaimer claimer(this, &*tensor);
  TENON_RETURN_IF_ERROR(Take(deadline, &claimer));
  return tensor;
}

absl::StatusOr<std::optional<Tensor>> TensorQueue::TryGetTensor() {
  absl::StatusOr<std::optional<Tensor>> tensor(absl::in_place);
  TensorClaimer claimer(this, &tensor->emplace());
  TENON_ASSIGN_OR_RETURN(const bool taken, TryTake(&claimer));
  if (!taken) tensor->reset();
  return tensor;
}

absl::StatusOr<std::vector<TensorMessage>> TensorQueue::GetBatch(
    size_t most, Deadline deadline) {
  sender_->ReapIfDue();
  std::vector<std::byte> records(std::min(most, capacity()) * kRecordBytes);
  MessageClaimer claimer(this);
  TENON_RETURN_IF_ERROR(WaitAndSweep(records, deadline, &claimer).status());
  return std::vector<TensorMessage>(
      std::make_move_iterator(claimer.messages().begin()),
      std::make_move_iterator(claimer.messages().end()));
}

absl::StatusOr<bool> TensorQueue::Arm() {
  ReapAllTensors();
  decoder_.SweepNowAndThen();
  return queue_->Arm();
}

void TensorQueue::Reap() { ReapAllTensors(); }

absl::Status TensorQueue::Trim() {
  decoder_.Sweep();
  return sender_->Trim();
}

}  // namespace tenon

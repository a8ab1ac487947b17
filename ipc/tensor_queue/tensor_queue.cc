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
#include "tenon/ipc/queue/internal/queue_claimer.h"
#include "tenon/ipc/queue/internal/queue_core.h"
#include "tenon/ipc/tensor_codec/tensor_decoder.h"
#include "tenon/ipc/tensor_codec/tensor_fds.h"
#include "tenon/ipc/tensor_codec/tensor_wire.h"
#include "tenon/ipc/tensor_queue/tensor_queue_parts.h"
#include "tenon/ipc/tensor_queue/tensor_reaper.h"
#include "tenon/ipc/tensor_queue/tensor_sender.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon {
namespace {

// With its sequence word two cache lines, of which a dense tensor in a block
// mostly needs one (kWireShortRecordBytes). Two: a number beside a tensor of up
// to three dimensions.
constexpr size_t kRecordBytes = 120;

// Decodes the records of one call before they are taken. Its destructor
// releases the names that are kept for those that were.
class Claimer : public QueueClaimer {
 public:
  ~Claimer() override {
    for (const Kept& kept : kept_) ReleaseKeptNames(kept.names);
  }

 protected:
  explicit Claimer(TensorQueueParts* parts) : parts_(*parts) {}

  // T: TensorMessage or Tensor, empty before.
  template <typename T>
  absl::Status Decode(const QueueItem& item, T* into) {
    const auto take = [&] { return parts_.queue->ReadFds(item.slot); };
    TensorSource source(take, &found_);
    KeptNames names;
    absl::Status status =
        parts_.decoder.Decode(item.bytes, source, into, &names);
    if (status.ok() && !names.empty()) {
      kept_.push_back({.slot = item.slot,
                       .position = item.position,
                       .names = std::move(names)});
    }
    TENON_CRASH_POINT("tensor_queue.claimed");
    return status;
  }
  void UndoDecode(const QueueItem& item) {
    std::erase_if(kept_, [&](const Kept& kept) {
      return kept.slot == item.slot && kept.position == item.position;
    });
  }

 private:
  struct Kept {
    size_t slot = 0;
    uint64_t position = 0;
    KeptNames names;
  };

  TensorQueueParts& parts_;
  std::vector<Kept> kept_;
  // The sender's published descriptors.
  std::optional<ReceivedTensorFds> found_;
};

class MessageClaimer final : public Claimer {
 public:
  explicit MessageClaimer(TensorQueueParts* parts) : Claimer(parts) {}

  absl::Status Claim(const QueueItem& item) override {
    absl::Status status = Decode(item, &messages_.emplace_back());
    if (!status.ok()) messages_.pop_back();
    return status;
  }
  void Undo(const QueueItem& item) override {
    UndoDecode(item);
    messages_.pop_back();
  }

  absl::InlinedVector<TensorMessage, 1>& messages() { return messages_; }

 private:
  absl::InlinedVector<TensorMessage, 1> messages_;
};

// For calls that take one record.
class TensorClaimer final : public Claimer {
 public:
  TensorClaimer(TensorQueueParts* parts, Tensor* tensor)
      : Claimer(parts), tensor_(*tensor) {}

  absl::Status Claim(const QueueItem& item) override {
    return Decode(item, &tensor_);
  }
  void Undo(const QueueItem& item) override {
    UndoDecode(item);
    tensor_ = Tensor();
  }

 private:
  Tensor& tensor_;
};

// Receives one message by the short way. `Into` makes a tensor in place, of a
// const FittedSpec& and a std::shared_ptr<Storage>, or destroys it, of nothing.
template <typename Into>
class ShortClaimer {
 public:
  ShortClaimer(TensorDecoder* decoder, Into into)
      : decoder_(*decoder), into_(into) {}

  bool Claim(const std::array<uint64_t, WireWords::kWords>& item) {
    const FittedSpec* spec = nullptr;
    std::shared_ptr<Storage> storage = decoder_.ClaimLike({item}, &spec);
    if (storage == nullptr) return false;
    into_(*spec, std::move(storage));
    TENON_CRASH_POINT("tensor_queue.claimed");
    return true;
  }
  void Undo() { into_(); }

 private:
  TensorDecoder& decoder_;
  Into into_;
};

template <typename Into>
QueueTake TakeShort(TensorQueueParts& parts, Into into) {
  parts.sender->ReapIfDue();
  ShortClaimer<Into> claimer(&parts.decoder, into);
  return parts.queue->TryGetWords<WireWords::kWords>(claimer);
}

template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};

// True if a message was received.
absl::StatusOr<bool> TryTake(TensorQueueParts& parts, QueueClaimer* claimer) {
  parts.sender->ReapIfDue();
  std::array<std::byte, kRecordBytes> record;
  TENON_ASSIGN_OR_RETURN(const size_t got,
                         parts.queue->TryGet(record, claimer));
  return got != 0;
}

// Arena owners may trim or end meanwhile.
absl::StatusOr<size_t> WaitAndSweep(TensorQueueParts& parts,
                                    std::span<std::byte> records,
                                    Deadline deadline, QueueClaimer* claimer) {
  constexpr absl::Duration kBetweenSweeps = absl::Seconds(1);
  for (;;) {
    parts.decoder.SweepNowAndThen();
    const bool keeps = parts.decoder.mapped().arenas != 0;
    absl::StatusOr<size_t> got = WaitAndReap(
        keeps ? Earlier(deadline, Deadline::After(kBetweenSweeps)) : deadline,
        [&](Deadline slice) {
          return parts.queue->Get(records, slice, claimer);
        });
    if (!absl::IsDeadlineExceeded(got.status()) || !keeps ||
        deadline.has_passed()) {
      return got;
    }
  }
}

absl::Status Take(TensorQueueParts& parts, Deadline deadline,
                  QueueClaimer* claimer) {
  TENON_ASSIGN_OR_RETURN(const bool taken, TryTake(parts, claimer));
  if (taken) [[likely]]
    return absl::OkStatus();
  std::array<std::byte, kRecordBytes> record;
  return WaitAndSweep(parts, record, deadline, claimer).status();
}

absl::StatusOr<std::unique_ptr<TensorQueueParts>> MakeParts(
    std::unique_ptr<QueueCore> queue,
    const TensorQueueParticipantOptions& use) {
  TensorImporterOptions segments = use.segments;
  segments.close_on_exec = CloseOnExec::kIsSet;  // By FdBoard::Read().
  auto parts = std::make_unique<TensorQueueParts>(std::move(queue), use.arenas,
                                                  segments);
  TENON_ASSIGN_OR_RETURN(
      parts->sender, TensorSender::Create(parts->queue.get(), &parts->decoder,
                                          use.arena, parts->queue->name()));
  return parts;
}

}  // namespace

TensorQueue::TensorQueue(std::unique_ptr<TensorQueueParts> parts)
    : parts_(std::move(parts)) {}

TensorQueue::~TensorQueue() = default;

absl::StatusOr<std::unique_ptr<TensorQueue>> TensorQueue::Create(
    const QueueOptions& options, const TensorQueueParticipantOptions& use) {
  TENON_ASSIGN_OR_RETURN(auto queue, QueueCore::Create(QueueType::kTensors,
                                                       kRecordBytes, options));
  TENON_ASSIGN_OR_RETURN(auto parts, MakeParts(std::move(queue), use));
  return absl::WrapUnique(new TensorQueue(std::move(parts)));
}

absl::StatusOr<std::unique_ptr<TensorQueue>> TensorQueue::Open(
    QueueHandle&& handle, const TensorQueueParticipantOptions& use) {
  TENON_ASSIGN_OR_RETURN(
      auto queue,
      QueueCore::Open(std::move(handle), QueueType::kTensors, kRecordBytes));
  TENON_ASSIGN_OR_RETURN(auto parts, MakeParts(std::move(queue), use));
  return absl::WrapUnique(new TensorQueue(std::move(parts)));
}

absl::StatusOr<QueueHandle> TensorQueue::Share() const {
  return parts_->queue->Share();
}

// ---- Putting ----

absl::StatusOr<Tensor> TensorQueue::CreateTensor(
    DLDataType dtype, absl::Span<const int64_t> shape, Deadline deadline) {
  return parts_->sender->NewTensor(dtype, shape, deadline);
}

absl::Status TensorQueue::Put(const TensorMessage& message, Deadline deadline) {
  return parts_->sender->Put({&message, 1}, deadline);
}

absl::Status TensorQueue::Put(const Tensor& tensor, Deadline deadline) {
  return parts_->sender->Put(tensor, deadline);
}

absl::Status TensorQueue::PutBatch(absl::Span<const TensorMessage> messages,
                                   Deadline deadline) {
  return parts_->sender->Put(messages, deadline);
}

absl::StatusOr<bool> TensorQueue::TryPut(const TensorMessage& message) {
  return parts_->sender->TryPut(message);
}

absl::Status TensorQueue::AwaitTaken(Deadline deadline) {
  return parts_->sender->AwaitTaken(deadline);
}

// ---- Getting ----

absl::StatusOr<TensorMessage> TensorQueue::Get(Deadline deadline) {
  absl::StatusOr<TensorMessage> message(absl::in_place);
  const auto made = [&](const FittedSpec& spec, std::shared_ptr<Storage> s) {
    message->Add(Tensor(spec, std::move(s)));
  };
  const auto undone = [&] { *message = TensorMessage(); };
  if (TakeShort(*parts_, Overloaded{made, undone}) != QueueTake::kTaken) {
    MessageClaimer claimer(parts_.get());
    absl::Status status = Take(*parts_, deadline, &claimer);
    if (status.ok()) {
      *message = std::move(claimer.messages().front());
    } else {
      message = std::move(status);
    }
  }
  return message;
}

absl::StatusOr<std::optional<TensorMessage>> TensorQueue::TryGet() {
  absl::StatusOr<std::optional<TensorMessage>> message(absl::in_place);
  const auto made = [&](const FittedSpec& spec, std::shared_ptr<Storage> s) {
    message->emplace().Add(Tensor(spec, std::move(s)));
  };
  const auto undone = [&] { message->reset(); };
  const QueueTake take = TakeShort(*parts_, Overloaded{made, undone});
  if (take == QueueTake::kOther) {
    MessageClaimer claimer(parts_.get());
    absl::StatusOr<bool> taken = TryTake(*parts_, &claimer);
    if (!taken.ok()) {
      message = std::move(taken).status();
    } else if (*taken) {
      *message = std::move(claimer.messages().front());
    }
  }
  return message;
}

absl::StatusOr<Tensor> TensorQueue::GetTensor(Deadline deadline) {
  absl::StatusOr<Tensor> tensor;
  const auto made = [&](const FittedSpec& spec, std::shared_ptr<Storage> s) {
    tensor.emplace(spec, std::move(s));
  };
  const auto undone = [&] { *tensor = Tensor(); };
  if (TakeShort(*parts_, Overloaded{made, undone}) != QueueTake::kTaken) {
    TensorClaimer claimer(parts_.get(), &tensor.emplace());
    absl::Status status = Take(*parts_, deadline, &claimer);
    if (!status.ok()) tensor = std::move(status);
  }
  return tensor;
}

absl::StatusOr<std::optional<Tensor>> TensorQueue::TryGetTensor() {
  absl::StatusOr<std::optional<Tensor>> tensor(absl::in_place);
  const auto made = [&](const FittedSpec& spec, std::shared_ptr<Storage> s) {
    tensor->emplace(spec, std::move(s));
  };
  const auto undone = [&] { tensor->reset(); };
  const QueueTake take = TakeShort(*parts_, Overloaded{made, undone});
  if (take == QueueTake::kOther) {
    TensorClaimer claimer(parts_.get(), &tensor->emplace());
    absl::StatusOr<bool> taken = TryTake(*parts_, &claimer);
    if (!taken.ok()) {
      tensor = std::move(taken).status();
    } else if (!*taken) {
      tensor->reset();
    }
  }
  return tensor;
}

absl::StatusOr<std::vector<TensorMessage>> TensorQueue::GetBatch(
    size_t most, Deadline deadline) {
  parts_->sender->ReapIfDue();
  std::vector<std::byte> records(std::min(most, capacity()) * kRecordBytes);
  MessageClaimer claimer(parts_.get());
  TENON_RETURN_IF_ERROR(
      WaitAndSweep(*parts_, records, deadline, &claimer).status());
  return std::vector<TensorMessage>(
      std::make_move_iterator(claimer.messages().begin()),
      std::make_move_iterator(claimer.messages().end()));
}

// ---- The queue ----

absl::Status TensorQueue::Close() { return parts_->queue->Close(); }
bool TensorQueue::closed() const { return parts_->queue->closed(); }
absl::StatusOr<uint64_t> TensorQueue::Drain() { return parts_->queue->Drain(); }
uint64_t TensorQueue::size() const { return parts_->queue->size(); }
uint64_t TensorQueue::own_size() const { return parts_->queue->own_size(); }
size_t TensorQueue::held() const { return parts_->sender->held(); }
size_t TensorQueue::capacity() const { return parts_->queue->capacity(); }
QueueStats TensorQueue::stats() const { return parts_->queue->stats(); }
MappedArenas TensorQueue::mapped() { return parts_->decoder.mapped(); }
absl::StatusOr<int> TensorQueue::PollFd() { return parts_->queue->PollFd(); }
void TensorQueue::Disarm() { parts_->queue->Disarm(); }

absl::StatusOr<bool> TensorQueue::Arm() {
  ReapAllTensors();
  parts_->decoder.SweepNowAndThen();
  return parts_->queue->Arm();
}

void TensorQueue::Reap() { ReapAllTensors(); }

absl::Status TensorQueue::Trim() {
  parts_->decoder.Sweep();
  return parts_->sender->Trim();
}

}  // namespace tenon

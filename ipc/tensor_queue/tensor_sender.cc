// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/tensor_queue/tensor_sender.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tenon/ipc/tensor_codec/tensor_shelf.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon {
namespace {

// How long it waits, where it cannot be woken, until it looks again.
constexpr absl::Duration kLookAgain = absl::Milliseconds(1);

bool MaySucceedLater(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsDeadlineExceeded(status);
}

// Null if the message has anything else.
const Tensor* OnlyTensor(const TensorMessage& message) {
  if (message.size() != 1) return nullptr;
  return std::get_if<Tensor>(&message.fields()[0]);
}

absl::Status TurnIsTaken() {
  return absl::DeadlineExceededError(
      "another thread of this process is putting tensors all the time");
}

}  // namespace

absl::StatusOr<std::unique_ptr<TensorSender>> TensorSender::Create(
    QueueCore* queue, TensorDecoder* decoder, std::shared_ptr<Arena> arena,
    const std::string& name) {
  TENON_ASSIGN_OR_RETURN(TensorShelf shelf,
                         TensorShelf::On([queue](absl::string_view bytes,
                                                 absl::Span<const int> fds) {
                           absl::Status laid = queue->LayOut(bytes, fds);
                           TENON_CRASH_POINT("tensor_queue.laid_out");
                           return laid;
                         }));
  auto sender = absl::WrapUnique(new TensorSender(
      queue, decoder, TensorEncoder(std::move(shelf), std::move(arena), name)));
  Enlist(sender.get());
  return sender;
}

TensorSender::~TensorSender() { Delist(this); }

absl::Status TensorSender::CheckUsable() const {
  return CheckNotForked(fork_count_, "a queue of tensors");
}

// ---- Holding ----

// With turn_. Returns up to which message all were taken.
uint64_t TensorSender::ReapWithTurn() {
  taken_ = queue_->taken();
  while (!in_flight_.empty() && in_flight_.front().number <= taken_) {
    held_bytes_ -= in_flight_.front().bytes;
    in_flight_.pop_front();
  }
  Count();
  return taken_;
}

void TensorSender::Count() {
  held_.store(in_flight_.size(), std::memory_order_relaxed);
  due_.store(IsDue(), std::memory_order_relaxed);
  idle_.store(in_flight_.empty() && !encoder_.shelf().has_fds(),
              std::memory_order_relaxed);
}

void TensorSender::ReapNow() {
  if (fork_count_ != ForkCount()) return;
  const TurnGuard turn(&turn_, Deadline::Passed());
  if (turn.held()) ReapWithTurn();
}

bool TensorSender::ReapIfIdle() {
  if (fork_count_ != ForkCount()) return false;
  if (idle_.load(std::memory_order_relaxed)) return false;
  const TurnGuard turn(&turn_, Deadline::Passed());
  if (!turn.held()) return true;
  // What cannot be removed from the shelf now is so at the next call.
  encoder_.shelf().Reap(ReapWithTurn()).IgnoreError();
  Count();
  return !idle_.load(std::memory_order_relaxed);
}

absl::Status TensorSender::Trim() {
  TENON_RETURN_IF_ERROR(CheckUsable());
  const TurnGuard turn(&turn_, Deadline::Never());
  return encoder_.shelf().Trim(ReapWithTurn());
}

// Somebody is to take more than `taken`, or to release memory.
absl::Status TensorSender::WaitALittle(uint64_t taken, Deadline deadline) {
  if (queue_->taken() != taken) return absl::OkStatus();
  TENON_RETURN_IF_ERROR(
      PollUntil(nullptr, 0, Earlier(deadline, Deadline::After(kLookAgain)))
          .status());
  TENON_ASSIGN_OR_RETURN(const bool alone, queue_->IsAlone());
  if (!alone) return absl::OkStatus();
  return absl::UnavailableError(
      "all others of a queue of tensors have left or died, and what was put "
      "here has not been taken");
}

absl::Status TensorSender::AwaitTaken(Deadline deadline) {
  TENON_RETURN_IF_ERROR(CheckUsable());
  const uint64_t put = queue_->put();
  for (;;) {
    const uint64_t taken = queue_->taken();
    ReapIfIdle();
    if (taken >= put) {
      // Not if another thread was at it.
      const TurnGuard turn(&turn_, deadline);
      if (!turn.held()) return TurnIsTaken();
      return encoder_.shelf().Reap(ReapWithTurn());
    }
    if (deadline.has_passed()) {
      return absl::DeadlineExceededError(
          absl::StrCat(put - taken,
                       " messages of tensors that were put here "
                       "have not been taken"));
    }
    TENON_RETURN_IF_ERROR(WaitALittle(taken, deadline));
  }
}

absl::StatusOr<Tensor> TensorSender::NewTensor(DLDataType dtype,
                                               absl::Span<const int64_t> shape,
                                               Deadline deadline) {
  TENON_RETURN_IF_ERROR(CheckUsable());
  Arena* arena = arena_.load(std::memory_order_acquire);
  if (arena == nullptr || due_.load(std::memory_order_relaxed)) {
    const TurnGuard turn(&turn_, deadline);
    if (!turn.held()) return TurnIsTaken();
    TENON_ASSIGN_OR_RETURN(arena, encoder_.arena());
    arena_.store(arena, std::memory_order_release);
    if (IsDue()) ReapWithTurn();
  }
  for (Deadline slice = Deadline::Passed();;) {
    auto tensor = CreateTensor(*arena, dtype, shape, slice);
    if (tensor.ok() || !MaySucceedLater(tensor.status()) ||
        deadline.has_passed()) {
      return tensor;
    }
    ReapAllTensors();
    slice = Earlier(deadline, Deadline::After(kLookAgain));
  }
}

// ---- Putting ----

// With turn_.
absl::Status TensorSender::EncodeOne(const TensorMessage& message,
                                     uint64_t number, Deadline deadline) {
  const size_t size = queue_->item_bytes();
  records_.resize(records_.size() + size);
  const std::span<std::byte> record = std::span(records_).last(size);
  if (IsDue() || encoder_.shelf().has_fds()) ReapWithTurn();
  for (Deadline slice = Deadline::Passed();;) {
    const uint64_t taken = taken_;
    auto holds = encoder_.Encode(message, number, taken, slice, record);
    if (holds.ok()) {
      const size_t bytes = holds->bytes();
      held_bytes_ += bytes;
      in_flight_.push_back({number, bytes, *std::move(holds)});
      return absl::OkStatus();
    }
    encoder_.shelf().Cancel(number);
    if (!MaySucceedLater(holds.status())) return holds.status();
    if (deadline.has_passed() && queue_->taken() == taken) {
      return absl::ResourceExhaustedError(holds.status().message());
    }
    // Before waiting: what was taken in the meantime may do.
    if (ReapWithTurn() != taken) continue;
    TENON_RETURN_IF_ERROR(WaitALittle(taken, deadline));
    slice = Earlier(deadline, Deadline::After(kLookAgain));
  }
}

absl::Status TensorSender::EncodeAll(absl::Span<const TensorMessage> messages,
                                     uint64_t first, Deadline deadline) {
  records_.clear();
  for (size_t i = 0; i < messages.size(); ++i) {
    TENON_RETURN_IF_ERROR(EncodeOne(messages[i], first + i, deadline));
  }
  TENON_CRASH_POINT("tensor_queue.encoded");
  return absl::OkStatus();
}

// A tensor of a block as a message of its own, if that is possible.
bool TensorSender::EncodeAlone(const Tensor& tensor, uint64_t number) {
  if (tensor.storage() == nullptr || tensor.storage()->lease() == nullptr) {
    return false;
  }
  records_.resize(queue_->item_bytes());
  if (IsDue() || encoder_.shelf().has_fds()) ReapWithTurn();
  if (!encoder_.EncodeAlone(tensor, number, taken_, records_)) {
    encoder_.shelf().Cancel(number);
    return false;
  }
  Held& held = in_flight_.emplace_back();
  held.number = number;
  held.bytes = tensor.storage()->size_bytes();
  held.holds.storages.push_back(tensor.storage());
  held_bytes_ += held.bytes;
  TENON_CRASH_POINT("tensor_queue.encoded");
  return true;
}

// What was not put: its blocks are free, its descriptors not needed.
void TensorSender::Cancel(uint64_t first) {
  while (!in_flight_.empty() && in_flight_.back().number >= first) {
    held_bytes_ -= in_flight_.back().bytes;
    in_flight_.pop_back();
  }
  encoder_.shelf().Cancel(first);
  Count();
}

void TensorSender::Keep(absl::Span<const TensorMessage> messages) {
  Count();
  TENON_CRASH_POINT("tensor_queue.put");
  for (const TensorMessage& message : messages) {
    for (const TensorMessage::Field& field : message.fields()) {
      const auto* tensor = std::get_if<Tensor>(&field);
      if (tensor != nullptr) decoder_->Recognize(*tensor);
    }
  }
}

absl::Status TensorSender::PutRecords(Deadline deadline) {
  TENON_ASSIGN_OR_RETURN(const bool put, queue_->TryPut(records_));
  if (put) [[likely]]
    return absl::OkStatus();
  return WaitAndReap(deadline, [this](Deadline slice) {
    return queue_->Put(records_, slice);
  });
}

absl::Status TensorSender::Put(const Tensor& tensor, Deadline deadline) {
  TENON_RETURN_IF_ERROR(CheckUsable());
  const TurnGuard turn(&turn_, deadline);
  if (!turn.held()) return TurnIsTaken();
  const uint64_t number = queue_->put() + 1;
  if (!EncodeAlone(tensor, number)) [[unlikely]] {
    const TensorMessage message(tensor);
    return PutAll({&message, 1}, deadline);
  }
  if (absl::Status status = PutRecords(deadline); !status.ok()) {
    Cancel(number);
    return status;
  }
  Count();
  TENON_CRASH_POINT("tensor_queue.put");
  return absl::OkStatus();
}

absl::Status TensorSender::Put(absl::Span<const TensorMessage> messages,
                               Deadline deadline) {
  if (messages.size() == 1) {
    const Tensor* const alone = OnlyTensor(messages[0]);
    if (alone != nullptr) return Put(*alone, deadline);
  }
  TENON_RETURN_IF_ERROR(CheckUsable());
  if (messages.empty() || messages.size() > queue_->capacity()) {
    return absl::InvalidArgumentError(
        absl::StrCat(messages.size(), " messages were put at once; a queue of ",
                     queue_->capacity(), " takes 1 to so many"));
  }
  const TurnGuard turn(&turn_, deadline);
  if (!turn.held()) return TurnIsTaken();
  return PutAll(messages, deadline);
}

absl::Status TensorSender::PutAll(absl::Span<const TensorMessage> messages,
                                  Deadline deadline) {
  const uint64_t first = queue_->put() + 1;
  absl::Status status = EncodeAll(messages, first, deadline);
  if (status.ok()) status = PutRecords(deadline);
  if (!status.ok()) {
    Cancel(first);
    return status;
  }
  Keep(messages);
  return absl::OkStatus();
}

absl::StatusOr<bool> TensorSender::TryPut(const TensorMessage& message) {
  TENON_RETURN_IF_ERROR(CheckUsable());
  const TurnGuard turn(&turn_, Deadline::Passed());
  if (!turn.held()) return false;
  // Before anything is copied or laid out.
  if (queue_->own_size() >= queue_->capacity() && !queue_->closed()) {
    return false;
  }
  const uint64_t first = queue_->put() + 1;
  const auto* const alone = OnlyTensor(message);
  absl::Status encoded;
  if (alone == nullptr || !EncodeAlone(*alone, first)) {
    encoded = EncodeAll({&message, 1}, first, Deadline::Passed());
  }
  absl::StatusOr<bool> put = false;
  if (encoded.ok()) {
    put = queue_->TryPut(records_);
  } else {
    put = std::move(encoded);
  }
  if (!put.ok() || !*put) {
    Cancel(first);
    return put;
  }
  Keep({&message, 1});
  return true;
}

}  // namespace tenon

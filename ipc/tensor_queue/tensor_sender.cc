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
#include "tenon/ipc/tensor_codec/tensor_fds.h"
#include "tenon/ipc/tensor_codec/tensor_wire.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/monotonic_ns.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon {
namespace {

// The time between checks where no wake-up is possible.
constexpr absl::Duration kRecheck = absl::Milliseconds(1);

// A thread that puts all the time reaps within this time of being asked.
constexpr int64_t kAnswersInNs = 20'000'000;

bool MaySucceedLater(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsDeadlineExceeded(status);
}

// Null if the message has other fields.
const Tensor* OnlyTensor(const TensorMessage& message) {
  if (message.size() != 1) return nullptr;
  return std::get_if<Tensor>(&message.fields()[0]);
}

absl::Status LockTimedOut() {
  return absl::DeadlineExceededError(
      "Put(): another thread of this process was putting tensors until the "
      "deadline");
}

}  // namespace

absl::StatusOr<std::unique_ptr<TensorSender>> TensorSender::Create(
    QueueCore* queue, TensorDecoder* decoder, std::shared_ptr<Arena> arena,
    const std::string& name) {
  TENON_ASSIGN_OR_RETURN(
      PublishedTensorFds fds,
      PublishedTensorFds::On(
          [queue](absl::string_view bytes, absl::Span<const int> fds) {
            absl::Status published = queue->PublishFds(bytes, fds);
            TENON_CRASH_POINT("tensor_queue.fds_published");
            return published;
          }));
  auto sender = absl::WrapUnique(new TensorSender(
      queue, decoder, TensorEncoder(std::move(fds), std::move(arena), name)));
  Enlist(sender.get());
  return sender;
}

TensorSender::~TensorSender() {
  Delist(this);
  if (fork_count_ != ForkCount() || in_flight_.empty()) return;
  in_flight_.DropTaken(queue_->taken());
  in_flight_.LeaveNames();
}

absl::Status TensorSender::CheckUsable() const {
  return CheckNotForked(fork_count_, "a queue of tensors");
}

// ---- Held tensors ----

// Returns the number of the last taken message.
uint64_t TensorSender::ReapLocked() {
  asked_ns_.store(0, std::memory_order_relaxed);
  taken_ = queue_->taken();
  in_flight_.DropTaken(taken_);
  Count();
  return taken_;
}

inline void TensorSender::Count() {
  held_.store(in_flight_.size(), std::memory_order_relaxed);
  due_.store(IsDue(), std::memory_order_relaxed);
  idle_.store(in_flight_.empty() && !encoder_.fds().has_fds(),
              std::memory_order_relaxed);
}

// Called if the thread that puts has the lock, or its bias: whether that thread
// was asked to reap some time ago and has made no call since. A thread that
// receives all the time would otherwise revoke the bias.
bool TensorSender::HasNotAnswered() {
  due_.store(true, std::memory_order_relaxed);
  const int64_t now = MonotonicNs();
  const int64_t asked = asked_ns_.load(std::memory_order_relaxed);
  if (asked == 0) asked_ns_.store(now, std::memory_order_relaxed);
  return asked != 0 && now - asked >= kAnswersInNs;
}

void TensorSender::ReapNow() {
  if (fork_count_ != ForkCount()) return;
  {
    const TimedMutexLock lock(&mutex_, TimedMutex::KeepBias());
    if (lock.held()) {
      ReapLocked();
      return;
    }
  }
  if (!HasNotAnswered()) return;
  const TimedMutexLock lock(&mutex_, Deadline::Passed());
  if (lock.held()) ReapLocked();
}

bool TensorSender::ReapIfIdle() {
  if (fork_count_ != ForkCount()) return false;
  if (idle_.load(std::memory_order_relaxed)) return false;
  const TimedMutexLock lock(&mutex_, Deadline::Passed());
  if (!lock.held()) return true;
  return ReapIdleLocked();
}

bool TensorSender::ReapIdleLocked() {
  // Descriptors that cannot be removed now are removed at the next call.
  encoder_.fds().Reap(ReapLocked()).IgnoreError();
  Count();
  return !idle_.load(std::memory_order_relaxed);
}

bool TensorSender::ReapGently() {
  if (fork_count_ != ForkCount()) return false;
  if (idle_.load(std::memory_order_relaxed)) return false;
  {
    const TimedMutexLock lock(&mutex_, TimedMutex::KeepBias());
    if (lock.held()) return ReapIdleLocked();
  }
  return !HasNotAnswered() || ReapIfIdle();
}

absl::Status TensorSender::Trim() {
  TENON_RETURN_IF_ERROR(CheckUsable());
  const TimedMutexLock lock(&mutex_);
  return encoder_.fds().Trim(ReapLocked());
}

// Waits until more than `taken` may have been taken, or memory released.
absl::Status TensorSender::WaitForTaken(uint64_t taken, Deadline deadline) {
  if (queue_->taken() != taken) return absl::OkStatus();
  TENON_RETURN_IF_ERROR(
      PollUntil({}, Earlier(deadline, Deadline::After(kRecheck))).status());
  TENON_ASSIGN_OR_RETURN(const bool alone, queue_->IsAlone());
  // The last one may have taken messages just before it left.
  if (!alone || queue_->taken() != taken) return absl::OkStatus();
  return absl::UnavailableError(
      "TensorQueue: all others have left or died, and messages of this "
      "participant have not been taken");
}

absl::Status TensorSender::AwaitTaken(Deadline deadline) {
  TENON_RETURN_IF_ERROR(CheckUsable());
  // What former participants of the slot have put is in the ring before it.
  const uint64_t last = queue_->put();
  const uint64_t put = last == inherited_ ? 0 : last;
  for (;;) {
    const uint64_t taken = queue_->taken();
    ReapIfIdle();
    if (taken >= put) {
      // Not if another thread was reaping.
      const TimedMutexLock lock(&mutex_, deadline);
      if (!lock.held()) return LockTimedOut();
      return encoder_.fds().Reap(ReapLocked());
    }
    if (deadline.has_passed()) {
      return absl::DeadlineExceededError(
          absl::StrCat("AwaitTaken(): ", put - std::max(taken, inherited_),
                       " messages of this participant have not been taken"));
    }
    TENON_RETURN_IF_ERROR(WaitForTaken(taken, deadline));
  }
}

absl::StatusOr<Arena*> TensorSender::ArenaOfNew(Deadline deadline) {
  TENON_RETURN_IF_ERROR(CheckUsable());
  Arena* const arena = arena_.load(std::memory_order_acquire);
  if (arena != nullptr && !due_.load(std::memory_order_relaxed)) return arena;
  const TimedMutexLock lock(&mutex_, deadline);
  if (!lock.held()) return LockTimedOut();
  if (due_.load(std::memory_order_relaxed)) ReapLocked();
  if (arena != nullptr) return arena;
  TENON_ASSIGN_OR_RETURN(Arena* const made, encoder_.arena());
  arena_.store(made, std::memory_order_release);
  return made;
}

absl::StatusOr<Tensor> TensorSender::NewTensor(DLDataType dtype,
                                               absl::Span<const int64_t> shape,
                                               Deadline deadline) {
  const absl::StatusOr<Arena*> arena = ArenaOfNew(deadline);
  // One variable, which is returned in place.
  absl::StatusOr<Tensor> tensor =
      arena.ok() ? CreateTensor(**arena, dtype, shape, Deadline::Passed())
                 : arena.status();
  while (!tensor.ok() && arena.ok() && MaySucceedLater(tensor.status()) &&
         !deadline.has_passed()) {
    ReapAllTensors();
    tensor = CreateTensor(**arena, dtype, shape,
                          Earlier(deadline, Deadline::After(kRecheck)));
  }
  return tensor;
}

// ---- Putting ----

absl::Status TensorSender::EncodeOne(const TensorMessage& message,
                                     uint64_t number, Deadline deadline) {
  const size_t size = queue_->item_bytes();
  records_.resize(records_.size() + size);
  const std::span<std::byte> record = std::span(records_).last(size);
  if (MustReap()) ReapLocked();
  for (Deadline slice = Deadline::Passed();;) {
    const uint64_t taken = taken_;
    auto holds = encoder_.Encode(message, number, taken, slice, record);
    if (holds.ok()) {
      in_flight_.Add(number, *std::move(holds));
      return absl::OkStatus();
    }
    encoder_.fds().Cancel(number);
    if (!MaySucceedLater(holds.status())) return holds.status();
    if (deadline.has_passed() && queue_->taken() == taken) {
      return absl::ResourceExhaustedError(holds.status().message());
    }
    // Before a wait: messages taken meanwhile may suffice.
    if (ReapLocked() != taken) continue;
    TENON_RETURN_IF_ERROR(WaitForTaken(taken, deadline));
    slice = Earlier(deadline, Deadline::After(kRecheck));
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

// Encodes a tensor in a block as a message of its own, if possible.
bool TensorSender::EncodeAlone(const Tensor& tensor, uint64_t number) {
  if (tensor.storage() == nullptr || tensor.storage()->lease() == nullptr) {
    return false;
  }
  records_.resize(queue_->item_bytes());
  if (MustReap()) ReapLocked();
  const size_t bytes = encoder_.EncodeAlone(tensor, number, taken_, records_);
  if (bytes == 0) {
    encoder_.fds().Cancel(number);
    return false;
  }
  records_.resize(bytes);
  in_flight_.Add(number, tensor.storage());
  TENON_CRASH_POINT("tensor_queue.encoded");
  return true;
}

// Messages that were not put: frees their blocks, cancels their descriptors.
void TensorSender::Cancel(uint64_t first) {
  in_flight_.Cancel(first);
  encoder_.fds().Cancel(first);
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
  encoder_.fds().FreeRemoved();
  if (put) [[likely]]
    return absl::OkStatus();
  const std::span<const std::byte> records = records_;
  return WaitAndReap(deadline, [this, records](Deadline slice) {
    return queue_->Put(records, slice);
  });
}

// Puts a tensor as a record of form 4, which is encoded in place. False, with
// nothing put, if it needs another form or a new offer, if there is no room,
// and on any error. The offer may count as needed by the message then: encode
// the message in another way under the same number, or cancel that.
[[gnu::always_inline]] inline bool TensorSender::PutShort(
    const Tensor& tensor) {
  if (tensor.storage() == nullptr) return false;
  if (due_.load(std::memory_order_relaxed)) ReapLocked();
  const uint64_t number = queue_->put() + 1;
  WireWords record;
  if (!encoder_.EncodeShort(tensor, number, record)) return false;
  TENON_CRASH_POINT("tensor_queue.encoded");
  // Before the message is published: to hold its tensor must not fail then.
  in_flight_.MakeRoom();
  if (!queue_->TryPutWords(record.words)) [[unlikely]]
    return false;
  // Until here the caller holds it.
  in_flight_.Add(number, tensor.storage());
  Count();
  TENON_CRASH_POINT("tensor_queue.put");
  return true;
}

absl::Status TensorSender::Put(const Tensor& tensor, Deadline deadline) {
  TENON_RETURN_IF_ERROR(CheckUsable());
  const TimedMutexLock lock(&mutex_, deadline);
  if (!lock.held()) return LockTimedOut();
  if (PutShort(tensor)) [[likely]]
    return absl::OkStatus();
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
        absl::StrCat("PutBatch(): batch of ", messages.size(),
                     " messages; want 1 to ", queue_->capacity(),
                     ", the capacity of the queue; raise "
                     "QueueOptions::capacity or split the batch"));
  }
  const TimedMutexLock lock(&mutex_, deadline);
  if (!lock.held()) return LockTimedOut();
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
  const TimedMutexLock lock(&mutex_, Deadline::Passed());
  if (!lock.held()) return false;
  // Before copies are made or descriptors published.
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
  encoder_.fds().FreeRemoved();
  Keep({&message, 1});
  return true;
}

}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TensorSender: the half of a TensorQueue that puts messages and holds their
// tensors until they are taken. Internal to tensor queues.

#ifndef TENON_IPC_TENSOR_QUEUE_TENSOR_SENDER_H_
#define TENON_IPC_TENSOR_QUEUE_TENSOR_SENDER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "tenon/ipc/queue/internal/queue_core.h"
#include "tenon/ipc/tensor_codec/tensor_decoder.h"
#include "tenon/ipc/tensor_codec/tensor_encoder.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/ipc/tensor_queue/sent_tensors.h"
#include "tenon/ipc/tensor_queue/tensor_reaper.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/locks/timed_mutex.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon {

// The functions are those of TensorQueue (tensor_queue.h).
// Ownership: queue and decoder are the caller's and outlive it.
// Threads: thread-safe; calls that put run one at a time.
class TensorSender : public TensorReaper {
 public:
  // Errors: getentropy()'s.
  static absl::StatusOr<std::unique_ptr<TensorSender>> Create(
      QueueCore* queue, TensorDecoder* decoder, std::shared_ptr<Arena> arena,
      const std::string& name);
  ~TensorSender() override;

  absl::Status Put(const Tensor& tensor, Deadline deadline);
  absl::Status Put(absl::Span<const TensorMessage> messages, Deadline deadline);
  absl::StatusOr<bool> TryPut(const TensorMessage& message);

  absl::StatusOr<Tensor> NewTensor(DLDataType dtype,
                                   absl::Span<const int64_t> shape,
                                   Deadline deadline);
  absl::Status AwaitTaken(Deadline deadline);
  absl::Status Trim();

  bool ReapIfIdle() override;
  bool ReapGently() override;
  // Only if many tensors are held, and only without system calls: to read how
  // many were taken is to fetch a cache line from the receiver.
  void ReapIfDue() {
    if (due_.load(std::memory_order_relaxed)) ReapNow();
  }
  // The number of messages whose tensors are held.
  size_t held() const { return held_.load(std::memory_order_relaxed); }

 private:
  // Below these figures the sender does not check how many were taken.
  static constexpr size_t kReapFrom = 16;  // Messages.
  static constexpr size_t kReapFromBytes = size_t{256} << 10;

  TensorSender(QueueCore* queue, TensorDecoder* decoder, TensorEncoder encoder)
      : queue_(queue), decoder_(decoder), encoder_(std::move(encoder)) {}

  absl::Status CheckUsable() const;
  absl::StatusOr<Arena*> ArenaOfNew(Deadline deadline);
  void ReapNow();
  bool HasNotAnswered();
  uint64_t ReapLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsDue() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return in_flight_.size() >= kReapFrom ||
           in_flight_.bytes() >= kReapFromBytes;
  }
  bool MustReap() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return IsDue() || due_.load(std::memory_order_relaxed) ||
           encoder_.fds().has_fds();
  }
  bool ReapIdleLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Count() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool PutShort(const Tensor& tensor) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool EncodeAlone(const Tensor& tensor, uint64_t number)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status PutAll(absl::Span<const TensorMessage> messages,
                      Deadline deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status EncodeAll(absl::Span<const TensorMessage> messages,
                         uint64_t first, Deadline deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status EncodeOne(const TensorMessage& message, uint64_t number,
                         Deadline deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status WaitForTaken(uint64_t taken, Deadline deadline);
  absl::Status PutRecords(Deadline deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Cancel(uint64_t first) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Keep(absl::Span<const TensorMessage> messages)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  QueueCore* const queue_;
  TensorDecoder* const decoder_;
  const uint64_t fork_count_ = ForkCount();
  // The messages before it are those of the slot's former participants.
  const uint64_t inherited_ = queue_->put();

  TimedMutex mutex_;
  TensorEncoder encoder_ ABSL_GUARDED_BY(mutex_);
  SentTensors in_flight_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::byte> records_ ABSL_GUARDED_BY(mutex_);
  uint64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;  // At the last check.

  // Statistics of in_flight_. Another thread sets `due_` to ask the one that
  // puts to reap, and since when; 0: not since it reaped.
  std::atomic<size_t> held_ = 0;
  std::atomic<bool> due_ = false;
  std::atomic<int64_t> asked_ns_ = 0;
  std::atomic<Arena*> arena_ = nullptr;  // The encoder's, once it has one.
  // No message is in flight, and only offers are published.
  std::atomic<bool> idle_ = true;
};

}  // namespace tenon

#endif  // TENON_IPC_TENSOR_QUEUE_TENSOR_SENDER_H_

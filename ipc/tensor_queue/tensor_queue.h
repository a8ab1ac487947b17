// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TensorQueue: messages of tensors, strings and scalars from any number of
// processes to any number of others, each message to one of them.
//
//   TENON_ASSIGN_OR_RETURN(auto queue, TensorQueue::Create({.name = "frames"}));
//   TENON_ASSIGN_OR_RETURN(QueueHandle handle, queue->Share());
//   // The handle goes to another process, which does
//   TENON_ASSIGN_OR_RETURN(auto theirs, TensorQueue::Open(std::move(handle)));
//
//   TENON_ASSIGN_OR_RETURN(Tensor frame,
//                          queue->CreateTensor(kDtypeOf<float>, {3, 480, 640},
//                                              deadline));
//   TENON_RETURN_IF_ERROR(queue->Put(frame, deadline));
//
//   TENON_ASSIGN_OR_RETURN(Tensor received, theirs->GetTensor(deadline));
//
// What travels is a record of 128 bytes. How a tensor gets along with it:
//   in a block of an arena    by reference, without a system call once the
//                             receiver knows the arena: the way to go
//   in a segment of its own   by descriptor or by name, with system calls
//   in private memory         copied into an arena of this queue by Put(): the
//                             bytes from the first to the last that its views
//                             in the message have
// Long strings and what else does not fit go into one block beside it. Views of
// one storage in one message are views of one storage at the other end, too.
// Whatever was received may be sent on, to anybody.

#ifndef TENON_IPC_TENSOR_QUEUE_TENSOR_QUEUE_H_
#define TENON_IPC_TENSOR_QUEUE_TENSOR_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "tenon/ipc/queue/internal/queue_core.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/tensor_codec/tensor_decoder.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/ipc/tensor_queue/tensor_sender.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/tensor/exchange/tensor_importer.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon {

// Of one participant.
struct TensorQueueUse {
  // Where CreateTensor() and Put() make blocks. Unset: an arena of its own,
  // without a quota, when the first one is wanted.
  std::shared_ptr<Arena> arena;
  // What others can make this process map.
  ArenaTensorImporterOptions arenas = {.max_arenas = 128};
  TensorImporterOptions segments;
};

// Ownership: owns its place in the queue. Holds each tensor that was put until
//   it was taken; lets go in later calls if that is many (16) or much (256
//   KiB), and else when any TensorQueue of this process waits, in Reap(), and
//   in AwaitTaken(). Destruction leaves the queue without waiting: a message
//   that nobody has taken by then is lost once its memory is used for something
//   else; so AwaitTaken() first.
// Threads: any number may use it. Those who put take turns, and those who get.
// Processes: each opens its own, a forked child too; inert in a child of its
//   owner's: calls fail with kFailedPrecondition. If the owner of an arena is
//   killed, what it has put can still be got. If a forwarder is killed, so can
//   what it has put, as long as others hold its blocks; else it is kDataLoss.
// Trust: for groups that trust each other. Wild bytes in a record are
//   kDataLoss.
// Failure: a Put() that fails has put nothing. A Get() that fails has taken
//   nothing, except a message that it reports as kDataLoss.
class TensorQueue {
 public:
  // Errors: kInvalidArgument for sizes that cannot be; kResourceExhausted
  // naming the limit (memory, descriptors; when all places are taken).
  static absl::StatusOr<std::unique_ptr<TensorQueue>> Create(
      const QueueOptions& options = {}, const TensorQueueUse& use = {});
  // Errors: as Queue<T>::Open().
  static absl::StatusOr<std::unique_ptr<TensorQueue>> Open(
      QueueHandle handle, const TensorQueueUse& use = {});
  ~TensorQueue();
  TensorQueue(const TensorQueue&) = delete;
  TensorQueue& operator=(const TensorQueue&) = delete;

  // For one more participant. Errors: kResourceExhausted.
  absl::StatusOr<QueueHandle> Share() const { return queue_->Share(); }

  // A dense tensor in a block of the queue's arena; waits until `deadline` for
  // memory, meanwhile letting go of what was taken, which CreateTensor() of
  // arena_tensor.h does not. Errors: as that.
  absl::StatusOr<Tensor> CreateTensor(DLDataType dtype,
                                      absl::Span<const int64_t> shape,
                                      Deadline deadline) {
    return sender_->NewTensor(dtype, shape, deadline);
  }

  // Puts a message, all of PutBatch(), at most the capacity, or none of them;
  // waits for room until `deadline`. What others write into a tensor until it
  // is taken arrives, or not. Errors:
  //   kDeadlineExceeded    there was no room
  //   kFailedPrecondition  the queue is closed, or a tensor was inherited by
  //                        fork()
  //   kInvalidArgument     a message that can never be sent: with more than
  //                        some 240 segments of single tensors or new arenas
  //   kResourceExhausted   until `deadline` there was not enough memory in the
  //                        arena, or room for descriptors: at most 248 are out
  //                        at a time, for messages that nobody has taken
  //   kUnavailable         it is full, and all others have left or died
  absl::Status Put(const TensorMessage& message, Deadline deadline) {
    return sender_->Put({&message, 1}, deadline);
  }
  // A message of that one tensor; of all ways the shortest.
  absl::Status Put(const Tensor& tensor, Deadline deadline) {
    return sender_->Put(tensor, deadline);
  }
  absl::Status PutBatch(absl::Span<const TensorMessage> messages,
                        Deadline deadline) {
    return sender_->Put(messages, deadline);
  }
  // Without waiting: false if there is no room.
  absl::StatusOr<bool> TryPut(const TensorMessage& message) {
    return sender_->TryPut(message);
  }

  // Takes a message, with its tensors claimed before; waits for one until
  // `deadline`. GetBatch(): as many as there are of one participant, one to
  // `most`. Errors, none of them sticky:
  //   kDeadlineExceeded   there was none
  //   kDataLoss           a message was taken that can be had no more, such as
  //                       one whose forwarder was killed; the next may be good
  //   kResourceExhausted  a limit of this process is in the way (descriptors,
  //                       those of TensorQueueUse); the message stays there
  //   kUnavailable        there is none, and the queue is closed, or all others
  //                       have left or died
  absl::StatusOr<TensorMessage> Get(Deadline deadline);
  absl::StatusOr<std::vector<TensorMessage>> GetBatch(size_t most,
                                                      Deadline deadline);
  // Without waiting: none if there is none. Does not notice deaths.
  absl::StatusOr<std::optional<TensorMessage>> TryGet();
  // Get() and TryGet() of a message of one tensor alone; of all ways the
  // shortest. Errors: theirs, and kInvalidArgument if the next message has
  // anything else; it stays there.
  absl::StatusOr<Tensor> GetTensor(Deadline deadline);
  absl::StatusOr<std::optional<Tensor>> TryGetTensor();

  // Nothing more is put, by anybody; what is there can be got. Wakes all.
  absl::Status Close() { return queue_->Close(); }
  bool closed() const { return queue_->closed(); }
  // Throws away what is there now; returns how many messages.
  absl::StatusOr<uint64_t> Drain() { return queue_->Drain(); }

  // Waits until all that was put here was taken, and lets go of it. Errors:
  // kDeadlineExceeded; kUnavailable if all others have left or died.
  absl::Status AwaitTaken(Deadline deadline) {
    return sender_->AwaitTaken(deadline);
  }
  // Lets go of what was taken, of all queues of this process. Cheap.
  static void Reap();
  // And takes down the offers of arenas of which nothing is on its way: they
  // keep segments from being given back to the system. And unmaps what others
  // have given up: segments that an arena's owner has trimmed, and arenas whose
  // owner has closed them or ended and of which no tensor is held here. Get()
  // does that as well before it waits and once a second while it does, and when
  // it gets a tensor of an arena that is new here.
  absl::Status Trim();

  // What this queue keeps mapped of other processes' arenas.
  using Mapped = ArenaTensorImporter::Mapped;
  Mapped mapped() { return decoder_.mapped(); }

  // A moment ago: messages that are there; of these, those put here; messages
  // put here that are held.
  uint64_t size() const { return queue_->size(); }
  uint64_t own_size() const { return queue_->own_size(); }
  size_t held() const { return sender_->held(); }
  bool empty() const { return size() == 0; }
  bool full() const { return own_size() == capacity(); }
  size_t capacity() const { return queue_->capacity(); }

  // For event loops, as in doorbell.h: for a message, or the end. After
  // Disarm(): Get() with Deadline::Passed() until kDeadlineExceeded.
  absl::StatusOr<int> PollFd() { return queue_->PollFd(); }
  absl::StatusOr<bool> Arm();
  void Disarm() { queue_->Disarm(); }

  // For counts and what else is rarely needed.
  QueueCore& core() { return *queue_; }

 private:
  class Claimer;
  class MessageClaimer;
  class TensorClaimer;

  TensorQueue(std::unique_ptr<QueueCore> queue, const TensorQueueUse& use)
      : queue_(std::move(queue)), decoder_(use.arenas, use.segments) {}
  // True if something was got.
  absl::StatusOr<bool> TryTake(QueueClaimer* claimer);
  absl::Status Take(Deadline deadline, QueueClaimer* claimer);
  absl::StatusOr<size_t> WaitAndSweep(std::span<std::byte> records,
                                      Deadline deadline, QueueClaimer* claimer);
  static absl::StatusOr<std::unique_ptr<TensorQueue>> Make(
      std::unique_ptr<QueueCore> queue, const TensorQueueUse& use,
      const std::string& name);

  const std::unique_ptr<QueueCore> queue_;
  TensorDecoder decoder_;
  std::unique_ptr<TensorSender> sender_;
};

}  // namespace tenon

#endif  // TENON_IPC_TENSOR_QUEUE_TENSOR_QUEUE_H_

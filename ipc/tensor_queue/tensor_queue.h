// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TensorQueue: messages of tensors, strings and scalars from any number of
// processes to any number of processes. Each message is received by exactly one
// process.
//
//   TENON_ASSIGN_OR_RETURN(auto queue,
//                          TensorQueue::Create({.name = "frames"}));
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
// A message is a record of up to 120 bytes; one of a dense tensor in a block is
// mostly one cache line. A tensor is transferred according to its memory:
//   in a block of an arena    by reference, without a system call once the
//                             receiver knows the arena: the preferred way
//   in a segment of its own   by descriptor or by name, with system calls
//   in private memory         copied by Put() into an arena of this queue: the
//                             bytes from the first to the last that its views
//                             in the message have
// Long strings, and fields that exceed the record, go into one further block.
// Views of one storage in one message are views of one storage at the receiver,
// too. A received tensor may be forwarded to any process.
//
// Memory order: Get() of a message sees everything that the sending thread
//   wrote before Put(), in the tensors and in any other shared memory.

#ifndef TENON_IPC_TENSOR_QUEUE_TENSOR_QUEUE_H_
#define TENON_IPC_TENSOR_QUEUE_TENSOR_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/queue/queue_options.h"
#include "tenon/ipc/queue/queue_stats.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/shm/arena/arena_limits.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/tensor/exchange/tensor_importer_options.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon {

class Arena;
struct TensorQueueParts;

// The options of one participant.
struct TensorQueueParticipantOptions {
  // The arena in which CreateTensor() and Put() allocate. Null: the queue
  // creates an arena without a quota when it first needs one. If it is on a
  // device, only CreateTensor() uses it.
  std::shared_ptr<Arena> arena;
  // Limits on the memory that peers can make this process map.
  ArenaTensorImporterOptions arenas = {.max_arenas = 128};
  // Its close_on_exec is ignored: received descriptors are close-on-exec.
  TensorImporterOptions segments;
};

// Ownership: owns its slot in the queue. Holds each tensor that was put until
//   its message is taken; drops these references in later calls if they are
//   many (16) or large (256 KiB), otherwise when any TensorQueue of this
//   process waits (if another thread puts, within some 20 ms), in Reap(), and
//   in AwaitTaken(). Destruction leaves the queue without waiting: an untaken
//   message is lost once its memory is reused; so call AwaitTaken() first.
// Threads: thread-safe. Calls that put run one at a time, and so do calls that
//   get.
// Processes: each opens its own, a forked child too; inert in a child of its
//   owner's: calls fail with kFailedPrecondition. If the owner of an arena is
//   killed, the messages it has put can still be received. If a forwarder is
//   killed, its messages can be received as long as other processes hold their
//   blocks; else they are kDataLoss.
// Trust: for groups that trust each other. Corrupt bytes in a record are
//   kDataLoss.
// Failure: a Put() that fails has put nothing. A Get() that fails has taken
//   nothing, except a message that it reports as kDataLoss.
class TensorQueue {
 public:
  // Errors: kInvalidArgument for sizes out of range; kResourceExhausted naming
  // the limit (memory, descriptors, slots).
  static absl::StatusOr<std::unique_ptr<TensorQueue>> Create(
      const QueueOptions& options = {},
      const TensorQueueParticipantOptions& use = {});
  // Errors: as Queue<T>::Open(), which leave the handle unchanged; those of
  // getentropy(), which do not.
  static absl::StatusOr<std::unique_ptr<TensorQueue>> Open(
      QueueHandle&& handle, const TensorQueueParticipantOptions& use = {});
  ~TensorQueue();
  TensorQueue(const TensorQueue&) = delete;
  TensorQueue& operator=(const TensorQueue&) = delete;

  // A handle for one more participant. Errors: kResourceExhausted.
  absl::StatusOr<QueueHandle> Share() const;

  // A dense tensor in a block of the queue's arena. Waits until `deadline` for
  // memory and meanwhile drops references to taken tensors, which
  // CreateTensor() of arena_tensor.h does not. Errors: as that.
  absl::StatusOr<Tensor> CreateTensor(DLDataType dtype,
                                      absl::Span<const int64_t> shape,
                                      Deadline deadline);

  // Puts a message, or all of a batch (at most the capacity) or none of it;
  // waits for room until `deadline`. Writes of other threads into a tensor
  // between Put() and Get() may be visible to the receiver or not. Errors:
  //   kDeadlineExceeded    there was no room
  //   kFailedPrecondition  the queue is closed, or a tensor was inherited by
  //                        fork()
  //   kInvalidArgument     a message that can never be sent: it has more than
  //                        about 240 segments of single tensors or new arenas
  //   kResourceExhausted   until `deadline` the arena had too little memory, or
  //                        there was no room for descriptors: at most 248 are
  //                        published at a time, for untaken messages
  //   kUnavailable         it is full, and all others have left or died
  absl::Status Put(const TensorMessage& message, Deadline deadline);
  // A message of one tensor; the fastest form.
  absl::Status Put(const Tensor& tensor, Deadline deadline);
  absl::Status PutBatch(absl::Span<const TensorMessage> messages,
                        Deadline deadline);
  // Does not wait: false if there is no room.
  absl::StatusOr<bool> TryPut(const TensorMessage& message);

  // Takes a message whose tensors were claimed first; waits for one until
  // `deadline`. GetBatch() takes at least one message and at most `most`, all
  // from one participant. Errors, none of them sticky:
  //   kDeadlineExceeded   no message came
  //   kDataLoss           a message was taken that cannot be received any more,
  //                       such as one whose forwarder was killed; the next one
  //                       may be good
  //   kResourceExhausted  a limit of this process was hit (descriptors, those
  //                       of its options); the message stays in the queue
  //   kOutOfRange         the end: the queue is closed, and all messages have
  //                       been taken
  //   kUnavailable        the queue is empty, and all others have left or died
  absl::StatusOr<TensorMessage> Get(Deadline deadline);
  absl::StatusOr<std::vector<TensorMessage>> GetBatch(size_t most,
                                                      Deadline deadline);
  // Does not wait: nullopt if the queue is empty. Does not notice deaths.
  absl::StatusOr<std::optional<TensorMessage>> TryGet();
  // Get() and TryGet() of a message of exactly one tensor; the fastest form.
  // Errors: theirs, and kInvalidArgument if the next message has other fields;
  // it stays in the queue.
  absl::StatusOr<Tensor> GetTensor(Deadline deadline);
  absl::StatusOr<std::optional<Tensor>> TryGetTensor();

  // Closes the queue for all participants: Put() fails from now on, queued
  // messages can still be received. Wakes all waiters.
  absl::Status Close();
  bool closed() const;
  // Discards all queued messages; returns their number.
  absl::StatusOr<uint64_t> Drain();

  // Waits until all messages of this participant were taken, and drops their
  // tensors. Errors: kDeadlineExceeded; kUnavailable if all others have left or
  // died.
  absl::Status AwaitTaken(Deadline deadline);
  // Drops the tensors of taken messages, for all queues of this process. Cheap.
  static void Reap();
  // Does the same, removes the published offers of arenas without a message in
  // flight (they keep segments from being returned to the system), and unmaps
  // memory that peers no longer use: segments that an arena's owner has
  // trimmed, and arenas whose owner has closed them or ended and of which no
  // tensor is held here. Get() unmaps too, before it waits, once a second while
  // it waits, and when it receives a tensor of a new arena.
  absl::Status Trim();

  // The memory of other processes' arenas that this queue keeps mapped.
  MappedArenas mapped();

  // Snapshots: queued messages; those put by this participant; messages put
  // here whose tensors are still held.
  uint64_t size() const;
  uint64_t own_size() const;
  size_t held() const;
  bool empty() const { return size() == 0; }
  bool full() const { return own_size() == capacity(); }
  size_t capacity() const;

  // For event loops (doorbell.h): readable when there is a message, or at the
  // end. After Disarm() call Get() with Deadline::Passed() until it returns
  // kDeadlineExceeded.
  absl::StatusOr<int> PollFd();
  absl::StatusOr<bool> Arm();
  void Disarm();

  // The system calls of this participant, for reports.
  QueueStats stats() const;

 private:
  friend class TensorQueuePeer;  // Of tests.

  explicit TensorQueue(std::unique_ptr<TensorQueueParts> parts);

  const std::unique_ptr<TensorQueueParts> parts_;
};

}  // namespace tenon

#endif  // TENON_IPC_TENSOR_QUEUE_TENSOR_QUEUE_H_

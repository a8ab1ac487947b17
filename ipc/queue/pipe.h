// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Pipe<T>: items between two ends, both ways or one way.
//
//   TENON_ASSIGN_OR_RETURN(auto pipe, Pipe<Word>::Create());
//   TENON_ASSIGN_OR_RETURN(QueueHandle handle, pipe.Share());
//   // The handle goes to another process, which does
//   TENON_ASSIGN_OR_RETURN(auto theirs, Pipe<Word>::Open(std::move(handle)));
//   TENON_RETURN_IF_ERROR(theirs.Send(word, deadline));
//
//   TENON_ASSIGN_OR_RETURN(Word word, pipe.Receive(deadline));

#ifndef TENON_IPC_QUEUE_PIPE_H_
#define TENON_IPC_QUEUE_PIPE_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/queue/byte_queue.h"
#include "tenon/ipc/queue/queue.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/queue/queue_stats.h"
#include "tenon/shm/base/deadline.h"

namespace tenon {

// The directions of a pipe's end; the other end has the opposite ones.
enum class PipeUse : char { kBoth = 'b', kSend = 's', kReceive = 'r' };

struct PipeOptions {
  std::string name = "pipe";     // In errors, and as the memory's label.
  size_t capacity = 1024;        // Items in each direction.
  PipeUse use = PipeUse::kBoth;  // Of the end that Create() makes.
};

// A queue of two participants, each of which receives only the items of the
// other one. Ownership, threads, processes, trust, failure and memory order: as
// Queue<T> (queue.h).
template <QueueValue T>
class Pipe {
 public:
  // One end. Errors: as Queue<T>.
  static absl::StatusOr<Pipe> Create(const PipeOptions& options = {}) {
    return Wrap(ByteQueue::Create(QueueType::kPipe, sizeof(T),
                                  {.name = options.name,
                                   .capacity = options.capacity,
                                   .max_participants = 2}),
                options.use);
  }
  // The other end. Errors: as Queue<T>; kResourceExhausted if a process has it,
  // or if items of its last holder have not been received yet. After an error
  // the handle is unchanged.
  static absl::StatusOr<Pipe> Open(QueueHandle&& handle) {
    const char use = handle.bytes.empty() ? '\0' : handle.bytes.back();
    if (use != 'b' && use != 's' && use != 'r') {
      return absl::InvalidArgumentError(
          "Pipe::Open(): the handle is not that of a pipe");
    }
    handle.bytes.pop_back();
    auto queue =
        ByteQueue::Open(std::move(handle), QueueType::kPipe, sizeof(T));
    if (!queue.ok()) handle.bytes.push_back(use);
    return Wrap(std::move(queue), static_cast<PipeUse>(use));
  }

  // A handle for the other end; may be called again when that end is gone.
  absl::StatusOr<QueueHandle> Share() const {
    absl::StatusOr<QueueHandle> handle = queue_.Share();
    if (handle.ok()) handle->bytes.push_back(static_cast<char>(Other(use_)));
    return handle;
  }

  // Waits for room until `deadline`. Errors: kDeadlineExceeded; kUnavailable if
  // the other end has left or died (a kill may be noticed only once there is no
  // room); kFailedPrecondition if the pipe is closed or this end receive-only.
  absl::Status Send(const T& item, Deadline deadline) {
    if (use_ == PipeUse::kReceive) return NotForThis("send");
    return queue_.Put(std::as_bytes(std::span(&item, 1)), deadline);
  }

  // Waits for an item until `deadline`. Errors: kDeadlineExceeded; kOutOfRange
  // at the end: the pipe is closed, and all items were received; kUnavailable
  // if the other end has left or died and all of its items were received;
  // kFailedPrecondition if this end is send-only.
  absl::StatusOr<T> Receive(Deadline deadline) {
    if (use_ == PipeUse::kSend) return NotForThis("receive");
    std::array<std::byte, sizeof(T)> bytes;
    const absl::StatusOr<size_t> got = queue_.Get(bytes, deadline);
    if (!got.ok()) return got.status();
    return std::bit_cast<T>(bytes);
  }

  // Closes the pipe for both ends: Send() fails from now on. Items that were
  // sent can still be received; after them Receive() returns kOutOfRange.
  absl::Status Close() { return queue_.Close(); }
  bool closed() const { return queue_.closed(); }

  // Whether Receive() would return an item without waiting; a snapshot.
  bool Poll() const { return queue_.size() != queue_.own_size(); }

  PipeUse use() const { return use_; }
  QueueStats stats() const { return queue_.stats(); }

  // For event loops (doorbell.h): readable when there is an item, or at the
  // end.
  absl::StatusOr<int> PollFd() { return queue_.PollFd(); }
  absl::StatusOr<bool> Arm() { return queue_.Arm(); }
  void Disarm() { queue_.Disarm(); }

 private:
  Pipe(ByteQueue queue, PipeUse use) : queue_(std::move(queue)), use_(use) {}

  static absl::StatusOr<Pipe> Wrap(absl::StatusOr<ByteQueue> queue,
                                   PipeUse use) {
    if (!queue.ok()) return queue.status();
    return Pipe(*std::move(queue), use);
  }
  static PipeUse Other(PipeUse use) {
    if (use == PipeUse::kBoth) return use;
    return use == PipeUse::kSend ? PipeUse::kReceive : PipeUse::kSend;
  }
  static absl::Status NotForThis(const char* what) {
    return absl::FailedPreconditionError(std::string("pipe: this end cannot ") +
                                         what + " (PipeOptions::use)");
  }

  ByteQueue queue_;
  PipeUse use_;
};

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_PIPE_H_

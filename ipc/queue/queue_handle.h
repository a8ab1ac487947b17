// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// QueueHandle: the data with which a process joins a queue.

#ifndef TENON_IPC_QUEUE_QUEUE_HANDLE_H_
#define TENON_IPC_QUEUE_QUEUE_HANDLE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tenon/shm/base/unique_fd.h"

namespace tenon {

class QueueGuests;

// Bytes and descriptors. They are passed on by anything that carries both: as
// arguments of a spawned process, over fork() (the child opens its own queue
// from the handle), or through a Channel (queue_channel.h). One handle serves
// one Open(), which takes it only if it succeeds: a process that could not join
// (at a limit of descriptors, without a free slot) may retry with the same
// handle. Share() makes as many as are needed. Contents:
//   bytes  the type, the sizes and the identity of the queue
//   fds    the memory, and the two descriptors of each slot's FdBoard
// Ownership: owns its descriptors (close-on-exec).
struct QueueHandle {
  std::string bytes;
  std::vector<UniqueFd> fds;
  // Of the participant that made the handle; null in other processes. Start()
  // of //spawn tells it which processes have the handle.
  std::shared_ptr<QueueGuests> guests;
};

// The form of a queue, which all of its participants use.
enum class QueueType : uint32_t {
  kItems = 1,    // Queue<T>, SimpleQueue<T>.
  kTasks = 2,    // JoinableQueue<T>.
  kTensors = 3,  // References to tensors.
  kPipe = 4,     // Pipe<T>: no end receives its own items.
};

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_QUEUE_HANDLE_H_

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// QueueHandle: the data with which a process joins a queue.

#ifndef TENON_IPC_QUEUE_QUEUE_HANDLE_H_
#define TENON_IPC_QUEUE_QUEUE_HANDLE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/queue/internal/queue_layout.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {

// Bytes and descriptors. They are passed on by anything that carries both: as
// arguments of a spawned process, over fork() (the child opens its own queue
// from the handle), or through a Channel (queue_channel.h). One handle serves
// one Open(), which takes it only if it succeeds: a process that could not join
// (at a limit of descriptors, without a free slot) may retry with the same
// handle. Share() makes as many as are needed. Contents:
//   bytes  a QueueGeometry
//   fds    the memory, and the two descriptors of each slot's FdBoard
// Ownership: owns its descriptors (close-on-exec).
struct QueueHandle {
  std::string bytes;
  std::vector<UniqueFd> fds;
};

// The label of a queue's memory; the queue's name follows it.
inline constexpr char kQueueLabel[] = "tenon.queue.";

enum class QueueType : uint32_t {
  kItems = 1,    // Queue<T>, SimpleQueue<T>.
  kTasks = 2,    // JoinableQueue<T>.
  kTensors = 3,  // References to tensors.
  kPipe = 4,     // Pipe<T>: no end receives its own items.
};

// Validates magic, version and sizes.
// Errors: kInvalidArgument; kFailedPrecondition naming both versions.
absl::Status CheckQueueGeometry(const QueueGeometry& geometry);

// Parses and validates the bytes of a handle that has `fds` descriptors.
// Errors: as CheckQueueGeometry().
absl::StatusOr<QueueGeometry> ParseQueueHandle(absl::string_view bytes,
                                               size_t fds);
std::string QueueHandleBytes(const QueueGeometry& geometry);

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_QUEUE_HANDLE_H_

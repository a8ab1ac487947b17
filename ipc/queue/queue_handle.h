// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// QueueHandle: what a process needs to take part in a queue.

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

// Bytes and descriptors, to be passed on in whatever way passes both: as the
// arguments of a process that is spawned, over fork() (the child opens its own
// from the handle), through a Channel (queue_channel.h). One handle is for one
// Open(); Share() makes as many as are needed. What is in it:
//   bytes  a QueueKind
//   fds    the memory, and the two descriptors of the shelf of each place
// Ownership: owns its descriptors (close-on-exec).
struct QueueHandle {
  std::string bytes;
  std::vector<UniqueFd> fds;
};

// What the items of a queue are for; a queue is opened as what it was made.
// The label of a queue's memory, before its name.
inline constexpr char kQueueLabel[] = "tenon.queue.";

enum class QueueType : uint32_t {
  kItems = 1,    // Queue<T>, SimpleQueue<T>.
  kTasks = 2,    // JoinableQueue<T>.
  kTensors = 3,  // References to tensors.
  kPipe = 4,     // Pipe<T>: nobody gets what it has put itself.
};

// Whether `kind` can be: magic, version, sizes.
// Errors: kInvalidArgument; kFailedPrecondition naming both versions.
absl::Status CheckQueueKind(const QueueKind& kind);

// What the bytes of a handle say, checked; also that `fds` descriptors belong
// to it. Errors: as CheckQueueKind().
absl::StatusOr<QueueKind> ParseQueueHandle(absl::string_view bytes, size_t fds);
std::string QueueHandleBytes(const QueueKind& kind);

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_QUEUE_HANDLE_H_

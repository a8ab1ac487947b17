// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Sends the handle of a queue through a Channel: unrelated processes share a
// queue.
//
//   TENON_ASSIGN_OR_RETURN(QueueHandle handle, queue.Share());
//   TENON_RETURN_IF_ERROR(SendQueueHandle(channel, handle, deadline));
//
//   // The other process:
//   TENON_ASSIGN_OR_RETURN(QueueHandle handle,
//                          ReceiveQueueHandle(channel, deadline));
//   TENON_ASSIGN_OR_RETURN(auto theirs, Queue<Job>::Open(std::move(handle)));

#ifndef TENON_IPC_QUEUE_QUEUE_CHANNEL_H_
#define TENON_IPC_QUEUE_QUEUE_CHANNEL_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/shm/base/deadline.h"

namespace tenon {

// Sends duplicates of the contents of `handle`, which the caller keeps. Blocks
// as Channel::Send(). Errors: its.
absl::Status SendQueueHandle(Channel& channel, const QueueHandle& handle,
                             Deadline deadline);

// Receives the next message, which must be a handle; Open() validates it. A
// handle contains sockets, so the channel must have been made with
// ChannelOptions::allow_sockets, and its peer be trusted. Blocks as
// Channel::Receive(). Errors: its; kDataLoss also without allow_sockets. After
// an error the queue works for its participants as before, and the handle can
// be sent again.
absl::StatusOr<QueueHandle> ReceiveQueueHandle(Channel& channel,
                                               Deadline deadline);

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_QUEUE_CHANNEL_H_

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The handle of a queue through a Channel: how processes that are not related
// come to share one.
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

// Sends duplicates of what is in `handle`, which stays good for its caller.
// Blocks as Channel::Send(). Errors: its.
absl::Status SendQueueHandle(Channel& channel, const QueueHandle& handle,
                             Deadline deadline);

// The next message, which is to be a handle; whether it is one, Open() says.
// There are sockets in it, so the channel must have been made with
// ChannelOptions::allow_sockets, and its peer be trusted. Blocks as
// Channel::Receive(). Errors: its; kDataLoss also without allow_sockets. After
// an error the queue works on for its participants, and can be sent again.
absl::StatusOr<QueueHandle> ReceiveQueueHandle(Channel& channel,
                                               Deadline deadline);

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_QUEUE_CHANNEL_H_

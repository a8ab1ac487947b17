// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/queue/queue_channel.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {

absl::Status SendQueueHandle(Channel& channel, const QueueHandle& handle,
                             Deadline deadline) {
  std::vector<int> fds;
  for (const UniqueFd& fd : handle.fds) fds.push_back(fd.get());
  return channel.Send(handle.bytes, fds, deadline);
}

absl::StatusOr<QueueHandle> ReceiveQueueHandle(Channel& channel,
                                               Deadline deadline) {
  TENON_ASSIGN_OR_RETURN(Message message, channel.Receive(deadline));
  return QueueHandle{std::move(message.bytes), std::move(message.fds)};
}

}  // namespace tenon

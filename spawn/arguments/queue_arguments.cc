// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/arguments/queue_arguments.h"

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/queue/queue_guests.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/spawn/arguments/argument.h"

namespace tenon::spawn {

namespace {

// A guest that may come, as long as the arguments exist.
class AnnouncedGuest {
 public:
  explicit AnnouncedGuest(std::shared_ptr<QueueGuests> guests)
      : guests_(std::move(guests)) {
    guests_->Announce();
  }
  ~AnnouncedGuest() { guests_->Withdraw(); }
  AnnouncedGuest(const AnnouncedGuest&) = delete;
  AnnouncedGuest& operator=(const AnnouncedGuest&) = delete;

  void Add(pid_t pid, int end_fd) { guests_->Add(pid, end_fd); }

 private:
  const std::shared_ptr<QueueGuests> guests_;
};

}  // namespace

absl::Status PackQueueHandle(absl::StatusOr<QueueHandle> handle,
                             ArgumentWriter& to) {
  TENON_RETURN_IF_ERROR(handle.status());
  to.OnStart([guest = std::make_shared<AnnouncedGuest>(handle->guests)](
                 pid_t pid, int end_fd) { guest->Add(pid, end_fd); });
  to.PutString(handle->bytes);
  to.Put(uint64_t{handle->fds.size()});
  for (const UniqueFd& fd : handle->fds) {
    TENON_RETURN_IF_ERROR(to.PutFd(fd.get()));
  }
  return absl::OkStatus();
}

absl::Status UnpackQueueHandle(ArgumentReader& from, QueueHandle& handle) {
  TENON_ASSIGN_OR_RETURN(handle.bytes, from.GetString());
  TENON_ASSIGN_OR_RETURN(const uint64_t fds, from.Get<uint64_t>());
  for (uint64_t i = 0; i < fds; ++i) {
    TENON_ASSIGN_OR_RETURN(UniqueFd fd, from.TakeFd());
    handle.fds.push_back(std::move(fd));
  }
  return absl::OkStatus();
}

absl::Status ArgumentTraits<std::unique_ptr<TensorQueue>>::Pack(
    const std::unique_ptr<TensorQueue>& queue, ArgumentWriter& to) {
  if (queue == nullptr) {
    return absl::InvalidArgumentError("null TensorQueue");
  }
  return PackQueueHandle(queue->Share(), to);
}

absl::StatusOr<std::unique_ptr<TensorQueue>>
ArgumentTraits<std::unique_ptr<TensorQueue>>::Unpack(ArgumentReader& from) {
  QueueHandle handle;
  TENON_RETURN_IF_ERROR(UnpackQueueHandle(from, handle));
  return TensorQueue::Open(std::move(handle));
}

}  // namespace tenon::spawn

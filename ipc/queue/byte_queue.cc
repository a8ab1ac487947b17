// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/queue/byte_queue.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/queue/internal/queue_core.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/queue/queue_options.h"
#include "tenon/ipc/queue/queue_stats.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon {
namespace {

// The claims of a queue of tensors are TensorQueue's.
absl::Status CheckType(QueueType type) {
  if (type != QueueType::kTensors) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "ByteQueue: a queue of tensors is used through TensorQueue");
}

}  // namespace

ByteQueue::ByteQueue(std::unique_ptr<QueueCore> core)
    : core_(std::move(core)) {}
ByteQueue::ByteQueue(ByteQueue&&) noexcept = default;
ByteQueue& ByteQueue::operator=(ByteQueue&&) noexcept = default;
ByteQueue::~ByteQueue() = default;

absl::StatusOr<ByteQueue> ByteQueue::Create(QueueType type, size_t item_bytes,
                                            const QueueOptions& options) {
  TENON_RETURN_IF_ERROR(CheckType(type));
  TENON_ASSIGN_OR_RETURN(auto core,
                         QueueCore::Create(type, item_bytes, options));
  return ByteQueue(std::move(core));
}

absl::StatusOr<ByteQueue> ByteQueue::Open(QueueHandle&& handle, QueueType type,
                                          size_t item_bytes) {
  TENON_RETURN_IF_ERROR(CheckType(type));
  TENON_ASSIGN_OR_RETURN(auto core,
                         QueueCore::Open(std::move(handle), type, item_bytes));
  return ByteQueue(std::move(core));
}

// QueueCore's functions are inline: each call goes on to its part.
absl::StatusOr<QueueHandle> ByteQueue::Share() const { return core_->Share(); }
absl::Status ByteQueue::Put(std::span<const std::byte> items,
                            Deadline deadline) {
  return core_->Put(items, deadline);
}
absl::StatusOr<bool> ByteQueue::TryPut(std::span<const std::byte> items) {
  return core_->TryPut(items);
}
absl::StatusOr<size_t> ByteQueue::Get(std::span<std::byte> out,
                                      Deadline deadline) {
  return core_->Get(out, deadline);
}
absl::StatusOr<size_t> ByteQueue::TryGet(std::span<std::byte> out) {
  return core_->TryGet(out);
}
absl::Status ByteQueue::Close() { return core_->Close(); }
bool ByteQueue::closed() const { return core_->closed(); }
absl::StatusOr<uint64_t> ByteQueue::Drain() { return core_->Drain(); }
uint64_t ByteQueue::size() const { return core_->size(); }
uint64_t ByteQueue::own_size() const { return core_->own_size(); }
size_t ByteQueue::capacity() const { return core_->capacity(); }
QueueStats ByteQueue::stats() const { return core_->stats(); }
absl::StatusOr<int> ByteQueue::PollFd() { return core_->PollFd(); }
absl::StatusOr<bool> ByteQueue::Arm() { return core_->Arm(); }
void ByteQueue::Disarm() { core_->Disarm(); }
absl::Status ByteQueue::TaskDone(uint64_t count) {
  return core_->TaskDone(count);
}
absl::Status ByteQueue::JoinTasks(Deadline deadline) {
  return core_->JoinTasks(deadline);
}

}  // namespace tenon

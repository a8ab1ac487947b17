// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/sync/mutex.h"

#include <errno.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/sync/internal/mutex_layout.h"
#include "tenon/ipc/sync/internal/robust_mutex.h"
#include "tenon/ipc/sync/internal/sync_block.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {

Mutex::Guard::Guard(MutexLayout* layout, bool owner_died)
    : layout_(layout), fork_count_(ForkCount()), owner_died_(owner_died) {}

Mutex::Guard& Mutex::Guard::operator=(Guard&& other) noexcept {
  if (this == &other) return *this;
  if (layout_ != nullptr) Drop();
  layout_ = std::exchange(other.layout_, nullptr);
  fork_count_ = other.fork_count_;
  owner_died_ = other.owner_died_;
  return *this;
}

// A forked child must not unlock its parent's lock.
void Mutex::Guard::Drop() {
  if (fork_count_ != ForkCount()) return;
  TENON_CRASH_POINT("mutex.unlocking");
  layout_->mutex.Unlock();
  TENON_CRASH_POINT("mutex.unlocked");
}

absl::Status Mutex::Guard::MakeConsistent() {
  if (layout_ == nullptr || !owner_died_) {
    return absl::FailedPreconditionError(
        "Guard::MakeConsistent(): the last holder of the Mutex did not die");
  }
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, "a Guard of a Mutex"));
  if (const int error = layout_->mutex.MakeConsistent(); error != 0) {
    return absl::FailedPreconditionError(
        PosixError(error, "pthread_mutex_consistent", "a Mutex").message());
  }
  owner_died_ = false;
  TENON_CRASH_POINT("mutex.made_consistent");
  return absl::OkStatus();
}

absl::Status Mutex::Guard::Unlock() {
  if (layout_ == nullptr) {
    return absl::FailedPreconditionError(
        "Guard::Unlock(): the Mutex is not held");
  }
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, "a Guard of a Mutex"));
  TENON_CRASH_POINT("mutex.unlocking");
  if (layout_->mutex.Unlock() != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("Guard::Unlock(): thread ", layout_->mutex.Owner(),
                     " holds the Mutex"));
  }
  TENON_CRASH_POINT("mutex.unlocked");
  layout_ = nullptr;
  owner_died_ = false;
  return absl::OkStatus();
}

Mutex::Mutex(Block block)
    : block_(std::move(block)), layout_(block_->layout()) {}
Mutex::Mutex(Mutex&&) noexcept = default;
Mutex& Mutex::operator=(Mutex&&) noexcept = default;
Mutex::~Mutex() = default;

int Mutex::fd() const { return block_->fd(); }
const std::string& Mutex::name() const { return block_->name(); }

absl::StatusOr<Mutex> Mutex::Create(const MutexOptions& options) {
  TENON_ASSIGN_OR_RETURN(const uint64_t pid_namespace, PidNamespace());
  auto block =
      SyncBlock<MutexLayout>::Create(options.segment, [&](MutexLayout& layout) {
        layout.pid_namespace = pid_namespace;
        layout.recursive = options.recursive;
        return layout.mutex.Init(options.recursive
                                     ? RobustMutex::Kind::kRecursive
                                     : RobustMutex::Kind::kErrorCheck);
      });
  if (!block.ok()) return block.status();
  return Mutex(*std::move(block));
}

absl::StatusOr<Mutex> Mutex::Wrap(absl::StatusOr<Block> block) {
  if (!block.ok()) return block.status();
  TENON_RETURN_IF_ERROR(
      CheckPidNamespace((*block)->layout()->pid_namespace, MutexLayout::kName));
  return Mutex(*std::move(block));
}

absl::StatusOr<Mutex> Mutex::Adopt(UniqueFd fd) {
  return Wrap(SyncBlock<MutexLayout>::Adopt(std::move(fd)));
}

absl::StatusOr<Mutex> Mutex::Open(absl::string_view name) {
  return Wrap(SyncBlock<MutexLayout>::Open(name));
}

absl::Status Mutex::Describe(int error, const MutexLayout& layout) {
  switch (error) {
    case EBUSY:
    case ETIMEDOUT:
      return absl::DeadlineExceededError(absl::StrCat(
          "Mutex::Lock(): thread ", layout.mutex.Owner(), " holds the Mutex"));
    case EDEADLK:
      return absl::FailedPreconditionError(
          "Mutex::Lock(): this thread holds the Mutex already, and it is not "
          "recursive");
    case ENOLCK:
      return RobustMutex::TooManyHeld("Mutex::Lock()");
    case ENOTRECOVERABLE:
      return absl::DataLossError(
          "Mutex::Lock(): a holder of the Mutex died, and the next one "
          "unlocked without "
          "MakeConsistent(); create a new Mutex and new data");
    default:
      return PosixError(error, "pthread_mutex_lock", "a Mutex");
  }
}

absl::StatusOr<Mutex::Guard> Mutex::Lock(Deadline deadline) const {
  TENON_RETURN_IF_ERROR(block_->CheckUsable());
  const int error = layout_->mutex.Lock(deadline);
  if (error == 0 || error == EOWNERDEAD) [[likely]] {
    TENON_CRASH_POINT("mutex.locked");
    return Guard(layout_, error == EOWNERDEAD);
  }
  return Describe(error, *layout_);
}

absl::StatusOr<bool> Mutex::IsLocked() const {
  TENON_RETURN_IF_ERROR(block_->CheckUsable());
  return layout_->mutex.Owner() != 0;
}

std::string Mutex::DebugString() const {
  const pid_t owner = layout_->mutex.Owner();
  if (owner != 0) return absl::StrCat("a Mutex, held by thread ", owner);
  return layout_->mutex.OwnerDied() ? "a Mutex, left by a dead holder"
                                    : "a Mutex, free";
}

}  // namespace tenon

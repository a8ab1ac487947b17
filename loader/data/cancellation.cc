// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/data/cancellation.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/statusor.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon::loader {

absl::StatusOr<std::unique_ptr<Cancellation>> Cancellation::Create() {
  UniqueFd event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event.valid()) return PosixError(errno, "eventfd", "cancellation");
  return absl::WrapUnique(new Cancellation(std::move(event)));
}

void Cancellation::Cancel() {
  const int saved_errno = errno;
  cancelled_.store(true, std::memory_order_release);
  const uint64_t one = 1;
  // It can fail only when the counter is full, and then it is readable anyway.
  [[maybe_unused]] const ssize_t n = write(event_.get(), &one, sizeof(one));
  errno = saved_errno;
}

}  // namespace tenon::loader

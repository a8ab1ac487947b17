// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// WorkerWaiter: sleeps until a worker has finished a job or has ended.

#ifndef TENON_LOADER_WORKER_WORKER_WAITER_H_
#define TENON_LOADER_WORKER_WORKER_WAITER_H_

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tenon/loader/data/cancellation.h"
#include "tenon/loader/worker/worker_link.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon::loader {

// Threads: thread-compatible.
class WorkerWaiter {
 public:
  WorkerWaiter() = default;  // Only to be assigned to.
  // Sleeps end with the cancellation, too, which must outlive the sleeps.
  // Errors: kResourceExhausted at a limit of descriptors.
  static absl::StatusOr<WorkerWaiter> Create(const Cancellation& cancellation);

  // Sleeps end from now on when the worker, which `fd` is readable after, has
  // ended, or when a handshake can go on. Errors: as Create().
  absl::Status AddEnd(size_t worker, int fd) { return Add(fd, kEnds + worker); }
  absl::Status AddHandshake(int fd) { return Add(fd, kWakeOnly); }
  // No effect on a descriptor that was not added.
  void Remove(int fd);

  struct Awaited {
    size_t worker = 0;
    WorkerLink* link = nullptr;  // Has joined.
  };
  // A worker that has ended, or whose link is unusable.
  struct Failed {
    size_t worker = 0;
    absl::Status why;
  };
  // Sleeps until a worker of `awaited` has finished a job. Returns for any
  // other reason, too: with a worker that has failed, if that is the reason.
  // Errors: kDeadlineExceeded; those of poll().
  absl::StatusOr<std::optional<Failed>> Sleep(absl::Span<const Awaited> awaited,
                                              Deadline deadline);

 private:
  // What epoll reports; ends of workers count from kEnds.
  static constexpr uint64_t kWakeOnly = 0;
  static constexpr uint64_t kEnds = 1;

  explicit WorkerWaiter(UniqueFd epoll) : epoll_(std::move(epoll)) {}

  absl::Status Add(int fd, uint64_t what);
  std::optional<Failed> NextEnded();

  // The ends of all workers, handshakes, and the cancellation.
  UniqueFd epoll_;
  std::vector<pollfd> polled_;  // Kept for its memory.
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_WORKER_WORKER_WAITER_H_

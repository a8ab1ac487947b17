// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// PoolPoller: the poll set of a pool's dispatcher. Not for users.
//
// An epoll set, so that another thread can remove a descriptor from it while
// the dispatcher sleeps, and sleep on that descriptor itself
// (pool_dispatcher.h).

#ifndef TENON_SPAWN_POOL_INTERNAL_POOL_POLLER_H_
#define TENON_SPAWN_POOL_INTERNAL_POOL_POLLER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon::spawn {

// Ownership: owns the set; the caller owns the descriptors in it, and removes
//   each before closing it: a duplicate in a forked process would keep it in
//   the set.
// Threads: one thread calls Wait(); all else is thread-safe.
class PoolPoller {
 public:
  // Errors: kResourceExhausted at a limit of descriptors.
  static absl::StatusOr<PoolPoller> Create();

  // Wait() reports `key`, which is not 0, when `fd` is readable or hung up.
  // Errors: kResourceExhausted: no memory, or fs.epoll.max_user_watches.
  absl::Status Add(int fd, uint64_t key) const;
  void Remove(int fd) const;

  // Not reported until Resume(); a hang-up may still be reported once.
  void Pause(int fd) const;
  void Resume(int fd, uint64_t key) const;

  // Ends the current Wait(), or else the next.
  void Wake() const;

  // The keys of readable descriptors; none after Wake(), after a signal or at
  // `deadline`, which has a resolution of a millisecond.
  std::vector<uint64_t> Wait(Deadline deadline) const;

 private:
  PoolPoller(UniqueFd epoll, UniqueFd wake);

  UniqueFd epoll_;
  UniqueFd wake_;
};

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_POOL_INTERNAL_POOL_POLLER_H_

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// PoolPoller: what the dispatcher of a pool sleeps on. Not for users.
//
// An epoll set, so that another thread can take a descriptor off it while the
// dispatcher sleeps, and sleep on that descriptor itself (pool_core.h).

#ifndef TENON_SPAWN_POOL_INTERNAL_POOL_POLLER_H_
#define TENON_SPAWN_POOL_INTERNAL_POOL_POLLER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon::spawn {

// Ownership: owns the set; the descriptors in it are the caller's, who removes
//   each before closing it: a copy in a forked process would keep it in here.
// Threads: one waits; the rest is thread-safe.
class PoolPoller {
 public:
  // Errors: kResourceExhausted at a limit of descriptors.
  static absl::StatusOr<PoolPoller> Create();

  // Wait() says `key`, which is not 0, when `fd` is readable or hung up.
  // Errors: kResourceExhausted: no memory, or fs.epoll.max_user_watches.
  absl::Status Add(int fd, uint64_t key) const;
  void Remove(int fd) const;

  // Not until Resume(); but one that is hung up may still be told of once.
  void Pause(int fd) const;
  void Resume(int fd, uint64_t key) const;

  // Ends the present Wait(), or else the next.
  void Wake() const;

  // The keys of what is readable; none if woken, at a signal or at `deadline`,
  // which is met to the millisecond.
  std::vector<uint64_t> Wait(Deadline deadline) const;

 private:
  PoolPoller(UniqueFd epoll, UniqueFd wake);

  UniqueFd epoll_;
  UniqueFd wake_;
};

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_POOL_INTERNAL_POOL_POLLER_H_

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// UniqueFd: the sole owner of a file descriptor.
//
//   tenon::UniqueFd fd(open(path, O_RDONLY | O_CLOEXEC));
//   if (!fd.valid()) return tenon::PosixError(errno, "open", path);
//
// It does not open anything and does not know what kind of file it owns.

#ifndef TENON_SHM_BASE_UNIQUE_FD_H_
#define TENON_SHM_BASE_UNIQUE_FD_H_

#include <utility>

#include "tenon/shm/base/cplusplus_20.h"

namespace tenon {

// Ownership: closes the descriptor when destroyed, reset or assigned to, on
//   every path, exactly once. -1 means "owns nothing"; a moved-from UniqueFd
//   has -1.
// Threads: thread-compatible, as an int is.
// Processes: the descriptor is inherited by fork() like any other. Owners that
//   must be inert in a forked child add that themselves.
// Failure: errno is preserved across the close, so an error path that unwinds
//   through a UniqueFd still reports the original errno.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  ~UniqueFd() { Reset(); }

  UniqueFd(UniqueFd&& other) noexcept : fd_(other.Release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) Reset(other.Release());
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;

  // The descriptor, still owned by this object; -1 if it owns none.
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

  // Gives up ownership without closing.
  [[nodiscard]] int Release() { return std::exchange(fd_, -1); }

  // Closes the owned descriptor, then owns `fd`, which must differ from it. A
  // close is never repeated: on Linux the descriptor is gone even if close()
  // reports EINTR, and a second close could close a descriptor that another
  // thread has just opened.
  void Reset(int fd = -1);

 private:
  int fd_ = -1;
};

}  // namespace tenon

#endif  // TENON_SHM_BASE_UNIQUE_FD_H_

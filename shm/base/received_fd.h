// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Closing descriptors that another process has sent. close() may wait for the
// process that serves the file: a file of a FUSE file system asks its daemon to
// flush, a TCP socket may linger, and an AF_UNIX socket closes the descriptors
// that it holds unread. A hostile sender could block the receiver indefinitely.
// A file is one object for all of its holders: no function here changes it, so
// a rejected socket (of a queue, of a channel) keeps working for them.

#ifndef TENON_SHM_BASE_RECEIVED_FD_H_
#define TENON_SHM_BASE_RECEIVED_FD_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "tenon/shm/base/unique_fd.h"

namespace tenon {

// Whether close(fd) is known not to block: memory (memfd, tmpfs, hugetlbfs),
// pidfd, eventfd, pipe. Queries the kernel only, never the file system.
// Threads: any. Does not block.
bool ClosesAtOnce(int fd);

// A description of `fd` for messages: "memory", or the kernel's name for it,
// such as "socket:[4711]" or a path; printable, at most 100 characters.
// Threads: any. Does not block.
std::string DescribeFd(int fd);

// Closes a descriptor that came from another process, and never shuts it down:
// at once if that does not block, else in a separate thread. An AF_UNIX socket
// is closed here if it stays empty (StaysEmpty() in unix_socket.h): its sender
// may put a descriptor into any other one at the last moment. At most four such
// threads exist, and only while descriptors are pending; they have all signals
// blocked. If all of them are blocked, further such descriptors stay open, up
// to this process's limit, until a thread is free or the process ends. No
// thread is started for a descriptor that closes at once. Threads: any. Does
// not block. Processes: a forked child begins with no threads and no pending
// descriptors; those pending in its parent stay open in the child.
void CloseReceived(UniqueFd fd);

// The number of this process's descriptors passed to CloseReceived() that are
// still open: queued, or blocked in a thread by a peer. Threads: any. Does not
// block.
size_t CountUnclosed();

// Descriptors that came together. On destruction passes those that were not
// taken to CloseReceived().
// Threads: thread-compatible.
class ReceivedFds {
 public:
  ReceivedFds() = default;
  explicit ReceivedFds(std::vector<UniqueFd> fds) : fds_(std::move(fds)) {}
  ReceivedFds(ReceivedFds&&) = default;
  ReceivedFds& operator=(ReceivedFds&& other) noexcept {
    fds_.swap(other.fds_);
    return *this;
  }
  ~ReceivedFds() {
    for (UniqueFd& fd : fds_) CloseReceived(std::move(fd));
  }

  // Closes them at once: for files that another process is known to keep open,
  // and that must stay unchanged.
  void Drop() { fds_.clear(); }

  size_t size() const { return fds_.size(); }
  void Add(UniqueFd fd) { fds_.push_back(std::move(fd)); }
  // `index` must be below size(). -1 if it was taken.
  int operator[](size_t index) const { return fds_[index].get(); }
  // Call after the descriptor's type has been checked.
  UniqueFd Take(size_t index) { return std::move(fds_[index]); }

 private:
  std::vector<UniqueFd> fds_;
};

}  // namespace tenon

#endif  // TENON_SHM_BASE_RECEIVED_FD_H_

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Closing descriptors that another process has sent. close() may wait for the
// process that serves the file: a file of a FUSE file system asks its daemon to
// flush, a TCP socket may linger, and an AF_UNIX socket closes the descriptors
// that it holds unread. A hostile sender would stop the receiver for as long as
// it likes. A file is one object for all of its holders: nothing here changes
// it, so a refused socket (of a queue, of a channel) goes on working for them.

#ifndef TENON_SHM_BASE_RECEIVED_FD_H_
#define TENON_SHM_BASE_RECEIVED_FD_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "tenon/shm/base/unique_fd.h"

namespace tenon {

// Whether close(fd) certainly does not wait: memory (memfd, tmpfs,
// hugetlbfs), pidfd, eventfd, pipe. Asks the kernel only, never the file.
// Threads: any. Does not block.
bool ClosesAtOnce(int fd);

// What `fd` is, for a message: "memory", or the kernel's name for it, such as
// "socket:[4711]" or a path; printable, at most 100 characters.
// Threads: any. Does not block.
std::string DescribeFd(int fd);

// Closes a descriptor that came from another process, and never shuts it down:
// at once if that does not wait, else in a thread of its own. An
// AF_UNIX socket is closed here if it stays empty (StaysEmpty() in
// unix_socket.h): its sender may put a descriptor into any other one at the
// last moment. At most four such threads exist, while there is something to
// close; they have all signals blocked. If all of them are kept waiting, more
// such descriptors stay open, up to this process's limit, until one comes free
// or the process ends. No thread is started for what closes at once. Threads:
// any. Does not block. Processes: a forked child begins anew; what its parent
// had yet to close stays open in it.
void CloseReceived(UniqueFd fd);

// How many of this process are still open, because their turn has not come or
// a peer keeps a thread waiting. Threads: any. Does not block.
size_t CountUnclosed();

// Descriptors that came together. Closes with CloseReceived() those that nobody
// has taken out when it is destroyed.
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

  // Closes them at once: for those that another process certainly keeps
  // open, and that are to stay as they are.
  void Drop() { fds_.clear(); }

  size_t size() const { return fds_.size(); }
  void Add(UniqueFd fd) { fds_.push_back(std::move(fd)); }
  // Of one that is there. -1 if it was taken out.
  int operator[](size_t index) const { return fds_[index].get(); }
  // To be called once what it is has been looked at.
  UniqueFd Take(size_t index) { return std::move(fds_[index]); }

 private:
  std::vector<UniqueFd> fds_;
};

}  // namespace tenon

#endif  // TENON_SHM_BASE_RECEIVED_FD_H_

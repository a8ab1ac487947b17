// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/received_fd.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/per_process.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/base/unix_socket.h"

namespace tenon {
namespace {

constexpr int kMaxThreads = 4;

// The kernel's name of a descriptor. A path begins with '/', so no file can
// imitate another type.
std::string LinkOf(int fd) {
  char text[101];
  const ssize_t got = readlink(absl::StrCat("/proc/self/fd/", fd).c_str(), text,
                               sizeof(text) - 1);
  return got <= 0 ? "" : std::string(text, static_cast<size_t>(got));
}

// Only memory has seals, sealed or not.
bool IsMemory(int fd) { return fcntl(fd, F_GET_SEALS) >= 0; }

// Closes in threads those descriptors whose close() may block.
class Closers {
 public:
  void Close(UniqueFd fd) {
    const ThreadLock lock(&mutex_);
    waiting_.push_back(std::move(fd));
    ++unclosed_;
    // If no thread can be started, a running one or the next call closes it.
    if (threads_ < kMaxThreads && Start()) ++threads_;
  }

  size_t CountUnclosed() {
    const ThreadLock lock(&mutex_);
    return unclosed_;
  }

 private:
  bool Start() {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    const bool started = pthread_create(&thread, nullptr, &Run, this) == 0;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (started) pthread_detach(thread);
    return started;
  }

  static void* Run(void* self) {
    static_cast<Closers*>(self)->CloseAll();
    return nullptr;
  }

  void CloseAll() {
    const ThreadLock lock(&mutex_);
    while (!waiting_.empty()) {
      UniqueFd fd = std::move(waiting_.front());
      waiting_.pop_front();
      mutex_.Unlock();
      fd.Reset();
      mutex_.Lock();
      --unclosed_;
    }
    --threads_;
  }

  ThreadMutex mutex_;
  std::deque<UniqueFd> waiting_ ABSL_GUARDED_BY(mutex_);
  size_t unclosed_ ABSL_GUARDED_BY(mutex_) = 0;
  int threads_ ABSL_GUARDED_BY(mutex_) = 0;
};

constinit PerProcess<Closers> closers;

}  // namespace

bool ClosesAtOnce(int fd) {
  if (IsMemory(fd)) return true;
  const std::string link = LinkOf(fd);
  return link == "anon_inode:[eventfd]" || link == "anon_inode:[pidfd]" ||
         absl::StartsWith(link, "pidfd:[") || absl::StartsWith(link, "pipe:[");
}

std::string DescribeFd(int fd) {
  if (IsMemory(fd)) return "memory";
  std::string link = LinkOf(fd);
  if (link.empty()) return "unknown";
  std::replace_if(
      link.begin(), link.end(),
      [](unsigned char c) { return !absl::ascii_isprint(c); }, '?');
  return link;
}

void CloseReceived(UniqueFd fd) {
  if (!fd.valid() || ClosesAtOnce(fd.get()) || StaysEmpty(fd.get())) return;
  closers.Get().Close(std::move(fd));
}

size_t CountUnclosed() { return closers.Get().CountUnclosed(); }

}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/received_fd.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/fork_count.h"
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
  // Of this process. Never destroyed: its threads may outlive main().
  static Closers& Get() {
    static std::atomic<Closers*> current{nullptr};
    Closers* closers = current.load(std::memory_order_acquire);
    while (closers == nullptr || closers->fork_count_ != ForkCount()) {
      auto* made = new Closers;
      if (current.compare_exchange_strong(closers, made)) return *made;
      delete made;
    }
    return *closers;
  }

  void Close(UniqueFd fd) {
    std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(fd));
    ++unclosed_;
    // If no thread can be started, a running one or the next call closes it.
    if (threads_ < kMaxThreads && Start()) ++threads_;
  }

  size_t CountUnclosed() {
    std::lock_guard lock(mutex_);
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
    std::unique_lock lock(mutex_);
    while (!waiting_.empty()) {
      UniqueFd fd = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      fd.Reset();
      lock.lock();
      --unclosed_;
    }
    --threads_;
  }

  const uint64_t fork_count_ = ForkCount();
  std::mutex mutex_;
  std::deque<UniqueFd> waiting_;
  size_t unclosed_ = 0;
  int threads_ = 0;
};

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
  Closers::Get().Close(std::move(fd));
}

size_t CountUnclosed() { return Closers::Get().CountUnclosed(); }

}  // namespace tenon

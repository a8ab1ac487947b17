// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Support for the benchmarks of arenas: clocks, samples beside those of a
// limit, and attaching without a channel.

#ifndef TENON_SHM_ARENA_BENCHMARK_SUPPORT_H_
#define TENON_SHM_ARENA_BENCHMARK_SUPPORT_H_

#include <fcntl.h>
#include <time.h>

#include <algorithm>
#include <cstddef>
#include <future>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/attached_arena.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {

inline double Seconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) +
         static_cast<double>(now.tv_nsec) * 1e-9;
}

// The duration of `work` by `clock`, in nanoseconds.
template <typename Work>
double Nanoseconds(clockid_t clock, Work&& work) {
  const double start = Seconds(clock);
  work();
  return (Seconds(clock) - start) * 1e9;
}

// Samples of one quantity. The median, because machines that measure are seldom
// idle.
class Samples {
 public:
  void Add(double sample) { samples_.push_back(sample); }
  bool empty() const { return samples_.empty(); }
  double Median() const { return Quantile(0.5); }
  double Least() const { return Quantile(0); }

 private:
  double Quantile(double at) const {
    if (samples_.empty()) return 0;
    std::vector<double> sorted = samples_;
    const auto nth =
        sorted.begin() +
        static_cast<ptrdiff_t>(at * static_cast<double>(sorted.size() - 1));
    std::nth_element(sorted.begin(), nth, sorted.end());
    return *nth;
  }

  std::vector<double> samples_;
};

// Alive throughout a benchmark: with a single thread the C and C++ libraries
// omit the atomic steps of mutexes and shared pointers, in Tenon and in the
// limit.
class SecondThread {
 public:
  SecondThread() : thread_([this] { end_.get_future().wait(); }) {}
  ~SecondThread() {
    end_.set_value();
    thread_.join();
  }
  SecondThread(const SecondThread&) = delete;
  SecondThread& operator=(const SecondThread&) = delete;

 private:
  std::promise<void> end_;
  std::thread thread_;
};

// Copies the descriptors of an offer, in place of a channel.
inline std::vector<UniqueFd> CopiesOf(const std::vector<int>& fds) {
  std::vector<UniqueFd> copies;
  for (const int fd : fds) copies.emplace_back(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  return copies;
}

// Attaches in the process of the offer, or in its forked child.
inline absl::StatusOr<std::shared_ptr<AttachedArena>> AttachTo(
    const ArenaOffer& offer) {
  return AttachedArena::Attach(offer.bytes, CopiesOf(offer.fds));
}

}  // namespace tenon

#endif  // TENON_SHM_ARENA_BENCHMARK_SUPPORT_H_

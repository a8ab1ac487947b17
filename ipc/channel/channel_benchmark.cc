// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The round trip of a message of 64 bytes, without and with a descriptor,
// beside the limit: bare sendmsg() and recvmsg() on such a socket, in the same
// loop, so that both run under the same load. Counters; compare their medians,
// as on a busy machine the mean mostly shows other work:
//   p50_us       the channel's round trip
//   p99_us       and its slowest hundredth
//   bare_p50_us  the bare round trip
//   ratio        p50_us over bare_p50_us
//
// Both ends are pinned. On one core the figure is system calls and two context
// switches; on two it is mostly two wake-ups of an idle core.

#include <sched.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {
namespace {

constexpr size_t kBytes = 64;

// The n-th core that this process may use; -1 if there is none.
int Core(int n) {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) != 0) return -1;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &cores) && n-- == 0) return core;
  }
  return -1;
}

// Pins the calling thread during its lifetime.
class ScopedPin {
 public:
  explicit ScopedPin(int core) {
    sched_getaffinity(0, sizeof(before_), &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof(one), &one);
  }
  ~ScopedPin() { sched_setaffinity(0, sizeof(before_), &before_); }
  ScopedPin(const ScopedPin&) = delete;
  ScopedPin& operator=(const ScopedPin&) = delete;

 private:
  cpu_set_t before_;
};

class ChannelEnd {
 public:
  explicit ChannelEnd(UniqueFd socket)
      : channel_(*Channel::Adopt(std::move(socket))) {}

  bool Send(absl::Span<const int> fds) {
    return channel_.Send({bytes_, kBytes}, fds, Deadline::Never()).ok();
  }
  bool Receive(size_t fd_count) {
    absl::StatusOr<Message> message = channel_.Receive(Deadline::Never());
    return message.ok() && message->bytes.size() == kBytes &&
           message->fds.size() == fd_count;
  }

 private:
  Channel channel_;
  char bytes_[kBytes] = {};
};

// The bare minimum: no checks, and a call that waits blocks.
class BareEnd {
 public:
  explicit BareEnd(UniqueFd socket) : socket_(std::move(socket)) {}

  bool Send(absl::Span<const int> fds) {
    iovec part = {bytes_, kBytes};
    msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    if (!fds.empty()) {
      message.msg_control = control;
      message.msg_controllen = sizeof(control);
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(sizeof(int));
      std::memcpy(CMSG_DATA(header), fds.data(), sizeof(int));
    }
    return sendmsg(socket_.get(), &message, MSG_NOSIGNAL) == kBytes;
  }

  bool Receive(size_t fd_count) {
    iovec part = {bytes_, kBytes};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    msghdr message = {.msg_iov = &part,
                      .msg_iovlen = 1,
                      .msg_control = control,
                      .msg_controllen = sizeof(control)};
    if (recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC) != kBytes) {
      return false;
    }
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    if (fd_count == 0) return header == nullptr;
    if (header == nullptr) return false;
    int fd;
    std::memcpy(&fd, CMSG_DATA(header), sizeof(fd));
    return UniqueFd(fd).valid();
  }

 private:
  UniqueFd socket_;
  char bytes_[kBytes] = {};
};

// One end here; the other in a thread on `core`, which sends everything back.
// It ends when this one does.
template <typename End>
class PingPong {
 public:
  PingPong(int core, absl::Span<const int> fds) : fds_(fds) {
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
      return;
    }
    end_ = std::make_unique<End>(UniqueFd(sockets[0]));
    echo_ = std::thread([core, fds, socket = sockets[1]] {
      ScopedPin pin(core);
      End end{UniqueFd(socket)};
      while (end.Receive(fds.size()) && end.Send(fds)) {
      }
    });
  }
  ~PingPong() {
    end_.reset();
    if (echo_.joinable()) echo_.join();
  }

  bool RoundTrip() {
    return end_ != nullptr && end_->Send(fds_) && end_->Receive(fds_.size());
  }

 private:
  absl::Span<const int> fds_;
  std::unique_ptr<End> end_;
  std::thread echo_;
};

using Clock = std::chrono::steady_clock;

double Microseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

// Reorders `times`.
double Quantile(double q, std::vector<double>* times) {
  const auto at = times->begin() + static_cast<ptrdiff_t>(
                                       q * static_cast<double>(times->size()));
  std::nth_element(times->begin(), at, times->end());
  return *at;
}

void BM_Channel_RoundTrip(benchmark::State& state) {
  const int other_core = Core(state.range(1) - 1);
  ScopedPin pin(Core(0));
  const UniqueFd fd(eventfd(0, EFD_CLOEXEC));
  const std::vector<int> fds(state.range(0), fd.get());
  PingPong<ChannelEnd> channel(other_core, fds);
  PingPong<BareEnd> bare(other_core, fds);
  std::vector<double> channel_times, bare_times;
  for (auto _ : state) {
    const Clock::time_point start = Clock::now();
    if (!channel.RoundTrip()) return state.SkipWithError("channel failed");
    const Clock::time_point middle = Clock::now();
    if (!bare.RoundTrip()) return state.SkipWithError("bare socket failed");
    const Clock::time_point end = Clock::now();
    channel_times.push_back(Microseconds(middle - start));
    bare_times.push_back(Microseconds(end - middle));
    state.SetIterationTime(channel_times.back() * 1e-6);
  }
  const double p50 = Quantile(0.5, &channel_times);
  const double bare_p50 = Quantile(0.5, &bare_times);
  state.counters["p50_us"] = p50;
  state.counters["p99_us"] = Quantile(0.99, &channel_times);
  state.counters["bare_p50_us"] = bare_p50;
  state.counters["ratio"] = p50 / bare_p50;
}

void FdsAndCores(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"fds", "cores"});
  for (const int cores : {1, 2}) {
    if (Core(cores - 1) < 0) continue;  // There is no second one.
    for (const int fds : {0, 1}) benchmark->Args({fds, cores});
  }
}
BENCHMARK(BM_Channel_RoundTrip)
    ->Apply(FdsAndCores)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/doorbell/doorbell.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tenon/ipc/doorbell/sleep_protocol.h"
#include "tenon/ipc/doorbell/sleeping_word.h"
#include "tenon/ipc/doorbell/spin_budget.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/monotonic_ns.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/system_fence.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {
namespace {

static_assert(SleepProtocol::kLoadSleeping == std::memory_order_seq_cst,
              "DoorbellRinger::Ring() loads the word with LoadSleep()'s order");

absl::Status AddToEpoll(int epoll, int fd, const std::string& what) {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0) return absl::OkStatus();
  return PosixError(errno, "epoll_ctl", what);
}

bool IsNonBlocking(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_NONBLOCK) != 0;
}

// Eventfds have no file type; pipes, sockets, files and devices have one. Does
// not query a file system: it might be a peer's, and never answer.
bool HasNoFileType(int fd) {
  struct statx facts = {};
  return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE,
               &facts) == 0 &&
         (facts.stx_mode & S_IFMT) == 0;
}

// Of such descriptors, only an eventfd can be written to. To add nothing does
// not ring, and does not block even if the counter is full.
bool IsCounter(int fd) {
  const uint64_t nothing = 0;
  return write(fd, &nothing, sizeof(nothing)) == sizeof(nothing);
}

}  // namespace

struct Doorbell::Waiter {
  Sleeper<> sleeper;
  SpinBudget spin;
};

absl::StatusOr<std::unique_ptr<Doorbell>> Doorbell::Create(
    SleepingWord* sleeping, std::string what, Barriers barriers) {
  UniqueFd bell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell.valid()) return PosixError(errno, "eventfd", what);
  return absl::WrapUnique(
      new Doorbell(sleeping, std::move(bell), std::move(what), barriers));
}

Doorbell::Doorbell(SleepingWord* sleeping, UniqueFd bell, std::string what,
                   Barriers barriers)
    : waiter_(new Waiter{Sleeper<>(sleeping), SpinBudget::ForThisProcess()}),
      fences_(barriers == Barriers::kBySleeper && JoinSystemFence()),
      bell_(std::move(bell)),
      what_(std::move(what)),
      fork_count_(ForkCount()) {
  polled_.push_back({bell_.get(), POLLIN, 0});
}

Doorbell::~Doorbell() = default;

absl::Status Doorbell::AddParticipant(uint64_t id, int pid_fd) {
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, what_));
  if (epoll_.valid()) {
    TENON_RETURN_IF_ERROR(AddToEpoll(epoll_.get(), pid_fd, what_));
  }
  participants_.push_back({id, pid_fd, /*dead=*/false});
  polled_.push_back({pid_fd, POLLIN, 0});
  return absl::OkStatus();
}

void Doorbell::RemoveParticipant(uint64_t id) {
  for (size_t i = 0; i < participants_.size(); ++i) {
    if (participants_[i].id != id) continue;
    if (epoll_.valid() && fork_count_ == ForkCount()) {
      epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, participants_[i].pid_fd, nullptr);
    }
    participants_.erase(participants_.begin() + static_cast<ptrdiff_t>(i));
    polled_.erase(polled_.begin() + static_cast<ptrdiff_t>(i) + 1);
    return;
  }
}

void Doorbell::ClearDead(uint64_t id) {
  for (Participant& participant : participants_) {
    if (participant.id == id) participant.dead = false;
  }
}

absl::StatusOr<WaitOutcome> Doorbell::Wait(absl::FunctionRef<bool()> ready,
                                           Deadline deadline) {
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, what_));
  if (Spin(ready, deadline)) {
    ++counts_.spins_won;
    empty_in_a_row_ = 0;
    return WaitOutcome{WaitOutcome::kReady};
  }
  for (;;) {
    absl::StatusOr<int> events = 0;
    TENON_ASSIGN_OR_RETURN(const bool slept, FallAsleep(ready));
    if (slept) {
      TENON_CRASH_POINT("doorbell.asleep");
      if (Dead() == nullptr) events = Poll(/*with_bell=*/true, deadline);
      waiter_->sleeper.Awake();
      TENON_CRASH_POINT("doorbell.awake");
    }
    if (!events.ok()) return events.status();
    const bool rung = slept && polled_[0].revents != 0;
    if (rung) Drain();
    if (!slept || ready()) {
      empty_in_a_row_ = 0;
      return WaitOutcome{WaitOutcome::kReady};
    }
    if (const Participant* dead = Dead(); dead != nullptr) {
      return WaitOutcome{WaitOutcome::kDied, dead->id};
    }
    if (*events == 0 || deadline.has_passed()) {
      return WaitOutcome{WaitOutcome::kDeadline};
    }
    if (!rung) continue;
    ++counts_.empty_wakes;
    if (++empty_in_a_row_ > kFreeEmptyWakes) {
      TENON_RETURN_IF_ERROR(Pause(deadline));
    }
  }
}

absl::StatusOr<bool> Doorbell::FallAsleep(absl::FunctionRef<bool()> ready) {
  absl::Status fenced;
  const auto fence = [&] {
    if (fences_) fenced = SystemFence();
  };
  const bool slept = waiter_->sleeper.FallAsleep(fence, ready);
  if (fenced.ok()) return slept;
  if (slept) waiter_->sleeper.Awake();
  return fenced;
}

bool Doorbell::Spin(absl::FunctionRef<bool()> ready, Deadline deadline) {
  if (ready()) return true;
  if (deadline.has_passed()) return false;
  const uint32_t turns = waiter_->spin.turns();
  if (turns == 0) {
    // The publisher may be waiting for this core.
    sched_yield();
    return ready();
  }
  for (uint32_t turn = 0; turn < turns; ++turn) {
    StdAtomics::Pause();
    if (ready()) {
      waiter_->spin.Succeeded();
      return true;
    }
  }
  waiter_->spin.Failed();
  return false;
}

// The number of descriptors with events; notes deaths.
absl::StatusOr<int> Doorbell::Poll(bool with_bell, Deadline deadline) {
  ++counts_.sleeps;
  polled_[0].fd = with_bell ? bell_.get() : -1;
  polled_[0].revents = 0;
  const int64_t begin_ns = deadline.has_passed() ? 0 : MonotonicNs();
  auto events = PollUntil(polled_, deadline);
  if (begin_ns != 0) {
    counts_.asleep_ns += static_cast<uint64_t>(MonotonicNs() - begin_ns);
  }
  for (size_t i = 0; i < participants_.size(); ++i) {
    if (events.ok() && polled_[i + 1].revents != 0) {
      participants_[i].dead = true;
    }
  }
  return events;
}

// Waits for deaths only, for a while.
absl::Status Doorbell::Pause(Deadline deadline) {
  ++counts_.pauses;
  const uint64_t doubled =
      std::min<uint64_t>(empty_in_a_row_ - kFreeEmptyWakes - 1, 4);
  const auto pause =
      absl::Milliseconds(std::min(1 << doubled, kLongestPauseMs));
  return Poll(/*with_bell=*/false, Earlier(deadline, Deadline::After(pause)))
      .status();
}

void Doorbell::Drain() {
  uint64_t count;
  iovec into = {&count, sizeof(count)};
  // A peer may have cleared O_NONBLOCK, which all duplicates share, and have
  // read the count.
  const auto got = RetryOnEintr(
      [&] { return preadv2(bell_.get(), &into, 1, -1, RWF_NOWAIT); });
  if (got >= 0 || errno != EOPNOTSUPP) return;
  RetryOnEintr([&] { return read(bell_.get(), &count, sizeof(count)); });
}

const Doorbell::Participant* Doorbell::Dead() const {
  for (const Participant& participant : participants_) {
    if (participant.dead) return &participant;
  }
  return nullptr;
}

absl::StatusOr<int> Doorbell::PollFd() {
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, what_));
  if (epoll_.valid()) return epoll_.get();
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return PosixError(errno, "epoll_create1", what_);
  for (const pollfd& polled : polled_) {
    const int fd = &polled == polled_.data() ? bell_.get() : polled.fd;
    TENON_RETURN_IF_ERROR(AddToEpoll(epoll.get(), fd, what_));
  }
  epoll_ = std::move(epoll);
  return epoll_.get();
}

absl::StatusOr<bool> Doorbell::Arm(absl::FunctionRef<bool()> ready) {
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, what_));
  return FallAsleep(ready);
}

void Doorbell::Disarm() {
  if (fork_count_ != ForkCount() || !waiter_->sleeper.asleep()) return;
  waiter_->sleeper.Awake();
  Drain();
}

absl::StatusOr<const uint64_t*> Doorbell::FindDead() {
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, what_));
  if (Dead() == nullptr) {
    TENON_RETURN_IF_ERROR(
        Poll(/*with_bell=*/false, Deadline::Passed()).status());
  }
  const Participant* dead = Dead();
  return dead == nullptr ? nullptr : &dead->id;
}

DoorbellRinger::DoorbellRinger(const SleepingWord* sleeping, UniqueFd bell)
    : sleeping_(sleeping), bell_(std::move(bell)), fork_count_(ForkCount()) {}

absl::StatusOr<DoorbellRinger> DoorbellRinger::Adopt(
    const SleepingWord* sleeping, UniqueFd bell) {
  if (!HasNoFileType(bell.get()) || !IsNonBlocking(bell.get()) ||
      !IsCounter(bell.get())) {
    return absl::InvalidArgumentError(
        "DoorbellRinger::Adopt(): the descriptor is not an eventfd with "
        "EFD_NONBLOCK");
  }
  if (fcntl(bell.get(), F_SETFD, FD_CLOEXEC) != 0) {
    return PosixError(errno, "fcntl(F_SETFD)", "a doorbell");
  }
  return DoorbellRinger(sleeping, std::move(bell));
}

// Out of line, as most publications find no sleep.
void DoorbellRinger::Wake(uint64_t sleep) {
  if (!MustRingFor(sleep, rung_for_)) return;
  if (fork_count_ != ForkCount() || !IsNonBlocking(bell_.get())) return;
  ++rings_;
  const uint64_t one = 1;
  // EAGAIN: the counter is full, so the descriptor is readable: the sleeper
  // wakes.
  RetryOnEintr([&] { return write(bell_.get(), &one, sizeof(one)); });
  TENON_CRASH_POINT("doorbell.rung");
}

}  // namespace tenon

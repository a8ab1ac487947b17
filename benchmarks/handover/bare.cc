// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/benchmarks/handover/bare.h"

#include <linux/futex.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "tenon/benchmarks/handover/works.h"
#include "tenon/benchmarks/harness/subject.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/testing/shared_object.h"

namespace tenon::benchmarks {
namespace {

// There and back by `Waker`, with work between.
template <typename Waker>
class BareWake : public Subject {
 public:
  void BeginAsking(const PidFd& peer) override { peer_ = peer.fd(); }
  void BeginAnswering(const PidFd& peer) override { peer_ = peer.fd(); }
  void Ask(int count) override {
    for (int i = 0; i < count; ++i) {
      there_.Wake();
      back_.Await(peer_);
      WorkAWhile();
    }
    count_ = count;
  }
  void Answer(int count) override {
    for (int i = 0; i < count; ++i) {
      there_.Await(peer_);
      WorkAWhile();
      back_.Wake();
    }
  }
  double CostOf(double total_ns) const override {
    return WithoutWork(total_ns, count_);
  }

 private:
  Waker there_, back_;
  int peer_ = -1;
  int count_ = 0;
};

class EventFd {
 public:
  void Wake() const {
    const uint64_t one = 1;
    TENON_CHECK(write(fd_.get(), &one, sizeof(one)) == sizeof(one), "write");
  }
  void Await(int peer) const {
    pollfd polled[] = {{fd_.get(), POLLIN, 0}, {peer, POLLIN, 0}};
    TENON_CHECK(ppoll(polled, 2, nullptr, nullptr) > 0, "ppoll");
    TENON_CHECK(polled[0].revents != 0, "the other process has ended");
    uint64_t count;
    TENON_CHECK(read(fd_.get(), &count, sizeof(count)) == sizeof(count),
                "read");
  }

 private:
  const UniqueFd fd_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

class Futex {
 public:
  void Wake() {
    StdAtomics::FetchAdd(*word_, 1, std::memory_order_seq_cst);
    Call(FUTEX_WAKE, 1, nullptr);
  }
  void Await(int /*peer*/) {
    const timespec most = {.tv_sec = 60, .tv_nsec = 0};
    while (StdAtomics::Load(*word_, std::memory_order_acquire) == seen_) {
      Call(FUTEX_WAIT, seen_, &most);
    }
    ++seen_;
  }

 private:
  void Call(int operation, uint32_t value, const timespec* most) {
    syscall(SYS_futex, word_->address(), operation, value, most, nullptr, 0);
  }

  const SharedObject<SharedWord<uint32_t>> word_;
  uint32_t seen_ = 0;
};

class BareLines : public Subject {
 public:
  void Ask(int count) override {
    for (int i = 0; i < count; ++i) {
      for (auto& word : lines_->message) {
        StdAtomics::Store(word, number_, std::memory_order_relaxed);
      }
      StdAtomics::Store(lines_->sent, ++number_, std::memory_order_release);
      Await(lines_->taken);
    }
  }
  void Answer(int count) override {
    for (int i = 0; i < count; ++i) {
      ++number_;
      Await(lines_->sent);
      StdAtomics::Store(lines_->taken, number_, std::memory_order_release);
    }
  }

 private:
  struct Lines {
    alignas(64) std::array<SharedWord<uint64_t>, 7> message;
    SharedWord<uint64_t> sent{0};
    alignas(64) SharedWord<uint64_t> taken{0};
  };

  void Await(const SharedWord<uint64_t>& word) const {
    SpinUntil([&] {
      return StdAtomics::Load(word, std::memory_order_acquire) == number_;
    });
  }

  const SharedObject<Lines> lines_;
  uint64_t number_ = 0;  // Of the last message.
};

class BareFill : public Subject {
 public:
  void Ask(int count) override {
    for (int i = 0; i < count; ++i) {
      at_ = (at_ + from_.size()) % pool_.size();
      std::memcpy(&pool_[at_], from_.data(), from_.size());
      asm volatile("" : : "r"(&pool_[at_]) : "memory");
    }
  }

 private:
  const std::vector<uint8_t> from_ = std::vector<uint8_t>(4096, 1);
  std::vector<uint8_t> pool_ = std::vector<uint8_t>(size_t{1} << 20);
  size_t at_ = 0;
};

}  // namespace

std::unique_ptr<Subject> NewBarePoll() {
  return std::make_unique<BareWake<EventFd>>();
}
std::unique_ptr<Subject> NewBareFutex() {
  return std::make_unique<BareWake<Futex>>();
}
std::unique_ptr<Subject> NewBareLines() {
  return std::make_unique<BareLines>();
}
std::unique_ptr<Subject> NewBareFill() { return std::make_unique<BareFill>(); }

}  // namespace tenon::benchmarks

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The time until all of several processes have a tensor of 4 KiB, all of them
// asleep before:
//   BM_FanOut    from the first put until `consumers` processes have claimed
//                it: by a ring, whose reader each is (ring:1), or by a queue for
//                each (ring:0). Limit: a word in shared memory, and one
//                FUTEX_WAKE of as many sleepers
//   BM_Forward   from the first put until a third process has claimed it, which
//                a second one has sent on. Limit: two wakes by futex, one after
//                the other
// Rounds of the limit and of Tenon alternate, in the same processes. Each
// consumer reads the clock when it has the tensor; the last one counts. A round
// in which a process did not sleep is discarded. Counters, medians of rounds:
//   us, limit_us, ratio
//   slept      of all rounds of Tenon, the share in which all have slept
//
// The sender runs on the first core, consumers in turns on the second and on
// the first.

#include <linux/futex.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "benchmark/benchmark.h"
#include "tenon/benchmarks/harness/subject.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/ring/ring.h"
#include "tenon/ipc/ring/ring_channel.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/arena/benchmark_support.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/must.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/two_cores.h"

namespace tenon::benchmarks {
namespace {

using A = StdAtomics;

constexpr int64_t kBytes = 4096;
constexpr size_t kMost = 8;  // Consumers.
constexpr int kRounds = 100;
// Longer than any waiter spins, so that all sleep.
constexpr useconds_t kPauseUs = 500;

// ---- What the processes share. ----

// Of one process that waits.
struct Waiter {
  alignas(64) std::atomic<uint32_t> word{0};  // Of the limit: the round.
  std::atomic<uint32_t> rounds{0};            // Ended by this process.
  std::atomic<uint64_t> slept{0};             // In the last round: 1 if it did.
  double at = 0;                              // When it had the message.
};

struct Shared {
  alignas(64) std::atomic<uint32_t> word{0};  // Of the limit, for all waiters.
  std::array<Waiter, kMost> waiters;
};

void FutexWait(std::atomic<uint32_t>& word, uint32_t value) {
  while (word.load(std::memory_order_acquire) == value) {
    syscall(SYS_futex, &word, FUTEX_WAIT, value, nullptr, nullptr, 0);
  }
}
void FutexPost(std::atomic<uint32_t>& word, int waiters) {
  word.fetch_add(1, std::memory_order_release);
  syscall(SYS_futex, &word, FUTEX_WAKE, waiters, nullptr, nullptr, 0);
}

int64_t Sleeps() {
  rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;
}

// One round of a waiter: `wait` returns when it has the message.
template <typename Wait>
void Round(Waiter& self, const Wait& wait) {
  const int64_t before = Sleeps();
  wait();
  self.at = Seconds(CLOCK_MONOTONIC);
  self.slept = Sleeps() > before ? 1 : 0;
  self.rounds.fetch_add(1, std::memory_order_release);
}

// The sender's side of a round: the time until the last of `count` waiters had
// it; nothing if one of them was awake.
template <typename Send>
std::optional<double> Microseconds(std::span<Waiter> waiters, uint32_t rounds,
                                   const Send& send) {
  usleep(kPauseUs);
  const double begin = Seconds(CLOCK_MONOTONIC);
  send();
  double end = begin;
  bool slept = true;
  for (Waiter& waiter : waiters) {
    const Deadline deadline = Deadline::After(absl::Minutes(1));
    while (waiter.rounds.load(std::memory_order_acquire) < rounds) {
      TENON_CHECK(!deadline.has_passed(), "a consumer is silent");
      usleep(20);
    }
    end = std::max(end, waiter.at);
    slept = slept && waiter.slept == 1;
  }
  if (!slept) return std::nullopt;
  return (end - begin) * 1e6;
}

// Rounds of the limit and of Tenon in turns.
class Turns {
 public:
  explicit Turns(std::span<Waiter> waiters) : waiters_(waiters) {}

  template <typename Bare, typename Ours>
  void Run(const Bare& bare, const Ours& ours) {
    if (const auto us = Microseconds(waiters_, ++rounds_, bare))
      limit_.Add(*us);
    const auto us = Microseconds(waiters_, ++rounds_, ours);
    if (us) ours_.Add(*us);
    kept_ += us.has_value();
    ++run_;
  }

  void Report(benchmark::State& state) const {
    if (ours_.empty() || limit_.empty()) {
      state.SkipWithError("no round in which all processes have slept");
      return;
    }
    state.counters["us"] = ours_.Median();
    state.counters["limit_us"] = limit_.Median();
    state.counters["ratio"] = ours_.Median() / limit_.Median();
    state.counters["slept"] = static_cast<double>(kept_) / run_;
  }

 private:
  std::span<Waiter> waiters_;
  uint32_t rounds_ = 0;
  int run_ = 0, kept_ = 0;
  Samples ours_, limit_;
};

ForkedChild Fork(const std::string& name,
                 const std::function<void(const Reporter&)>& body) {
  return Must(
      ForkedChild::Fork({.name = name, .watchdog = absl::Minutes(10)}, body));
}

// ---- To all consumers. ----

Tensor NewTensor(Arena& arena) {
  return Must(CreateTensor(arena, kDtypeOf<uint8_t>, {kBytes},
                           Deadline::After(absl::Minutes(1))));
}

// A consumer's end: returns when it has the tensor.
class QueueConsumer {
 public:
  explicit QueueConsumer(QueueHandle handle)
      : queue_(Must(TensorQueue::Open(std::move(handle)))) {}
  Tensor Get() { return Must(queue_->GetTensor(Deadline::Never())); }

 private:
  std::unique_ptr<TensorQueue> queue_;
};

class RingConsumer {
 public:
  explicit RingConsumer(Channel channel)
      : ring_(Must(JoinRing(channel, Deadline::Never()))) {
    Message offer = Must(channel.Receive(Deadline::Never()));
    Check(importer_.Accept(offer.bytes, std::move(offer.fds)));
  }
  Tensor Get() {
    ArenaTensorHandle handle;
    const auto bytes = std::as_writable_bytes(std::span(&handle, 1));
    Must(ring_->Peek(bytes, Deadline::Never()));
    Tensor tensor = Must(importer_.Claim(handle));
    Check(ring_->Advance(1));
    return tensor;
  }

 private:
  std::unique_ptr<RingReader> ring_;
  ArenaTensorImporter importer_;
};

// Ends when it is killed.
template <typename Consumer>
void Consume(Shared& shared, size_t self, const TwoCores& cores,
             Consumer consumer) {
  cores.PinTo((self + 1) % 2);
  Waiter& waiter = shared.waiters[self];
  for (uint32_t round = 0;; ++round) {
    Round(waiter, [&] { FutexWait(shared.word, round); });
    Round(waiter, [&] { benchmark::DoNotOptimize(consumer.Get()); });
  }
}

class RingSender {
 public:
  explicit RingSender(std::span<UniqueFd> sockets) {
    const Tensor first = NewTensor(*arena_);
    const ArenaOffer offer = Must(Offer(first));
    for (UniqueFd& socket : sockets) {
      Channel channel =
          Channel::AdoptReleased(std::move(socket), {.allow_sockets = true});
      Check(AddRingReader(*ring_, channel, Deadline::Never()).status());
      Check(channel.Send(offer.bytes, offer.fds, Deadline::Never()));
      channels_.push_back(std::move(channel));
    }
  }
  Tensor New() { return NewTensor(*arena_); }
  void Put(const Tensor& tensor) {
    const ArenaTensorHandle handle = Must(Describe(tensor));
    Check(ring_->Put(std::as_bytes(std::span(&handle, 1)), Deadline::Never()));
  }

 private:
  std::shared_ptr<Arena> arena_ = Must(Arena::Create({}));
  std::unique_ptr<RingProducer> ring_ =
      Must(RingProducer::Create({.record_bytes = sizeof(ArenaTensorHandle)}));
  std::vector<Channel> channels_;
};

class QueueSender {
 public:
  explicit QueueSender(std::vector<std::unique_ptr<TensorQueue>> queues)
      : queues_(std::move(queues)) {}
  Tensor New() {
    return Must(queues_[0]->CreateTensor(kDtypeOf<uint8_t>, {kBytes},
                                         Deadline::Never()));
  }
  void Put(const Tensor& tensor) {
    for (const auto& queue : queues_) {
      Check(queue->Put(tensor, Deadline::Never()));
    }
  }

 private:
  std::vector<std::unique_ptr<TensorQueue>> queues_;
};

template <typename Sender>
void MeasureFanOut(benchmark::State& state, Shared& shared, size_t consumers,
                   Sender sender) {
  Turns turns(std::span(shared.waiters).first(consumers));
  for (auto _ : state) {
    const Tensor tensor = sender.New();
    turns.Run([&] { FutexPost(shared.word, INT_MAX); },
              [&] { sender.Put(tensor); });
  }
  turns.Report(state);
}

void FanOutByRing(benchmark::State& state, const TwoCores& cores,
                  size_t consumers) {
  const SharedObject<Shared> shared;
  std::vector<UniqueFd> sockets;
  std::vector<ForkedChild> children;
  for (size_t i = 0; i < consumers; ++i) {
    auto pair = Must(Channel::CreatePair());
    sockets.push_back(pair.first.Release());
    UniqueFd theirs = pair.second.Release();
    children.push_back(Fork("consumer", [&](const Reporter&) {
      Consume(*shared, i, cores,
              RingConsumer(Channel::AdoptReleased(std::move(theirs),
                                                  {.allow_sockets = true})));
    }));
  }
  cores.PinTo(0);
  MeasureFanOut(state, *shared, consumers, RingSender(sockets));
  for (ForkedChild& child : children) child.Kill();
}

void FanOutByQueues(benchmark::State& state, const TwoCores& cores,
                    size_t consumers) {
  const SharedObject<Shared> shared;
  std::vector<std::unique_ptr<TensorQueue>> queues;
  std::vector<ForkedChild> children;
  for (size_t i = 0; i < consumers; ++i) {
    queues.push_back(Must(TensorQueue::Create()));
    QueueHandle handle = Must(queues.back()->Share());
    children.push_back(Fork("consumer", [&](const Reporter&) {
      Consume(*shared, i, cores, QueueConsumer(std::move(handle)));
    }));
  }
  cores.PinTo(0);
  MeasureFanOut(state, *shared, consumers, QueueSender(std::move(queues)));
  for (ForkedChild& child : children) child.Kill();
}

bool HasTwoCores(benchmark::State& state, const TwoCores& cores) {
  if (cores.are_there()) return true;
  state.SetLabel("not measured: there is one core");
  for (auto _ : state) {
  }
  return false;
}

void BM_FanOut(benchmark::State& state) {
  const TwoCores cores;
  if (!HasTwoCores(state, cores)) return;
  const KeepAffinity affinity;
  const auto consumers = static_cast<size_t>(state.range(0));
  state.range(1) != 0 ? FanOutByRing(state, cores, consumers)
                      : FanOutByQueues(state, cores, consumers);
}
BENCHMARK(BM_FanOut)
    ->ArgNames({"consumers", "ring"})
    ->ArgsProduct({{1, 2, 4, 8}, {0, 1}})
    ->Iterations(kRounds);

// ---- To a third process. ----

// Sends on what comes, by both ways in turns.
void ForwardAll(Shared& shared, const TwoCores& cores, QueueHandle from,
                QueueHandle to) {
  cores.PinTo(1);
  Waiter& self = shared.waiters[0];
  Waiter& next = shared.waiters[1];
  const auto in = Must(TensorQueue::Open(std::move(from)));
  const auto out = Must(TensorQueue::Open(std::move(to)));
  for (uint32_t round = 0;; ++round) {
    Round(self, [&] { FutexWait(self.word, round); });
    FutexPost(next.word, 1);
    std::optional<Tensor> tensor;
    Round(self, [&] { tensor = Must(in->GetTensor(Deadline::Never())); });
    Check(out->Put(*tensor, Deadline::Never()));
  }
}

void ReceiveForwarded(Shared& shared, const TwoCores& cores, QueueHandle from) {
  cores.PinTo(0);
  Waiter& self = shared.waiters[1];
  QueueConsumer consumer(std::move(from));
  for (uint32_t round = 0;; ++round) {
    Round(self, [&] { FutexWait(self.word, round); });
    Round(self, [&] { benchmark::DoNotOptimize(consumer.Get()); });
  }
}

void BM_Forward(benchmark::State& state) {
  const TwoCores cores;
  if (!HasTwoCores(state, cores)) return;
  const KeepAffinity affinity;
  const SharedObject<Shared> shared;
  const auto there = Must(TensorQueue::Create());
  QueueHandle first = Must(there->Share());
  const auto onward = Must(TensorQueue::Create());
  QueueHandle out = Must(onward->Share());
  QueueHandle in = Must(onward->Share());
  ForkedChild second = Fork("second", [&](const Reporter&) {
    ForwardAll(*shared, cores, std::move(first), std::move(out));
  });
  ForkedChild third = Fork("third", [&](const Reporter&) {
    ReceiveForwarded(*shared, cores, std::move(in));
  });
  cores.PinTo(0);
  Turns turns(std::span(shared->waiters).first(2));
  for (auto _ : state) {
    const Tensor tensor = Must(
        there->CreateTensor(kDtypeOf<uint8_t>, {kBytes}, Deadline::Never()));
    turns.Run([&] { FutexPost(shared->waiters[0].word, 1); },
              [&] { Check(there->Put(tensor, Deadline::Never())); });
  }
  turns.Report(state);
  third.Kill();
  second.Kill();
}
BENCHMARK(BM_Forward)->Iterations(kRounds);

}  // namespace
}  // namespace tenon::benchmarks

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The cost of tensors through a TensorQueue, each beside its limit, which is
// measured alternately in the same processes. Counters:
//   ns, limit_ns   medians, for one tensor
//   ratio          of the two
//   least_ratio    of the fastest rounds: without the machine's other work
// RoundTrip: a pooled tensor to a process that spins and sends it back, both
// times claimed and released; the limit is a cache line there and back. By
// messages it is a tensor and a number, which excludes the fast path.
// RoundTripAsleep: the same between two that do not spin; the limit is an
// eventfd there and back. Sleeps: how often the measuring process slept;
// otherwise the message arrived while it fenced before a sleep.
// Stream: new pooled tensors of 4 KiB, filled, to a process that spins; the
// limit is filling alone. ManyInOneMessage: 10,000 of 1 KiB, in a block each or
// all in one; the same limit.
// Fresh: a new segment of 4 KiB each time, with an answer, filled through its
// mapping or created from bytes; the limit is a memfd by SCM_RIGHTS, mapped at
// the other end.
// On a single core nothing is measured, and the label says so.

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "benchmark/benchmark.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/ipc/tensor_queue/raw_segments.h"
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
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/two_cores.h"

namespace tenon {
namespace {

using A = StdAtomics;

constexpr int kTurn = 512;  // Tensors, or lines, per round.

// The child's task in its next round.
enum Order : uint64_t {
  kLines,
  kEcho,
  kEchoMessage,
  kEchoAsleep,
  kBareWake,
  kTake,
  kTakeOne,
  kRaw,
  kEnd
};

struct Shared {
  alignas(64) SharedWord<uint64_t> turn{0};
  SharedWord<uint64_t> order{kLines};
  alignas(64) SharedWord<uint64_t> ping{0};
  alignas(64) SharedWord<uint64_t> pong{0};
  alignas(64) SharedWord<uint64_t> done{0};  // Rounds.
};

void Await(const SharedWord<uint64_t>& word, uint64_t value) {
  while (A::Load(word, std::memory_order_acquire) != value) A::Pause();
}

Tensor Spin(TensorQueue& queue) {
  for (;;) {
    auto got = Must(queue.TryGetTensor());
    if (got) return *std::move(got);
    A::Pause();
  }
}
// Sleeps, as each process has one core only: spinning would keep others from
// running.
Tensor SleepFor(TensorQueue& queue) {
  return Must(queue.GetTensor(Deadline::Never()));
}
TensorMessage SpinForMessage(TensorQueue& queue) {
  for (;;) {
    auto got = Must(queue.TryGet());
    if (got) return *std::move(got);
    A::Pause();
  }
}

void AwaitBare(const UniqueFd& bell) {
  uint64_t count;
  TENON_CHECK(read(bell.get(), &count, sizeof(count)) == sizeof(count), "read");
}
void RingBare(const UniqueFd& bell) {
  const uint64_t one = 1;
  TENON_CHECK(write(bell.get(), &one, sizeof(one)) == sizeof(one), "write");
}

// For the limit of the sleeping variants.
struct Bells {
  const UniqueFd there{eventfd(0, EFD_CLOEXEC)};
  const UniqueFd back{eventfd(0, EFD_CLOEXEC)};
};

// ---- The child ----

class Child {
 public:
  Child(Shared& shared, TensorQueue* there, TensorQueue* back,
        const Bells& bells, int socket)
      : shared_(shared),
        there_(*there),
        back_(*back),
        bells_(bells),
        raw_(socket) {}

  void Run() {
    for (uint64_t turn = 1;; ++turn) {
      Await(shared_.turn, turn);
      const uint64_t order = A::Load(shared_.order, std::memory_order_relaxed);
      if (order == kEnd) return;
      if (order == kTakeOne) SpinForMessage(there_);
      for (int i = 0; i < kTurn && order != kTakeOne; ++i) Step(order);
      A::Store(shared_.done, turn, std::memory_order_release);
    }
  }

 private:
  void Step(uint64_t order) {
    switch (order) {
      case kLines:
        Await(shared_.ping, ++pings_);
        return Pong();
      case kEcho:
        return Check(back_.Put(Spin(there_), Deadline::Never()));
      case kEchoMessage:
        return Check(back_.Put(SpinForMessage(there_), Deadline::Never()));
      case kEchoAsleep:
        return Check(back_.Put(SleepFor(there_), Deadline::Never()));
      case kBareWake:
        AwaitBare(bells_.there);
        return RingBare(bells_.back);
      case kTake:
        Spin(there_);
        return;
      case kRaw:
        raw_.Receive();
        ++pings_;
        return Pong();
      default:
        Abort("no such order");
    }
  }
  void Pong() { A::Store(shared_.pong, pings_, std::memory_order_release); }

  Shared& shared_;
  TensorQueue& there_;
  TensorQueue& back_;
  const Bells& bells_;
  RawSegments raw_;
  uint64_t pings_ = 0;
};

// ---- Both ----

class World {
 public:
  explicit World(const TwoCores& cores) {
    TENON_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0,
                           sockets_.data()) == 0,
                "socketpair");
    auto from = Must(there->Share());
    auto to = Must(back->Share());
    child_ = std::make_unique<ForkedChild>(Must(ForkedChild::Fork(
        {.name = "child", .watchdog = absl::Minutes(10)}, [&](const Reporter&) {
          cores.PinTo(1);
          const SecondThread second_thread;
          const auto in = Must(TensorQueue::Open(std::move(from)));
          const auto out = Must(TensorQueue::Open(std::move(to)));
          Child(*shared_, in.get(), out.get(), bells, sockets_[1]).Run();
        })));
    // Not before the fork: a child of several threads may inherit a held lock.
    second_thread_.emplace();
    cores.PinTo(0);
  }
  ~World() {
    Begin(kEnd);
    TENON_CHECK(child_->EndsWell(), "the child did not end well");
    for (const int socket : sockets_) close(socket);
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  void Begin(Order order) {
    A::Store(shared_->order, order, std::memory_order_relaxed);
    A::Store(shared_->turn, ++turn_, std::memory_order_release);
  }
  void End() { Await(shared_->done, turn_); }

  void Lines() {
    Begin(kLines);
    for (int i = 0; i < kTurn; ++i) {
      A::Store(shared_->ping, ++pings_, std::memory_order_release);
      AwaitPong();
    }
    End();
  }
  void RawSends() {
    Begin(kRaw);
    RawSegments raw(sockets_[0]);
    for (int i = 0; i < kTurn; ++i) {
      raw.Send();
      ++pings_;
      AwaitPong();
    }
    End();
  }
  Tensor NewTensor(int64_t bytes) {
    return Must(
        there->CreateTensor(kDtypeOf<uint8_t>, {bytes}, Deadline::Never()));
  }
  void Put(const Tensor& tensor) {
    Check(there->Put(tensor, Deadline::Never()));
  }

  const Bells bells;
  const std::shared_ptr<Arena> arena = Must(Arena::Create());
  const std::unique_ptr<TensorQueue> there =
      Must(TensorQueue::Create({}, {.arena = arena}));
  const std::unique_ptr<TensorQueue> back = Must(TensorQueue::Create());

 private:
  void AwaitPong() { Await(shared_->pong, pings_); }

  const SharedObject<Shared> shared_;
  std::optional<SecondThread> second_thread_;
  std::array<int, 2> sockets_ = {};
  std::unique_ptr<ForkedChild> child_;
  uint64_t turn_ = 0;
  uint64_t pings_ = 0;
};

// Alternates; `limit` and `ours` each run the measured operation `count` times.
template <typename Limit, typename Ours>
void Measure(benchmark::State& state, int count, const Limit& limit,
             const Ours& ours) {
  const KeepAffinity affinity;
  const TwoCores cores;
  if (!cores.are_there()) {
    state.SetLabel("not measured: there is one core");
    for (auto _ : state) {
    }
    return;
  }
  World world(cores);
  ours(world);
  Samples limit_ns, ours_ns;
  for (auto _ : state) {
    limit_ns.Add(Nanoseconds(CLOCK_MONOTONIC, [&] { limit(world); }) / count);
    ours_ns.Add(Nanoseconds(CLOCK_MONOTONIC, [&] { ours(world); }) / count);
  }
  state.counters["ns"] = ours_ns.Median();
  state.counters["limit_ns"] = limit_ns.Median();
  state.counters["ratio"] = ours_ns.Median() / limit_ns.Median();
  state.counters["least_ratio"] = ours_ns.Least() / limit_ns.Least();
}

void BM_RoundTrip(benchmark::State& state) {
  Measure(
      state, kTurn, [](World& world) { world.Lines(); },
      [](World& world) {
        const Tensor tensor = world.NewTensor(4096);
        world.Begin(kEcho);
        for (int i = 0; i < kTurn; ++i) {
          world.Put(tensor);
          Spin(*world.back);
        }
        world.End();
      });
}
BENCHMARK(BM_RoundTrip)->UseRealTime();

void BM_RoundTripOfMessages(benchmark::State& state) {
  Measure(
      state, kTurn, [](World& world) { world.Lines(); },
      [](World& world) {
        const TensorMessage message =
            TensorMessage(world.NewTensor(4096)).Add(7);
        world.Begin(kEchoMessage);
        for (int i = 0; i < kTurn; ++i) {
          Check(world.there->Put(message, Deadline::Never()));
          SpinForMessage(*world.back);
        }
        world.End();
      });
}
BENCHMARK(BM_RoundTripOfMessages)->UseRealTime();

void BM_RoundTripAsleep(benchmark::State& state) {
  Measure(
      state, kTurn,
      [](World& world) {
        world.Begin(kBareWake);
        for (int i = 0; i < kTurn; ++i) {
          RingBare(world.bells.there);
          AwaitBare(world.bells.back);
        }
        world.End();
      },
      [&](World& world) {
        const Tensor tensor = world.NewTensor(4096);
        world.Begin(kEchoAsleep);
        for (int i = 0; i < kTurn; ++i) {
          world.Put(tensor);
          SleepFor(*world.back);
        }
        world.End();
        state.counters["sleeps"] =
            static_cast<double>(world.back->stats().get_sleeps);
      });
}
BENCHMARK(BM_RoundTripAsleep)->UseRealTime();

// The instructions alone: both ends in one thread, so that no cache line moves.
void BM_OneThread(benchmark::State& state) {
  const SecondThread second_thread;
  const auto queue = Must(TensorQueue::Create());
  const auto other = Must(TensorQueue::Open(Must(queue->Share())));
  const Tensor tensor =
      Must(queue->CreateTensor(kDtypeOf<uint8_t>, {4096}, Deadline::Never()));
  for (auto _ : state) {
    Check(queue->Put(tensor, Deadline::Never()));
    Spin(*other);
  }
}
BENCHMARK(BM_OneThread);

void Fill(const Tensor& tensor, const std::vector<uint8_t>& from) {
  std::memcpy(Must(tensor.data<uint8_t>()).data(), from.data(), from.size());
}

// Fills as many pieces of memory, one after the other.
void FillOnly(size_t bytes, int count) {
  static auto* const memory = new std::vector<uint8_t>(size_t{1} << 20);
  const std::vector<uint8_t> from(bytes, 1);
  for (int i = 0; i < count; ++i) {
    const size_t at = static_cast<size_t>(i) * bytes % memory->size();
    std::memcpy(memory->data() + at, from.data(), bytes);
    benchmark::DoNotOptimize(memory->data()[at]);
  }
}

void BM_Stream(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0));
  const std::vector<uint8_t> from(bytes, 1);
  Measure(
      state, kTurn, [&](World&) { FillOnly(bytes, kTurn); },
      [&](World& world) {
        world.Begin(kTake);
        for (int i = 0; i < kTurn; ++i) {
          const Tensor tensor = world.NewTensor(static_cast<int64_t>(bytes));
          Fill(tensor, from);
          world.Put(tensor);
        }
        world.End();
      });
}
BENCHMARK(BM_Stream)->ArgName("bytes")->Arg(1024)->Arg(4096)->UseRealTime();

// Of 1 KiB, each in a block of its own, or all in one.
std::vector<Tensor> NewTensors(World& world, int count, bool one_block) {
  if (one_block) {
    const std::vector<TensorShape> shapes(static_cast<size_t>(count),
                                          {kDtypeOf<uint8_t>, {1024}});
    return Must(CreateTensors(*world.arena, shapes, Deadline::Never()));
  }
  std::vector<Tensor> tensors;
  tensors.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) tensors.push_back(world.NewTensor(1024));
  return tensors;
}

void BM_ManyInOneMessage(benchmark::State& state) {
  constexpr size_t kBytes = 1024;
  constexpr int kMany = 10'000;
  const bool one_block = state.range(0) != 0;
  const std::vector<uint8_t> from(kBytes, 1);
  Measure(
      state, kMany, [&](World&) { FillOnly(kBytes, kMany); },
      [&](World& world) {
        world.Begin(kTakeOne);
        TensorMessage message;
        message.Reserve(kMany);
        for (const Tensor& tensor : NewTensors(world, kMany, one_block)) {
          Fill(tensor, from);
          message.Add(tensor);
        }
        Check(world.there->Put(message, Deadline::Never()));
        world.End();
      });
}
BENCHMARK(BM_ManyInOneMessage)
    ->ArgName("one_block")
    ->Arg(0)
    ->Arg(1)
    ->UseRealTime();

Tensor FreshTensor(const std::vector<uint8_t>& from, bool from_bytes) {
  const auto bytes = static_cast<int64_t>(from.size());
  if (from_bytes) {
    return Must(Tensor::CreateSharedFrom(kDtypeOf<uint8_t>, {bytes},
                                         std::as_bytes(std::span(from))));
  }
  Tensor tensor = Must(Tensor::CreateShared(kDtypeOf<uint8_t>, {bytes}));
  Fill(tensor, from);
  return tensor;
}

void BM_Fresh(benchmark::State& state) {
  const bool from_bytes = state.range(0) != 0;
  const std::vector<uint8_t> from(4096, 1);
  Measure(
      state, kTurn, [](World& world) { world.RawSends(); },
      [&](World& world) {
        world.Begin(kTake);
        for (int i = 0; i < kTurn; ++i) {
          const Tensor tensor = FreshTensor(from, from_bytes);
          world.Put(tensor);
          while (!world.there->empty()) A::Pause();
        }
        world.End();
      });
}
BENCHMARK(BM_Fresh)->ArgName("from_bytes")->Arg(0)->Arg(1)->UseRealTime();

}  // namespace
}  // namespace tenon

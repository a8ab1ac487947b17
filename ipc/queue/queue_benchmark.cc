// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Queues between processes, alternating in the same run: one putter and one
// getter, which spin (spin) or wait as usual (one), two and two (two), and
// their limit (bare), a ring with one producer and one consumer of the same
// capacity, which spin. Items of 64 and of 16 bytes, singly and in batches.
// Counters: nanoseconds per item, and the ratios of the rates, where more is
// better; of the medians. Also the number of sleeps.

#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "benchmark/benchmark.h"
#include "tenon/ipc/queue/internal/queue_core.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/slots/bare_ring.h"
#include "tenon/shm/arena/benchmark_support.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"

namespace tenon {
namespace {

using A = StdAtomics;
using Word = SharedWord<uint64_t>;

constexpr uint64_t kItems = 1 << 16;  // Per round.
constexpr size_t kPutters = 2, kGetters = 2;
constexpr uint64_t kEnd = ~uint64_t{0};  // A putter's last item.

// An item of `bytes` bytes; the first word of a putter's last one is kEnd.
template <size_t bytes>
using ItemOf = std::array<uint64_t, bytes / sizeof(uint64_t)>;

template <typename Item>
std::unique_ptr<QueueCore> OpenQueue(QueueHandle handle) {
  auto queue =
      QueueCore::Open(std::move(handle), QueueType::kItems, sizeof(Item));
  TENON_CHECK(queue.ok(), "cannot open the queue");
  return *std::move(queue);
}

enum class Mode : uint64_t { kBare, kSpin, kOneAndOne, kTwoAndTwo };
constexpr uint64_t kModes = 4;

template <typename Item>
struct Shared {
  BareRing<Item> bare;
  // The number of a round, times kModes, plus its mode.
  alignas(64) Word go{0};
  alignas(64) Word ended{0};  // Processes that have ended a round, in all.
  alignas(64) Word sleeps{0};
};

// ---- The bare ring ----

template <typename Item>
void BarePut(BareRing<Item>& ring, const Item& item) {
  uint64_t known_tail = A::Load(ring.tail, std::memory_order_acquire);
  for (uint64_t i = 0; i < kItems; ++i) ring.Put(item, known_tail);
}

template <typename Item>
void BareGet(BareRing<Item>& ring, Item& item) {
  uint64_t known_head = A::Load(ring.head, std::memory_order_acquire);
  for (uint64_t i = 0; i < kItems; ++i) {
    ring.Get(item, known_head);
    benchmark::DoNotOptimize(item);
  }
}

// ---- The queue ----

Deadline Soon() { return Deadline::After(absl::Minutes(2)); }

absl::Status PutSome(QueueCore& queue, std::span<const std::byte> items,
                     Deadline deadline, bool spins) {
  if (!spins) return queue.Put(items, deadline);
  for (;;) {
    TENON_ASSIGN_OR_RETURN(const bool put, queue.TryPut(items));
    if (put) return absl::OkStatus();
    A::Pause();
  }
}

template <typename Item>
absl::Status PutAll(QueueCore& queue, uint64_t count, size_t batch,
                    bool spins) {
  const std::vector<Item> items(batch);
  const Item last = {kEnd};
  const auto bytes = std::as_bytes(std::span(items));
  const Deadline deadline = Soon();
  for (uint64_t i = 0; i < count; i += batch) {
    TENON_RETURN_IF_ERROR(PutSome(queue, bytes, deadline, spins));
  }
  return PutSome(queue, std::as_bytes(std::span(last)), deadline, spins);
}

// Until the end of a putter; each getter receives one such end.
template <typename Item>
absl::Status GetAll(QueueCore& queue, size_t batch, bool spins) {
  std::vector<Item> items(batch);
  const auto out = std::as_writable_bytes(std::span(items));
  const Deadline deadline = Soon();
  for (;;) {
    TENON_ASSIGN_OR_RETURN(
        const size_t got, spins ? queue.TryGet(out) : queue.Get(out, deadline));
    if (got == 0) A::Pause();
    for (size_t i = 0; i < got; ++i) {
      if (items[i][0] == kEnd) return absl::OkStatus();
    }
  }
}

// ---- The processes ----

template <typename Item>
class Crew {
 public:
  Crew(QueueCore& queue, size_t batch) : batch_(batch) {
    for (size_t i = 0; i < kPutters + kGetters; ++i) {
      QueueHandle handle = queue.Share().value();
      auto child = ForkedChild::Fork(
          {.name = "peer", .watchdog = absl::Minutes(5)},
          [&](const Reporter&) { Play(std::move(handle), i); });
      TENON_CHECK(child.ok(), "cannot fork");
      children_.push_back(*std::move(child));
    }
  }
  ~Crew() {
    for (ForkedChild& child : children_) child.Kill();
  }

  void Turn(Mode mode) {
    const uint64_t players = mode == Mode::kTwoAndTwo ? 4 : 2;
    const uint64_t until =
        A::Load(shared_->ended, std::memory_order_acquire) + players;
    A::Store(shared_->go, ++turn_ * kModes + static_cast<uint64_t>(mode),
             std::memory_order_release);
    while (A::Load(shared_->ended, std::memory_order_acquire) < until) {
      usleep(50);
    }
  }
  uint64_t sleeps() const {
    return A::Load(shared_->sleeps, std::memory_order_relaxed);
  }

 private:
  void Play(QueueHandle handle, size_t i) {
    const bool puts = i < kPutters;
    const size_t rank = puts ? i : i - kPutters;
    PinToCore(static_cast<int>(puts ? rank : 1 - rank));
    const auto queue = OpenQueue<Item>(std::move(handle));
    Item item = {};
    for (uint64_t last = 0;;) {
      const uint64_t go = A::Load(shared_->go, std::memory_order_acquire);
      if (go == last) {
        usleep(20);
        continue;
      }
      last = go;
      const Mode mode = static_cast<Mode>(go % kModes);
      if (mode != Mode::kTwoAndTwo && rank != 0) continue;
      if (mode == Mode::kBare) {
        puts ? BarePut(shared_->bare, item) : BareGet(shared_->bare, item);
      } else {
        const uint64_t share = mode == Mode::kTwoAndTwo ? kItems / 2 : kItems;
        const bool spins = mode == Mode::kSpin;
        const absl::Status played =
            puts ? PutAll<Item>(*queue, share, batch_, spins)
                 : GetAll<Item>(*queue, batch_, spins);
        TENON_CHECK(played.ok(), "the queue failed");
      }
      const QueueStats stats = queue->stats();
      const uint64_t sleeps = stats.get_sleeps + stats.put_sleeps;
      A::FetchAdd(shared_->sleeps, sleeps - slept_, std::memory_order_relaxed);
      slept_ = sleeps;
      A::FetchAdd(shared_->ended, 1, std::memory_order_acq_rel);
    }
  }

  const size_t batch_;
  SharedObject<Shared<Item>> shared_;
  std::vector<ForkedChild> children_;
  uint64_t turn_ = 0;
  uint64_t slept_ = 0;
};

template <typename Item>
absl::Status Measure(benchmark::State& state) {
  const auto batch = static_cast<size_t>(state.range(0));
  TENON_ASSIGN_OR_RETURN(
      const auto queue,
      QueueCore::Create(
          QueueType::kItems, sizeof(Item),
          {.name = "benchmark", .capacity = BareRing<Item>::kCapacity}));
  Crew<Item> crew(*queue, batch);
  std::array<Samples, kModes> ns;
  std::array<uint64_t, kModes> sleeps = {};
  uint64_t turns = 0;
  for (auto _ : state) {
    for (const Mode mode :
         {Mode::kBare, Mode::kSpin, Mode::kOneAndOne, Mode::kTwoAndTwo}) {
      const auto i = static_cast<size_t>(mode);
      const uint64_t before = crew.sleeps();
      ns[i].Add(Nanoseconds(CLOCK_MONOTONIC, [&] { crew.Turn(mode); }) /
                kItems);
      sleeps[i] += crew.sleeps() - before;
    }
    ++turns;
  }
  const double bare = ns[0].Median(), spin = ns[1].Median(),
               one = ns[2].Median(), two = ns[3].Median();
  state.counters["bare_ns"] = bare;
  state.counters["one_ns"] = one;
  state.counters["two_ns"] = two;
  state.counters["spin_ns"] = spin;
  state.counters["spin_to_bare"] = bare / spin;
  state.counters["two_to_one"] = one / two;
  const double per_thousand = 1000.0 / static_cast<double>(turns * kItems);
  state.counters["one_sleeps_per_1000"] =
      static_cast<double>(sleeps[2]) * per_thousand;
  state.counters["two_sleeps_per_1000"] =
      static_cast<double>(sleeps[3]) * per_thousand;
  return absl::OkStatus();
}

void BM_Queue(benchmark::State& state) {
  if (sysconf(_SC_NPROCESSORS_ONLN) < 2) {
    state.SetLabel("not measured: there is one core");
    for (auto _ : state) {
    }
    return;
  }
  const absl::Status status = state.range(1) == 64 ? Measure<ItemOf<64>>(state)
                                                   : Measure<ItemOf<16>>(state);
  if (!status.ok()) state.SkipWithError(status.ToString().c_str());
}
BENCHMARK(BM_Queue)
    ->ArgNames({"batch", "bytes"})
    ->ArgsProduct({{1, 8, 64}, {64, 16}})
    ->Iterations(8);

}  // namespace
}  // namespace tenon

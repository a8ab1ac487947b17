// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Rings between processes beside their limits, alternating in the same run:
//   BM_Stream      records of 64 bytes, both ends spinning, singly and in
//                  batches, against a bare ring with one producer and one
//                  reader, of the same capacity, in plain shared memory
//   BM_Wake        a round trip between two sleepers, against one of bare
//                  eventfds
//   BM_Broadcast   the sender's cost of a record with 1 and with 4 readers,
//                  which share the available cores; CPU time
// Counters: ns (or us), limit, ratio: of the medians. For the ratio of
// BM_Stream more is better: it is of rates.

#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "benchmark/benchmark.h"
#include "tenon/ipc/ring/ring.h"
#include "tenon/ipc/ring/ring_offer.h"
#include "tenon/ipc/ring/ring_testing.h"
#include "tenon/ipc/slots/bare_ring.h"
#include "tenon/shm/arena/benchmark_support.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/kill/peer.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"

namespace tenon {
namespace {

using A = StdAtomics;
using Word = SharedWord<uint64_t>;

constexpr uint64_t kCapacity = BareRing<Record>::kCapacity;
constexpr uint64_t kRecords = 1 << 16;  // Per round, of each.
constexpr int kTurns = 64;              // More than a run has.

// --- Two cores. ---

int Cores() {
  cpu_set_t all;
  CPU_ZERO(&all);
  return sched_getaffinity(0, sizeof(all), &all) == 0 ? CPU_COUNT(&all) : 1;
}

struct Shared {
  BareRing<Record> bare;
  RingBoard board;
  alignas(64) Word go{0};    // Rounds that the sender has begun.
  alignas(64) Word done{0};  // Rounds that the reader has ended.
};

void AwaitAtLeast(const Word& word, uint64_t least) {
  for (uint64_t turn = 1; A::Load(word, std::memory_order_acquire) < least;
       ++turn) {
    A::Pause();
    if (turn % (1 << 16) == 0) usleep(50);
  }
}

// --- Both ends of a stream. ---

void StreamIn(RingReader& reader, Shared& shared, size_t batch) {
  std::vector<Record> records(batch);
  const auto out = std::as_writable_bytes(std::span(records));
  uint64_t known_head = 0;
  for (uint64_t turn = 1; turn <= kTurns; ++turn) {
    AwaitAtLeast(shared.go, 2 * turn - 1);
    for (uint64_t i = 0; i < kRecords; ++i) {
      shared.bare.Get(records[0], known_head);
      benchmark::DoNotOptimize(records[0]);
    }
    A::Store(shared.done, 2 * turn - 1, std::memory_order_release);
    for (uint64_t got = 0; got < kRecords;) {
      const auto some = reader.TryGet(out);
      if (!some.ok()) return;
      if (*some == 0) A::Pause();
      got += *some;
      benchmark::DoNotOptimize(records[0]);
    }
    A::Store(shared.done, 2 * turn, std::memory_order_release);
  }
}

class Stream {
 public:
  Stream(RingProducer& ring, Shared& shared, size_t batch)
      : ring_(ring), shared_(shared), records_(batch) {
    for (size_t i = 0; i < batch; ++i) records_[i] = MakeRecord(i);
  }

  void Bare() {
    A::Store(shared_.go, ++turn_, std::memory_order_release);
    for (uint64_t i = 0; i < kRecords; ++i) {
      shared_.bare.Put(records_[0], known_tail_);
    }
    AwaitAtLeast(shared_.done, turn_);
  }

  void Ours() {
    A::Store(shared_.go, ++turn_, std::memory_order_release);
    const auto bytes = std::as_bytes(std::span(records_));
    for (uint64_t i = 0; i < kRecords; i += records_.size()) {
      for (;;) {
        const auto put = ring_.TryPut(bytes);
        TENON_CHECK(put.ok(), "the reader is gone");
        if (*put) break;
        A::Pause();
      }
    }
    AwaitAtLeast(shared_.done, turn_);
  }

  bool more() const { return turn_ / 2 < kTurns; }

 private:
  RingProducer& ring_;
  Shared& shared_;
  std::vector<Record> records_;
  uint64_t known_tail_ = 0;
  uint64_t turn_ = 0;
};

// --- A ring of this process with readers in others. ---

struct Readers {
  std::vector<ForkedChild> children;
};

// Forks `count` processes, which run `read`, pinned to the second core.
absl::StatusOr<Readers> ForkReaders(
    RingProducer& ring, std::vector<RingBoard*> boards,
    const std::function<void(RingReader&)>& read) {
  Readers readers;
  for (RingBoard* board : boards) {
    TENON_ASSIGN_OR_RETURN(std::vector<Peer> peers,
                           MakePeers({"sender", "reader"}, PeerMode::kProcesses,
                                     Deadline::After(absl::Minutes(5))));
    TENON_ASSIGN_OR_RETURN(
        ForkedChild child,
        ForkedChild::Fork({.name = "reader", .watchdog = absl::Minutes(5)},
                          [&](const Reporter& reporter) {
                            Peer self = std::move(peers[1]);
                            peers.clear();
                            PinToCore(1);
                            auto reader = Join(self, "sender", *board);
                            if (!reader.ok()) {
                              return reporter.Fail(reader.status().ToString());
                            }
                            read(**reader);
                          }));
    Peer self = std::move(peers[0]);
    peers.clear();
    TENON_RETURN_IF_ERROR(LetIn(self, "reader", *board, ring).status());
    readers.children.push_back(std::move(child));
  }
  return readers;
}

bool NeedsTwoCores(benchmark::State& state) {
  if (Cores() >= 2) return true;
  state.SetLabel("not measured: there is one core");
  for (auto _ : state) {
  }
  return false;
}

absl::Status MeasureStream(benchmark::State& state) {
  const auto batch = static_cast<size_t>(state.range(0));
  const SharedObject<Shared> shared;
  TENON_ASSIGN_OR_RETURN(const auto ring,
                         RingProducer::Create({.capacity = kCapacity}));
  TENON_ASSIGN_OR_RETURN(
      Readers readers,
      ForkReaders(*ring, {&shared->board}, [&](RingReader& reader) {
        StreamIn(reader, *shared, batch);
      }));
  PinToCore(0);
  Stream stream(*ring, *shared, batch);
  Samples bare_ns, our_ns;
  for (auto _ : state) {
    if (!stream.more()) continue;
    bare_ns.Add(Nanoseconds(CLOCK_MONOTONIC, [&] { stream.Bare(); }) /
                kRecords);
    our_ns.Add(Nanoseconds(CLOCK_MONOTONIC, [&] { stream.Ours(); }) / kRecords);
  }
  state.counters["ns"] = our_ns.Median();
  state.counters["limit_ns"] = bare_ns.Median();
  state.counters["rate_ratio"] = bare_ns.Median() / our_ns.Median();
  state.counters["best_rate_ratio"] = bare_ns.Least() / our_ns.Least();
  for (ForkedChild& child : readers.children) child.Kill();
  return absl::OkStatus();
}

void BM_Stream(benchmark::State& state) {
  if (!NeedsTwoCores(state)) return;
  cpu_set_t before;
  sched_getaffinity(0, sizeof(before), &before);
  const absl::Status status = MeasureStream(state);
  sched_setaffinity(0, sizeof(before), &before);
  if (!status.ok()) state.SkipWithError(status.ToString().c_str());
}
BENCHMARK(BM_Stream)->ArgName("batch")->Arg(1)->Arg(8)->Arg(64)->Iterations(32);

// --- Two sleepers. ---

constexpr int kWakes = 256;  // Per round.

struct WakeWorld {
  RingBoard there, back;
};

void AwaitBare(int fd) {
  uint64_t count;
  TENON_CHECK(read(fd, &count, sizeof(count)) == sizeof(count), "read");
}
void RingBare(int fd) {
  const uint64_t one = 1;
  TENON_CHECK(write(fd, &one, sizeof(one)) == sizeof(one), "write");
}

// Sleeps before the other end continues: neither may find the other spinning.
absl::Status Bounce(RingProducer& out, RingReader& in, bool first) {
  Record record = {};
  const Deadline deadline = Deadline::After(absl::Seconds(60));
  for (int i = 0; i < kWakes; ++i) {
    if (first) TENON_RETURN_IF_ERROR(out.Put(BytesOf(record), deadline));
    TENON_RETURN_IF_ERROR(in.Get(BytesOf(record), deadline).status());
    if (!first) TENON_RETURN_IF_ERROR(out.Put(BytesOf(record), deadline));
  }
  return absl::OkStatus();
}

void BounceBare(int there, int back, bool first) {
  for (int i = 0; i < kWakes; ++i) {
    if (first) RingBare(there);
    AwaitBare(back);
    if (!first) RingBare(there);
  }
}

// The answering end: rounds of the limit and of ours.
absl::Status Answer(Peer& self, WakeWorld& world, int there, int back) {
  TENON_ASSIGN_OR_RETURN(const auto in, Join(self, "sender", world.there));
  TENON_ASSIGN_OR_RETURN(const auto out, RingProducer::Create({}));
  TENON_RETURN_IF_ERROR(LetIn(self, "sender", world.back, *out).status());
  for (;;) {
    BounceBare(back, there, /*first=*/false);
    TENON_RETURN_IF_ERROR(Bounce(*out, *in, /*first=*/false));
  }
}

absl::Status MeasureWake(benchmark::State& state) {
  const SharedObject<WakeWorld> world;
  const UniqueFd there(eventfd(0, EFD_CLOEXEC));
  const UniqueFd back(eventfd(0, EFD_CLOEXEC));
  TENON_ASSIGN_OR_RETURN(std::vector<Peer> peers,
                         MakePeers({"sender", "answerer"}, PeerMode::kProcesses,
                                   Deadline::After(absl::Minutes(5))));
  TENON_ASSIGN_OR_RETURN(
      ForkedChild child,
      ForkedChild::Fork(
          {.name = "answerer", .watchdog = absl::Minutes(5)},
          [&](const Reporter&) {
            Peer self = std::move(peers[1]);
            peers.clear();
            PinToCore(1);
            Answer(self, *world, there.get(), back.get()).IgnoreError();
          }));
  Peer self = std::move(peers[0]);
  peers.clear();
  PinToCore(0);
  TENON_ASSIGN_OR_RETURN(const auto out, RingProducer::Create({}));
  TENON_RETURN_IF_ERROR(LetIn(self, "answerer", world->there, *out).status());
  TENON_ASSIGN_OR_RETURN(const auto in, Join(self, "answerer", world->back));
  Samples bare_us, our_us;
  absl::Status status;
  for (auto _ : state) {
    bare_us.Add(
        Nanoseconds(
            CLOCK_MONOTONIC,
            [&] { BounceBare(there.get(), back.get(), /*first=*/true); }) /
        kWakes / 1000);
    our_us.Add(
        Nanoseconds(CLOCK_MONOTONIC,
                    [&] { status.Update(Bounce(*out, *in, /*first=*/true)); }) /
        kWakes / 1000);
    if (!status.ok()) return status;
  }
  state.counters["us"] = our_us.Median();
  state.counters["limit_us"] = bare_us.Median();
  state.counters["ratio"] = our_us.Median() / bare_us.Median();
  state.counters["sleeps"] = static_cast<double>(in->stats().sleeps);
  state.counters["spins_won"] = static_cast<double>(in->stats().spins_won);
  child.Kill();
  return absl::OkStatus();
}

void BM_Wake(benchmark::State& state) {
  if (!NeedsTwoCores(state)) return;
  cpu_set_t before;
  sched_getaffinity(0, sizeof(before), &before);
  const absl::Status status = MeasureWake(state);
  sched_setaffinity(0, sizeof(before), &before);
  if (!status.ok()) state.SkipWithError(status.ToString().c_str());
}
BENCHMARK(BM_Wake)->Iterations(24);

// --- One sender, several readers. ---

constexpr uint64_t kFill = kCapacity;  // Records put at once.

// The sender's cost of a full ring, when all readers have read all of it. The
// median of many, in nanoseconds of CPU time per record.
absl::StatusOr<double> SenderCost(size_t readers, int turns) {
  struct Boards {
    std::array<RingBoard, 4> boards;
  };
  const SharedObject<Boards> boards;
  TENON_ASSIGN_OR_RETURN(const auto ring,
                         RingProducer::Create({.capacity = kCapacity}));
  std::vector<RingBoard*> used;
  for (size_t i = 0; i < readers; ++i) used.push_back(&boards->boards[i]);
  TENON_ASSIGN_OR_RETURN(
      Readers children, ForkReaders(*ring, used, [](RingReader& reader) {
        std::vector<Record> records(64);
        const auto out = std::as_writable_bytes(std::span(records));
        while (reader.Get(out, Deadline::Never()).ok()) {
        }
      }));
  Samples ns;
  const Record record = MakeRecord(1);
  for (int turn = 0; turn < turns; ++turn) {
    while (ring->acknowledged() != ring->put()) usleep(20);
    usleep(200);  // They sleep; the first record wakes all of them.
    absl::Status status;
    status.Update(ring->TryPut(BytesOf(record)).status());
    while (ring->acknowledged() != ring->put()) {
    }
    const double took = Nanoseconds(CLOCK_THREAD_CPUTIME_ID, [&] {
      for (uint64_t i = 0; i < kFill; ++i) {
        status.Update(ring->TryPut(BytesOf(record)).status());
      }
    });
    if (!status.ok()) return status;
    ns.Add(took / kFill);
  }
  for (ForkedChild& child : children.children) child.Kill();
  return ns.Median();
}

void BM_Broadcast(benchmark::State& state) {
  if (!NeedsTwoCores(state)) return;
  cpu_set_t before;
  sched_getaffinity(0, sizeof(before), &before);
  for (auto _ : state) {
    const auto one = SenderCost(1, 200);
    const auto four = SenderCost(4, 200);
    if (!one.ok() || !four.ok()) {
      state.SkipWithError((one.ok() ? four : one).status().ToString().c_str());
      break;
    }
    state.counters["limit_ns"] = *one;
    state.counters["ns"] = *four;
    state.counters["ratio"] = *four / *one;
  }
  sched_setaffinity(0, sizeof(before), &before);
}
BENCHMARK(BM_Broadcast)->Iterations(1);

}  // namespace
}  // namespace tenon

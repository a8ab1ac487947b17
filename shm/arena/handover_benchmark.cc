// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The cost of a handover of a block to another process that spins: allocated,
// described, sent through a slot of shared memory, claimed there, acknowledged,
// released here, released there. The arena's quota allows few blocks, so that
// each allocated block has been reclaimed before. The bytes of the blocks are
// not accessed.
//
// The limit is the round trip of a bare cache line between the same two
// processes, on the same two cores, over the same two lines, alternating with
// it in the same loop. With `depth` 1 each block waits for its acknowledgement:
// a round trip, too. With more, blocks are in flight together. Counters, for
// one block:
//   ns, limit_ns       medians
//   ratio              of the medians
//   least_ratio        of the fastest iterations: without other load
//   failed             share of the owner's tests of blocks that found one held
//                      or moving: its latest may not have been released yet
// Where there is only one core, nothing is measured, and the label says so.

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "benchmark/benchmark.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/attached_arena.h"
#include "tenon/shm/arena/benchmark_support.h"
#include "tenon/shm/arena/block_descriptor.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/two_cores.h"

namespace tenon {
namespace {

constexpr uint64_t kRoundTrips = 512;  // Of each, per iteration.
constexpr uint64_t kMaxDepth = 64;
constexpr size_t kBlockBytes = 4096;
constexpr size_t kBlocks = 128;  // In the arena.
constexpr uint64_t kStop = ~uint64_t{0};

using Word = SharedWord<uint64_t>;
using A = StdAtomics;

// Each line has one writer. The words of the limit are in the lines of the
// first slot and of the acknowledgement: the latency of a line depends on its
// home in the machine.
struct Shared {
  struct alignas(64) Slot {
    BlockDescriptor message;
    Word sent{0};  // Counts from 1 on.
    Word ping{0};  // Only the first slot's is used.
  };
  struct alignas(64) Answer {
    Word acknowledged{0};
    Word pong{0};
  };
  static_assert(sizeof(Slot) == 64);

  Word& ping() { return slots[0].ping; }

  std::array<Slot, kMaxDepth> slots;
  Answer answer;
};

// Waits until `word` is not less than `least`; returns its value. The receiver
// dies with its owner; the owner checks whether the receiver has ended.
uint64_t Await(const Word& word, uint64_t least,
               const PidFd* writer = nullptr) {
  for (uint64_t turn = 1;; ++turn) {
    const uint64_t now = A::Load(word, std::memory_order_acquire);
    if (now >= least) return now;
    A::Pause();
    constexpr uint64_t kTurnsBetweenLooks = uint64_t{1} << 20;
    if (writer != nullptr && turn % kTurnsBetweenLooks == 0) {
      TENON_CHECK(!writer->HasEnded(), "the receiver has ended");
    }
  }
}

// --- The receiver. ---

absl::Status ReceiveOne(AttachedArena& arena, Shared& shared, uint64_t i,
                        uint64_t depth) {
  const Shared::Slot& slot = shared.slots[(i - 1) % depth];
  Await(slot.sent, i);
  const BlockDescriptor message = slot.message;  // Copied before it is checked.
  TENON_ASSIGN_OR_RETURN(const Hold hold, arena.Claim(message));
  A::Store(shared.answer.acknowledged, i, std::memory_order_release);
  return absl::OkStatus();
}

absl::Status Serve(const ArenaOffer& offer, Shared& shared, uint64_t depth) {
  const SecondThread second_thread;
  TENON_ASSIGN_OR_RETURN(const auto arena, AttachTo(offer));
  A::Store(shared.answer.pong, 1, std::memory_order_release);
  for (uint64_t i = 2, block = 1;;) {
    for (uint64_t n = 0; n < kRoundTrips; ++n, ++i) {
      if (Await(shared.ping(), i) == kStop) return absl::OkStatus();
      A::Store(shared.answer.pong, i, std::memory_order_release);
    }
    for (uint64_t n = 0; n < kRoundTrips; ++n, ++block) {
      TENON_RETURN_IF_ERROR(ReceiveOne(*arena, shared, block, depth));
    }
  }
}

// --- The owner. ---

// An iteration of both. Errors: Arena::Allocate()'s and Block::Describe()'s.
class Owner {
 public:
  Owner(Arena& arena, Shared& shared, const PidFd& receiver, uint64_t depth)
      : arena_(arena),
        shared_(shared),
        receiver_(receiver),
        depth_(depth),
        in_flight_(depth) {}

  void PingPong() {
    for (uint64_t n = 0; n < kRoundTrips; ++n) {
      A::Store(shared_.ping(), ++pings_, std::memory_order_release);
      Await(shared_.answer.pong, pings_, &receiver_);
    }
  }

  absl::Status HandOver() {
    const Deadline deadline = Deadline::After(absl::Seconds(30));
    for (uint64_t n = 0; n < kRoundTrips; ++n) {
      TENON_ASSIGN_OR_RETURN(Block block,
                             arena_.Allocate(kBlockBytes, deadline));
      TENON_ASSIGN_OR_RETURN(const BlockDescriptor message, block.Describe());
      if (sent_ - released_ == depth_) ReleaseUpTo(released_ + 1);
      ++sent_;
      in_flight_[(sent_ - 1) % depth_] = std::move(block);
      Shared::Slot& slot = shared_.slots[(sent_ - 1) % depth_];
      slot.message = message;
      A::Store(slot.sent, sent_, std::memory_order_release);
      if (depth_ == 1) ReleaseUpTo(sent_);
    }
    ReleaseUpTo(sent_);
    return absl::OkStatus();
  }

 private:
  // Releases the acknowledged blocks, once `least` are acknowledged.
  void ReleaseUpTo(uint64_t least) {
    const uint64_t until =
        Await(shared_.answer.acknowledged, least, &receiver_);
    while (released_ < until) in_flight_[released_++ % depth_].Reset();
  }

  Arena& arena_;
  Shared& shared_;
  const PidFd& receiver_;
  const uint64_t depth_;
  std::vector<Block> in_flight_;
  uint64_t pings_ = 1;
  uint64_t sent_ = 0;
  uint64_t released_ = 0;
};

// --- Both. ---

absl::StatusOr<std::shared_ptr<Arena>> MakeArena() {
  ArenaOptions options;
  options.quota_bytes = kBlocks * kBlockBytes;
  options.segment_bytes = options.quota_bytes;
  return Arena::Create(options);
}

struct Times {
  Samples ping_pong_ns, handover_ns;
};

absl::StatusOr<ForkedChild> StartReceiver(Arena& arena, const TwoCores& cores,
                                          Shared& shared, uint64_t depth) {
  TENON_ASSIGN_OR_RETURN(const Block block, arena.TryAllocate(kBlockBytes));
  TENON_ASSIGN_OR_RETURN(const ArenaOffer offer, arena.Offer(block));
  TENON_ASSIGN_OR_RETURN(
      ForkedChild child,
      ForkedChild::Fork({.name = "receiver", .watchdog = absl::Minutes(10)},
                        [&](const Reporter& reporter) {
                          cores.PinTo(1);
                          const absl::Status end = Serve(offer, shared, depth);
                          if (!end.ok()) reporter.Fail(end.ToString());
                        }));
  while (A::Load(shared.answer.pong, std::memory_order_acquire) == 0) {
    if (child.pid_fd().HasEnded()) {
      return absl::InternalError(child.EndsWell().message());
    }
    usleep(1000);
  }
  return child;
}

absl::Status Measure(benchmark::State& state, const TwoCores& cores,
                     Times& times) {
  const auto depth = static_cast<uint64_t>(state.range(0));
  const SharedObject<Shared> shared;
  TENON_ASSIGN_OR_RETURN(const auto arena, MakeArena());
  TENON_ASSIGN_OR_RETURN(ForkedChild child,
                         StartReceiver(*arena, cores, *shared, depth));
  const SecondThread second_thread;
  cores.PinTo(0);
  Owner owner(*arena, *shared, child.pid_fd(), depth);
  absl::Status status;
  for (auto _ : state) {
    times.ping_pong_ns.Add(
        Nanoseconds(CLOCK_MONOTONIC, [&] { owner.PingPong(); }) / kRoundTrips);
    times.handover_ns.Add(
        Nanoseconds(CLOCK_MONOTONIC, [&] { status.Update(owner.HandOver()); }) /
        kRoundTrips);
    if (!status.ok()) return status;
  }
  A::Store(shared->ping(), kStop, std::memory_order_release);
  const ArenaUse use = arena->Use();
  state.counters["failed"] =
      use.tests == 0
          ? 0
          : static_cast<double>(use.failures) / static_cast<double>(use.tests);
  if (const auto end = child.EndsWell(); !end) {
    return absl::InternalError(end.message());
  }
  return absl::OkStatus();
}

void BM_Handover(benchmark::State& state) {
  const KeepAffinity affinity;
  const TwoCores cores;
  if (!cores.are_there()) {
    state.SetLabel("not measured: there is one core");
    for (auto _ : state) {
    }
    return;
  }
  Times times;
  if (const absl::Status status = Measure(state, cores, times); !status.ok()) {
    return state.SkipWithError(status.ToString().c_str());
  }
  const double ns = times.handover_ns.Median();
  const double limit_ns = times.ping_pong_ns.Median();
  state.counters["ns"] = ns;
  state.counters["limit_ns"] = limit_ns;
  state.counters["ratio"] = ns / limit_ns;
  state.counters["least_ratio"] =
      times.handover_ns.Least() / times.ping_pong_ns.Least();
}
BENCHMARK(BM_Handover)->ArgName("depth")->Arg(1)->Arg(8)->Arg(64);

}  // namespace
}  // namespace tenon

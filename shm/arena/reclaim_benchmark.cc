// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The cost of reclaiming 64 blocks that were described and have no holder.
//
// BM_Reclaim_Columns: by the number of attached processes; here one process
// attached that many times, each time with separate cells. Alternates with the
// limit of a test that may not rely on earlier reads: four calls of recvmsg()
// on an empty socket, and four passes over the 64 cells of each column.
// Counters, medians, for one block:
//   ns, limit_ns, ratio
//
// BM_Reclaim_WhileOthersStream: while the given number of processes claim and
// release other blocks of the same segment, without a pause.
//   failed               share of the tests that did not find a block free
//   claims_per_test      of the others meanwhile
//   ns                   median, for one block; processor time

#include <sys/socket.h>
#include <unistd.h>

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
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"

namespace tenon {
namespace {

constexpr size_t kCandidates = 64;  // The size of a batch of reclaiming.
constexpr size_t kBlockBytes = 1024;

using Word = SharedWord<uint64_t>;
using A = StdAtomics;

// Its quota is `blocks` blocks: allocating one more reclaims some.
absl::StatusOr<std::shared_ptr<Arena>> MakeArena(size_t blocks) {
  ArenaOptions options;
  options.quota_bytes = blocks * kBlockBytes;
  options.segment_bytes = options.quota_bytes;
  return Arena::Create(options);
}

absl::StatusOr<std::vector<Block>> AllocateDescribed(Arena& arena,
                                                     size_t count) {
  std::vector<Block> blocks;
  for (size_t i = 0; i < count; ++i) {
    TENON_ASSIGN_OR_RETURN(Block block, arena.TryAllocate(kBlockBytes));
    TENON_RETURN_IF_ERROR(block.Describe().status());
    blocks.push_back(std::move(block));
  }
  return blocks;
}

// Releases a batch of described blocks, all of the arena's, and returns the
// time to reclaim them and allocate one.
absl::StatusOr<double> ReclaimNs(Arena& arena) {
  {
    TENON_ASSIGN_OR_RETURN(const auto blocks,
                           AllocateDescribed(arena, kCandidates));
  }
  absl::StatusOr<Block> block;
  const double ns = Nanoseconds(
      CLOCK_THREAD_CPUTIME_ID, [&] { block = arena.TryAllocate(kBlockBytes); });
  TENON_RETURN_IF_ERROR(block.status());
  return ns / kCandidates;
}

// --- The limit. ---

class Sockets {
 public:
  Sockets() : made_(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends_) == 0) {
    if (!made_) return;
    for (size_t i = 0; i < 2; ++i) fds_[i] = UniqueFd(ends_[i]);
  }
  bool made() const { return made_; }
  void ReceiveNothing() {
    char byte;
    iovec bytes = {&byte, 1};
    msghdr header = {};
    header.msg_iov = &bytes;
    header.msg_iovlen = 1;
    benchmark::DoNotOptimize(
        recvmsg(fds_[0].get(), &header, MSG_PEEK | MSG_DONTWAIT));
  }

 private:
  int ends_[2];
  bool made_;
  UniqueFd fds_[2];
};

double LimitNs(Sockets& sockets, const std::vector<Word*>& columns) {
  return Nanoseconds(CLOCK_THREAD_CPUTIME_ID,
                     [&] {
                       for (int pass = 0; pass < 4; ++pass) {
                         sockets.ReceiveNothing();
                         uint64_t sum = 0;
                         for (const Word* column : columns) {
                           for (size_t i = 0; i < kCandidates; ++i) {
                             sum +=
                                 A::Load(column[i], std::memory_order_acquire);
                           }
                         }
                         benchmark::DoNotOptimize(sum);
                       }
                     }) /
         kCandidates;
}

absl::Status MeasureColumns(benchmark::State& state) {
  const auto count = static_cast<size_t>(state.range(0));
  const SecondThread second_thread;
  TENON_ASSIGN_OR_RETURN(const auto arena, MakeArena(kCandidates));
  TENON_ASSIGN_OR_RETURN(Block first, arena->TryAllocate(kBlockBytes));
  TENON_ASSIGN_OR_RETURN(const ArenaOffer offer, arena->Offer(first));
  first.Reset();
  std::vector<std::shared_ptr<AttachedArena>> attached(count);
  for (auto& one : attached) {
    TENON_ASSIGN_OR_RETURN(one, AttachTo(offer));
  }
  Sockets sockets;
  if (!sockets.made()) return absl::InternalError("socketpair failed");
  // As far apart as columns, each on a separate page.
  constexpr size_t kApart = 512;
  const std::vector<Word> words(count * kApart);
  std::vector<Word*> columns;
  for (size_t i = 0; i < count; ++i) {
    columns.push_back(const_cast<Word*>(&words[i * kApart]));
  }
  Samples ns, limit_ns;
  for (auto _ : state) {
    TENON_ASSIGN_OR_RETURN(const double taken, ReclaimNs(*arena));
    ns.Add(taken);
    limit_ns.Add(LimitNs(sockets, columns));
  }
  state.counters["ns"] = ns.Median();
  state.counters["limit_ns"] = limit_ns.Median();
  state.counters["ratio"] = ns.Median() / limit_ns.Median();
  return absl::OkStatus();
}

void BM_Reclaim_Columns(benchmark::State& state) {
  const absl::Status status = MeasureColumns(state);
  if (!status.ok()) state.SkipWithError(status.ToString().c_str());
}
BENCHMARK(BM_Reclaim_Columns)->ArgName("columns")->Arg(1)->Arg(8)->Arg(64);

// --- While peers stream. ---

constexpr size_t kReceivers = 8;
constexpr size_t kStreamed = 64;  // Blocks.

struct Shared {
  std::atomic<bool> stop{false};
  struct alignas(64) Claims {
    std::atomic<uint64_t> count{0};
  };
  Claims claims[kReceivers];

  uint64_t AllClaims() const {
    uint64_t sum = 0;
    for (const Claims& one : claims) sum += one.count;
    return sum;
  }
};

absl::Status Stream(const ArenaOffer& offer,
                    const std::vector<BlockDescriptor>& blocks, Shared& shared,
                    size_t which) {
  TENON_ASSIGN_OR_RETURN(const auto arena, AttachTo(offer));
  while (!shared.stop) {
    for (const BlockDescriptor& block : blocks) {
      TENON_RETURN_IF_ERROR(arena->Claim(block).status());
      shared.claims[which].count.fetch_add(1, std::memory_order_relaxed);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ForkedChild>> StartReceivers(
    const ArenaOffer& offer, const std::vector<BlockDescriptor>& blocks,
    Shared& shared) {
  std::vector<ForkedChild> receivers;
  for (size_t i = 0; i < kReceivers; ++i) {
    TENON_ASSIGN_OR_RETURN(
        ForkedChild receiver,
        ForkedChild::Fork({.name = "receiver", .watchdog = absl::Minutes(10)},
                          [&](const Reporter& reporter) {
                            const absl::Status end =
                                Stream(offer, blocks, shared, i);
                            if (!end.ok()) reporter.Fail(end.ToString());
                          }));
    receivers.push_back(std::move(receiver));
    while (shared.claims[i].count == 0) {
      if (receivers.back().pid_fd().HasEnded()) {
        return absl::InternalError(receivers.back().EndsWell().message());
      }
      usleep(1000);
    }
  }
  return receivers;
}

absl::Status MeasureWhileOthersStream(benchmark::State& state) {
  const SharedObject<Shared> shared;
  TENON_ASSIGN_OR_RETURN(const auto arena, MakeArena(kCandidates + kStreamed));
  // Kept throughout, and therefore claimed repeatedly.
  TENON_ASSIGN_OR_RETURN(const auto streamed,
                         AllocateDescribed(*arena, kStreamed));
  TENON_ASSIGN_OR_RETURN(const ArenaOffer offer, arena->Offer(streamed[0]));
  std::vector<BlockDescriptor> messages;
  for (const Block& block : streamed) {
    TENON_ASSIGN_OR_RETURN(const BlockDescriptor message, block.Describe());
    messages.push_back(message);
  }
  TENON_ASSIGN_OR_RETURN(std::vector<ForkedChild> receivers,
                         StartReceivers(offer, messages, *shared));
  Samples ns;
  const ArenaUse before = arena->Use();
  const uint64_t claims_before = shared->AllClaims();
  for (auto _ : state) {
    TENON_ASSIGN_OR_RETURN(const double taken, ReclaimNs(*arena));
    ns.Add(taken);
  }
  const uint64_t claims = shared->AllClaims() - claims_before;
  const ArenaUse after = arena->Use();
  shared->stop = true;
  for (ForkedChild& receiver : receivers) {
    if (const auto end = receiver.EndsWell(); !end) {
      return absl::InternalError(end.message());
    }
  }
  const auto tests = static_cast<double>(after.tests - before.tests);
  const auto failures = static_cast<double>(after.failures - before.failures);
  state.counters["ns"] = ns.Median();
  state.counters["failed"] = tests == 0 ? 0 : failures / tests;
  state.counters["claims_per_test"] =
      tests == 0 ? 0 : static_cast<double>(claims) / tests;
  return absl::OkStatus();
}

void BM_Reclaim_WhileOthersStream(benchmark::State& state) {
  const absl::Status status = MeasureWhileOthersStream(state);
  if (!status.ok()) state.SkipWithError(status.ToString().c_str());
}
BENCHMARK(BM_Reclaim_WhileOthersStream);

}  // namespace
}  // namespace tenon

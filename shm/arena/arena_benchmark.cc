// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The cost of a block in one process, beside the limit of each operation. Both
// alternate in the same loop, by processor time, so that both see the same load
// of the machine, and other processes' work does not count. Counters, medians,
// each for one block:
//   ns        ours
//   limit_ns  the limit
//   ratio     the one over the other
//
// And the descriptors and mappings of 100,000 tensors in flight.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/arena/attached_arena.h"
#include "tenon/shm/arena/benchmark_support.h"
#include "tenon/shm/arena/block_descriptor.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"

namespace tenon {
namespace {

constexpr int kRepeats = 1000;  // For operations of some tens of nanoseconds.

void Fail(benchmark::State& state, const absl::Status& status) {
  state.SkipWithError(status.ToString().c_str());
}

// Runs both `count` times in each iteration.
template <typename Ours, typename Limit>
void Compare(benchmark::State& state, int count, Ours ours, Limit limit) {
  const auto time = [count](auto& work) {
    return Nanoseconds(CLOCK_THREAD_CPUTIME_ID,
                       [&] {
                         for (int i = 0; i < count; ++i) work();
                       }) /
           count;
  };
  Samples ours_ns, limit_ns;
  for (auto _ : state) {
    ours_ns.Add(time(ours));
    limit_ns.Add(time(limit));
  }
  state.counters["ns"] = ours_ns.Median();
  state.counters["limit_ns"] = limit_ns.Median();
  state.counters["ratio"] = ours_ns.Median() / limit_ns.Median();
}

// Limit: an uncontended mutex.
void BM_Arena_AllocateRelease(benchmark::State& state) {
  const SecondThread second_thread;
  const auto arena = Arena::Create();
  if (!arena.ok()) return Fail(state, arena.status());
  std::mutex mutex;
  Compare(
      state, kRepeats,
      [&] {
        auto block = (*arena)->Allocate(1024, Deadline::Never());
        benchmark::DoNotOptimize(block);
      },
      [&] {
        mutex.lock();
        benchmark::ClobberMemory();
        mutex.unlock();
      });
}
BENCHMARK(BM_Arena_AllocateRelease);

// A tensor, which is never described. Limit: an uncontended mutex. With two
// threads, one arena: each shelf is locked by both.
void BM_Arena_CreateTensor(benchmark::State& state) {
  static const std::shared_ptr<Arena>* const shared =
      new std::shared_ptr<Arena>(Arena::Create().value());
  std::shared_ptr<Arena> arena = *shared;
  if (state.threads() == 1) arena = Arena::Create().value();
  const SecondThread second_thread;
  std::mutex mutex;
  Compare(
      state, kRepeats,
      [&] {
        auto tensor =
            CreateTensor(*arena, kDtypeOf<uint8_t>, {4096}, Deadline::Never());
        benchmark::DoNotOptimize(tensor);
      },
      [&] {
        mutex.lock();
        benchmark::ClobberMemory();
        mutex.unlock();
      });
  for (auto& [name, counter] : state.counters) {
    counter.flags = benchmark::Counter::kAvgThreads;
  }
}
BENCHMARK(BM_Arena_CreateTensor)->Threads(1)->Threads(2);

// A block, and an attachment of this process to its arena.
struct Lent {
  std::shared_ptr<Arena> arena;
  std::shared_ptr<AttachedArena> attached;
  Block block;
  BlockDescriptor descriptor;
};

absl::StatusOr<Lent> Lend() {
  Lent lent;
  TENON_ASSIGN_OR_RETURN(lent.arena, Arena::Create());
  TENON_ASSIGN_OR_RETURN(lent.block, lent.arena->TryAllocate(1024));
  TENON_ASSIGN_OR_RETURN(const ArenaOffer offer, lent.arena->Offer(lent.block));
  TENON_ASSIGN_OR_RETURN(lent.attached, AttachTo(offer));
  TENON_ASSIGN_OR_RETURN(lent.descriptor, lent.block.Describe());
  return lent;
}

// Limit: two atomic steps on one word.
void BM_Arena_ClaimRelease(benchmark::State& state) {
  const SecondThread second_thread;
  const absl::StatusOr<Lent> lent = Lend();
  if (!lent.ok()) return Fail(state, lent.status());
  std::atomic<uint64_t> word{0};
  Compare(
      state, kRepeats,
      [&] {
        auto hold = lent->attached->Claim(lent->descriptor);
        benchmark::DoNotOptimize(hold);
      },
      [&] {
        word.fetch_add(1, std::memory_order_seq_cst);
        word.fetch_sub(1, std::memory_order_release);
      });
}
BENCHMARK(BM_Arena_ClaimRelease);

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using PlainMemory = std::unique_ptr<std::byte[], Free>;

// It begins at a page, as large blocks do: the relative alignment of two
// addresses changes the speed of memcpy().
PlainMemory MakePlainMemory(size_t size_bytes) {
  PlainMemory memory(
      static_cast<std::byte*>(std::aligned_alloc(4096, size_bytes)));
  std::memset(memory.get(), 0x5a, size_bytes);
  return memory;
}

int CopiesOfSize(size_t size_bytes) {
  return size_bytes < (size_t{1} << 20)
             ? static_cast<int>((size_t{1} << 20) / size_bytes)
             : 1;
}

// Limit: the same memcpy() into plain memory. With kEachFill a block is
// allocated before and released after: the same one each time.
enum class Allocate { kOnce, kEachFill };

template <Allocate kAllocate>
void BM_Arena_Fill(benchmark::State& state) {
  const SecondThread second_thread;
  const auto size_bytes = static_cast<size_t>(state.range(0));
  const auto arena = Arena::Create();
  if (!arena.ok()) return Fail(state, arena.status());
  absl::StatusOr<Block> allocated = (*arena)->TryAllocate(size_bytes);
  if (!allocated.ok()) return Fail(state, allocated.status());
  Block block = *std::move(allocated);
  const PlainMemory source = MakePlainMemory(size_bytes);
  const PlainMemory plain = MakePlainMemory(size_bytes);
  const auto copy = [&](std::byte* to) {
    std::memcpy(to, source.get(), size_bytes);
    benchmark::DoNotOptimize(to);
    benchmark::ClobberMemory();
  };
  copy(block.data());  // Allocates its pages.
  Compare(
      state, CopiesOfSize(size_bytes),
      [&] {
        if constexpr (kAllocate == Allocate::kEachFill) {
          block.Reset();
          block = *(*arena)->TryAllocate(size_bytes);
        }
        copy(block.data());
      },
      [&] { copy(plain.get()); });
}

void Sizes(benchmark::internal::Benchmark* benchmark) {
  for (const int64_t bytes : {4 << 10, 64 << 10, 1 << 20, 16 << 20}) {
    benchmark->Arg(bytes);
  }
  benchmark->ArgName("bytes");
}
BENCHMARK_TEMPLATE(BM_Arena_Fill, Allocate::kOnce)->Apply(Sizes);
BENCHMARK_TEMPLATE(BM_Arena_Fill, Allocate::kEachFill)->Apply(Sizes);

// --- Many tensors at once. ---

constexpr int kTensors = 100'000;

struct Kept {
  size_t fds = 0;
  size_t mappings = 0;
};

Kept CountWhatIsKept() {
  const Census census = TakeCensus();
  return {census.Count("open "), census.mappings};
}

struct Tensors {
  std::vector<Block> blocks;
  std::vector<BlockDescriptor> descriptors;
  std::map<uint32_t, ArenaOffer> offers;  // By segment.
};

absl::StatusOr<Tensors> MakeTensors(Arena& arena) {
  Tensors tensors;
  for (int i = 0; i < kTensors; ++i) {
    TENON_ASSIGN_OR_RETURN(Block block, arena.TryAllocate(1024));
    TENON_ASSIGN_OR_RETURN(const BlockDescriptor descriptor, block.Describe());
    if (tensors.offers.count(descriptor.segment) == 0) {
      TENON_ASSIGN_OR_RETURN(tensors.offers[descriptor.segment],
                             arena.Offer(block));
    }
    tensors.descriptors.push_back(descriptor);
    tensors.blocks.push_back(std::move(block));
  }
  return tensors;
}

struct Holder {
  std::shared_ptr<AttachedArena> arena;
  std::vector<Hold> holds;
};

absl::StatusOr<Holder> HoldAll(const Tensors& tensors) {
  Holder holder;
  for (const auto& [segment, offer] : tensors.offers) {
    if (holder.arena == nullptr) {
      TENON_ASSIGN_OR_RETURN(holder.arena, AttachTo(offer));
    } else {
      TENON_RETURN_IF_ERROR(
          holder.arena->Add(offer.bytes, CopiesOf(offer.fds)));
    }
  }
  for (const BlockDescriptor& descriptor : tensors.descriptors) {
    TENON_ASSIGN_OR_RETURN(Hold hold, holder.arena->Claim(descriptor));
    holder.holds.push_back(std::move(hold));
  }
  return holder;
}

struct KeptByAll {
  Kept owner_before, owner_after, holder_before, holder_after;
  size_t segments = 0;
};

absl::StatusOr<KeptByAll> CountWithManyTensors() {
  TENON_ASSIGN_OR_RETURN(const auto arena, Arena::Create());
  KeptByAll kept;
  kept.owner_before = CountWhatIsKept();
  TENON_ASSIGN_OR_RETURN(const Tensors tensors, MakeTensors(*arena));
  kept.owner_after = CountWhatIsKept();
  kept.segments = tensors.offers.size();
  const SharedObject<KeptByAll> shared;
  TENON_ASSIGN_OR_RETURN(
      ForkedChild child,
      ForkedChild::Fork({.name = "holder"}, [&](const Reporter& reporter) {
        shared->holder_before = CountWhatIsKept();
        const absl::StatusOr<Holder> holder = HoldAll(tensors);
        shared->holder_after = CountWhatIsKept();
        if (!holder.ok()) reporter.Fail(holder.status().ToString());
      }));
  if (const auto end = child.EndsWell(); !end) {
    return absl::InternalError(end.message());
  }
  kept.holder_before = shared->holder_before;
  kept.holder_after = shared->holder_after;
  return kept;
}

// The descriptors and mappings added by 100,000 tensors of 1 KiB: a fixed
// number for each segment, of which there are few.
void BM_Arena_100000Tensors(benchmark::State& state) {
  for (auto _ : state) {
    const absl::StatusOr<KeptByAll> kept = CountWithManyTensors();
    if (!kept.ok()) return Fail(state, kept.status());
    const auto add = [&](const std::string& who, const Kept& before,
                         const Kept& after) {
      const auto more = [](size_t now, size_t then) {
        return static_cast<double>(now) - static_cast<double>(then);
      };
      state.counters[absl::StrCat(who, "_fds")] = more(after.fds, before.fds);
      state.counters[absl::StrCat(who, "_mappings")] =
          more(after.mappings, before.mappings);
    };
    add("owner", kept->owner_before, kept->owner_after);
    add("holder", kept->holder_before, kept->holder_after);
    state.counters["segments"] = static_cast<double>(kept->segments);
  }
}
BENCHMARK(BM_Arena_100000Tensors)->Iterations(1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tenon

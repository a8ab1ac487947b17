// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/benchmarks/handover/arena_alone.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "tenon/benchmarks/harness/subject.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/attached_arena.h"
#include "tenon/shm/arena/benchmark_support.h"
#include "tenon/shm/arena/block_descriptor.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/testing/must.h"
#include "tenon/shm/testing/shared_object.h"

namespace tenon::benchmarks {
namespace {

using A = StdAtomics;
using Word = SharedWord<uint64_t>;

constexpr size_t kBlockBytes = 4096;
constexpr size_t kBlocks = 128;

std::shared_ptr<Arena> MakeArena() {
  ArenaOptions options;
  options.quota_bytes = kBlocks * kBlockBytes;
  options.segment_bytes = options.quota_bytes;
  return Must(Arena::Create(options));
}

class ArenaAlone : public Subject {
 public:
  void BeginAnswering(const PidFd&) override {
    attached_ = Must(AttachTo(offer_));
  }
  void EndAnswering() override { attached_.reset(); }

  void Ask(int count) override {
    for (int i = 0; i < count; ++i) {
      const Block block =
          Must(arena_->Allocate(kBlockBytes, Deadline::Never()));
      lines_->message = Must(block.Describe());
      A::Store(lines_->sent, ++number_, std::memory_order_release);
      SpinUntil([&] {
        return A::Load(lines_->taken, std::memory_order_acquire) == number_;
      });
    }
  }

  void Answer(int count) override {
    for (int i = 0; i < count; ++i) {
      ++number_;
      SpinUntil([&] {
        return A::Load(lines_->sent, std::memory_order_acquire) == number_;
      });
      const BlockDescriptor message = lines_->message;
      const Hold hold = Must(attached_->Claim(message));
      A::Store(lines_->taken, number_, std::memory_order_release);
    }
  }

 private:
  struct Lines {
    alignas(64) BlockDescriptor message;
    Word sent{0};
    alignas(64) Word taken{0};
  };

  const SharedObject<Lines> lines_;
  const std::shared_ptr<Arena> arena_ = MakeArena();
  const Block first_ = Must(arena_->TryAllocate(kBlockBytes));
  const ArenaOffer offer_ = Must(arena_->Offer(first_));
  std::shared_ptr<AttachedArena> attached_;
  uint64_t number_ = 0;  // Of the last message.
};

}  // namespace

std::unique_ptr<Subject> NewArenaAlone() {
  return std::make_unique<ArenaAlone>();
}

}  // namespace tenon::benchmarks

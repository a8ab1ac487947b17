// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/ledger/lease_stress.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <random>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/ledger/free_test.h"
#include "tenon/shm/ledger/lease.h"

namespace tenon {
namespace {

using Word = StressShared::Word;

constexpr auto kAcquire = std::memory_order_acquire;
constexpr auto kRelease = std::memory_order_release;
constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr auto kSeqCst = std::memory_order_seq_cst;

uint64_t Pattern(uint64_t block, uint64_t generation, size_t word) {
  return (generation * StressShared::kBlocks + block) * 0x9e3779b97f4a7c15 +
         word;
}

}  // namespace

void YieldingAtomics::MayYield() {
  thread_local std::minstd_rand random;
  if (random() % 256 == 0) sched_yield();
}

StressMember::StressMember(StressShared& shared, const StressCells& cells,
                           size_t self)
    : shared_(shared),
      cells_(cells),
      self_(self),
      random_(static_cast<uint32_t>(self + 1)) {}

void StressMember::Run() {
  while (StdAtomics::Load(shared_.phase, kAcquire) != StressShared::kEnd) {
    if (!Step()) sched_yield();
  }
}

bool StressMember::Step() {
  bool any = false;
  for (auto& from : shared_.messages) {
    for (Message& message : from[self_]) any |= Receive(message);
  }
  const size_t before = holds_.size();
  for (size_t i = 0; i < holds_.size();) {
    Hold& hold = holds_[i];
    if (!MayLetGo(hold)) {
      ++i;
      continue;
    }
    Check(hold.block, hold.generation);
    Lease<YieldingAtomics>::Release(cells_[self_][hold.block]);
    hold = holds_.back();
    holds_.pop_back();
  }
  return any || holds_.size() != before;
}

bool StressMember::Begin(uint64_t block, uint64_t generation) {
  if (!Claim(block, generation)) return false;
  HoldOrForward(block, generation);
  return true;
}

bool StressMember::Receive(Message& message) {
  if (StdAtomics::Load(message.state, kAcquire) != StressShared::kSent) {
    return false;
  }
  const uint64_t block = message.block;
  const uint64_t generation = message.generation;
  const bool good = Claim(block, generation);
  StdAtomics::Store(message.state, StressShared::kAcknowledged, kRelease);
  if (good) HoldOrForward(block, generation);
  return true;
}

bool StressMember::Claim(uint64_t block, uint64_t generation) {
  if (StdAtomics::Load(shared_.attached[self_], kRelaxed) == 0) {
    StdAtomics::Store(shared_.attached[self_], 1, kSeqCst);
  }
  const bool good = Lease<YieldingAtomics>::Claim(
      cells_[self_][block], shared_.generations[block], generation);
  StdAtomics::FetchAdd(good ? shared_.claims : shared_.losses, 1, kRelaxed);
  return good;
}

void StressMember::HoldOrForward(uint64_t block, uint64_t generation) {
  Check(block, generation);
  Hold hold = {block, generation};
  hold.steps = random_() % 4;
  if (random_() % 8 == 0) hold.steps = random_() % 256;
  const bool draining =
      StdAtomics::Load(shared_.phase, kRelaxed) != StressShared::kRun;
  // So that a route has four hops on average.
  if (!draining && (self_ == 0 || random_() % 4 != 0)) Forward(hold);
  holds_.push_back(hold);
}

// False if no member has room.
bool StressMember::Forward(Hold& hold) {
  const size_t first = random_() % StressShared::kMembers;
  for (size_t i = 0; i < StressShared::kMembers; ++i) {
    const size_t to = (first + i) % StressShared::kMembers;
    if (to == self_ || !Is(to, StressShared::kAlive)) continue;
    for (Message& message : shared_.messages[self_][to]) {
      if (StdAtomics::Load(message.state, kRelaxed) != StressShared::kEmpty) {
        continue;
      }
      message.block = hold.block;
      message.generation = hold.generation;
      StdAtomics::Store(message.state, StressShared::kSent, kRelease);
      hold.sent = &message;
      hold.to = to;
      return true;
    }
  }
  return false;
}

bool StressMember::MayLetGo(Hold& hold) {
  if (hold.sent != nullptr) {
    const bool acknowledged = StdAtomics::Load(hold.sent->state, kAcquire) ==
                              StressShared::kAcknowledged;
    if (!acknowledged && !Is(hold.to, StressShared::kDead)) return false;
    // No member reads messages to dead members.
    StdAtomics::Store(hold.sent->state, StressShared::kEmpty, kRelaxed);
    hold.sent = nullptr;
  }
  if (hold.steps == 0) return true;
  --hold.steps;
  return false;
}

void StressMember::Check(uint64_t block, uint64_t generation) {
  const auto& bytes = shared_.bytes[block];
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] == Pattern(block, generation, i)) continue;
    StdAtomics::FetchAdd(shared_.wrong_bytes, 1, kRelaxed);
    return;
  }
}

bool StressMember::Is(size_t member, StressShared::Life life) const {
  return StdAtomics::Load(shared_.life[member], kAcquire) == life;
}

void StressOwner::Inbox::Receive() {
  columns_.clear();
  for (size_t m = 0; m < StressShared::kMembers; ++m) {
    if (!received_[m]) received_[m] = HasSent(m);
    if (received_[m] && !removed_[m]) columns_.push_back(cells_[m]);
  }
}

bool StressOwner::Inbox::IsEmpty() const {
  for (size_t m = 0; m < StressShared::kMembers; ++m) {
    if (!received_[m] && HasSent(m)) return false;
  }
  return true;
}

bool StressOwner::Inbox::HasSent(size_t member) const {
  return StdAtomics::Load(shared_.attached[member], kSeqCst) != 0;
}

StressOwner::StressOwner(StressShared& shared, const StressCells& cells)
    : shared_(shared), self_(shared, cells, 0), inbox_(shared, cells) {
  StdAtomics::Store(shared.attached[0], 1, kSeqCst);
  StdAtomics::Store(shared.life[0], StressShared::kAlive, kRelease);
  for (uint64_t b = 0; b < StressShared::kBlocks; ++b) here_.push_back(b);
}

size_t StressOwner::Join() {
  StdAtomics::Store(shared_.life[joined_], StressShared::kAlive, kRelease);
  return joined_++;
}

void StressOwner::Remove(size_t member) {
  inbox_.Remove(member);
  StdAtomics::Store(shared_.life[member], StressShared::kDead, kRelease);
}

void StressOwner::Step() {
  for (const uint64_t block : here_) SendOut(block);
  here_.clear();
  if (!self_.Step()) sched_yield();
  Reclaim();
}

bool StressOwner::Drain(Deadline deadline) {
  StdAtomics::Store(shared_.phase, StressShared::kDrain, kRelease);
  while (!out_.empty()) {
    if (deadline.Remaining() <= absl::ZeroDuration()) return false;
    if (!self_.Step()) sched_yield();
    Reclaim();
  }
  return true;
}

void StressOwner::End() {
  StdAtomics::Store(shared_.phase, StressShared::kEnd, kRelease);
}

void StressOwner::SendOut(uint64_t block) {
  const uint64_t generation =
      StdAtomics::Load(shared_.generations[block], kRelaxed);
  for (size_t i = 0; i < StressShared::kBlockWords; ++i) {
    shared_.bytes[block][i] = Pattern(block, generation, i);
  }
  self_.Begin(block, generation);
  out_.push_back({static_cast<uint32_t>(block)});
}

void StressOwner::Reclaim() {
  free_test_.Reclaim(inbox_, shared_.generations.data(), absl::MakeSpan(out_));
  for (const ReclaimCandidate& c : out_) {
    if (c.IsReclaimed()) here_.push_back(c.block);
  }
  reclaimed_ += std::erase_if(
      out_, [](const ReclaimCandidate& c) { return c.IsReclaimed(); });
}

}  // namespace tenon

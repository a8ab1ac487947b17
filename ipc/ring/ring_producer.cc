// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/ring/ring_producer.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/ipc/doorbell/doorbell.h"
#include "tenon/ipc/ring/internal/ring_layout.h"
#include "tenon/ipc/ring/internal/ring_protocol.h"
#include "tenon/ipc/ring/internal/ring_readers.h"
#include "tenon/ipc/ring/ring_geometry.h"
#include "tenon/ipc/ring/ring_offer.h"
#include "tenon/ipc/ring/ring_report.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/size_text.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/control_memory.h"

namespace tenon {
namespace {

using A = StdAtomics;

RingProducerWords& WordsOf(const ControlMemory& memory) {
  return *reinterpret_cast<RingProducerWords*>(memory.data());
}

}  // namespace

struct RingProducer::State {
  State(const RingOptions& made_with, ControlMemory its_memory, RandomId id,
        std::unique_ptr<Doorbell> its_bell, std::string named)
      : options(made_with),
        what(std::move(named)),
        memory(std::move(its_memory)),
        writer(&words().head,
               options.policy == RingPolicy::kDropOldest ? &words().reserved
                                                         : nullptr,
               RingSlotsIn(memory.data(), words().geometry)),
        bell(std::move(its_bell)),
        readers(&memory, id, bell.get(), what) {}

  RingProducerWords& words() const { return WordsOf(memory); }
  absl::Status CheckNotInherited() const {
    return CheckNotForked(fork_count, what);
  }
  absl::Status CheckUsable() const;
  absl::StatusOr<uint64_t> Count(std::span<const std::byte> records) const;
  absl::Status NoReader(uint64_t count);
  absl::StatusOr<bool> AwaitTails(uint64_t count, Deadline deadline);
  void SetClosed();

  bool HasRoom(uint64_t count) const {
    return readers.HasRoom(writer.head(), count);
  }
  // One record, with room for it and at least one reader. A single put costs as
  // much as its stores: a store that waits for its line delays all later ones,
  // those to the stack too, in the store buffer, which is short.
  bool IsPlain(std::span<const std::byte> records) const {
    return records.size() == options.record_bytes && HasRoom(1) &&
           !readers.empty() && !closed && fork_count == ForkCount();
  }
  void PutNow(const std::byte* record, uint64_t count);

  const RingOptions options;
  const std::string what;
  ControlMemory memory;
  RingWriter<> writer;
  const std::unique_ptr<Doorbell> bell;
  RingReaders readers;
  bool closed = false;
  const uint64_t fork_count = ForkCount();
};

absl::StatusOr<std::unique_ptr<RingProducer>> RingProducer::Create(
    const RingOptions& options) {
  RingGeometry geometry;
  geometry.policy = static_cast<uint32_t>(options.policy);
  geometry.record_bytes = options.record_bytes;
  geometry.capacity = options.capacity;
  TENON_RETURN_IF_ERROR(CheckRingGeometry(geometry));
  const size_t bytes = RingBytes(geometry);
  TENON_ASSIGN_OR_RETURN(auto memory,
                         ControlMemory::Create(bytes, options.name));
  TENON_RETURN_IF_ERROR(memory.Reserve({0, bytes}));
  RingProducerWords& words = WordsOf(memory);
  words.geometry = geometry;
  TENON_ASSIGN_OR_RETURN(const RandomId id, RandomId::New());
  std::string what = absl::StrCat("ring '", options.name, "'");
  TENON_ASSIGN_OR_RETURN(
      auto bell, Doorbell::Create(&words.sleeping, what,
                                  options.sleeper_fences
                                      ? Doorbell::Barriers::kBySleeper
                                      : Doorbell::Barriers::kByPublisher));
  words.fences = bell->fences() ? 1 : 0;
  auto state = std::make_unique<State>(options, std::move(memory), id,
                                       std::move(bell), std::move(what));
  TENON_CRASH_POINT("ring.created");
  return absl::WrapUnique(new RingProducer(std::move(state)));
}

RingProducer::RingProducer(std::unique_ptr<State> state)
    : state_(std::move(state)) {}

RingProducer::~RingProducer() {
  if (state_->fork_count == ForkCount()) state_->SetClosed();
}

// ---- Readers ----

absl::StatusOr<RingOffer> RingProducer::Offer() {
  TENON_RETURN_IF_ERROR(state_->CheckUsable());
  return state_->readers.Offer();
}

absl::StatusOr<uint64_t> RingProducer::AddReader(RingReply reply) {
  TENON_RETURN_IF_ERROR(state_->CheckUsable());
  return state_->readers.Add(std::move(reply), put());
}

absl::Status RingProducer::RemoveReader(uint64_t number) {
  TENON_RETURN_IF_ERROR(state_->CheckNotInherited());
  return state_->readers.Remove(number);
}

absl::Status RingProducer::CheckReaders() {
  TENON_RETURN_IF_ERROR(state_->CheckNotInherited());
  TENON_RETURN_IF_ERROR(state_->readers.DropDead());
  state_->readers.RefreshAndDrop(put(), 0);
  return absl::OkStatus();
}

std::vector<RingEnd> RingProducer::TakeEnded() {
  return state_->readers.TakeEnded();
}

size_t RingProducer::num_readers() const { return state_->readers.size(); }

uint64_t RingProducer::acknowledged() {
  if (state_->fork_count == ForkCount()) {
    state_->readers.RefreshAndDrop(put(), 0);
  }
  return state_->readers.oldest();
}

// ---- Putting ----

absl::Status RingProducer::State::CheckUsable() const {
  TENON_RETURN_IF_ERROR(CheckNotInherited());
  if (!closed) [[likely]]
    return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(what, " is closed"));
}

absl::StatusOr<uint64_t> RingProducer::State::Count(
    std::span<const std::byte> records) const {
  if (records.size() == options.record_bytes) [[likely]]
    return 1;
  const uint64_t count = records.size() / options.record_bytes;
  if (count != 0 && count <= options.capacity &&
      records.size() % options.record_bytes == 0) {
    return count;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "Put(): ", SizeText(records.size()), " for ", what, "; want 1 to ",
      options.capacity, " records of ", SizeText(options.record_bytes)));
}

absl::Status RingProducer::State::NoReader(uint64_t count) {
  if (!HasRoom(count)) readers.RefreshAndDrop(writer.head(), count);
  if (!readers.empty() || options.policy == RingPolicy::kDropOldest) {
    return absl::OkStatus();
  }
  if (!readers.last_end().ok()) return readers.last_end();
  return absl::FailedPreconditionError(
      absl::StrCat(what, " has no reader yet"));
}

[[gnu::always_inline]] inline void RingProducer::State::PutNow(
    const std::byte* record, uint64_t count) {
  writer.Reserve(count);
  TENON_CRASH_POINT("ring.reserved");
  for (uint64_t i = 0; i < count; ++i) {
    writer.Write(i, record);
    record += options.record_bytes;
  }
  TENON_CRASH_POINT("ring.written");
  writer.Publish(count, readers.publication());
  TENON_CRASH_POINT("ring.published");
  readers.RingAll();
}

absl::StatusOr<bool> RingProducer::TryPut(std::span<const std::byte> records) {
  State& ring = *state_;
  if (ring.IsPlain(records)) [[likely]] {
    ring.PutNow(records.data(), 1);
    return true;
  }
  TENON_RETURN_IF_ERROR(ring.CheckUsable());
  TENON_ASSIGN_OR_RETURN(const uint64_t count, ring.Count(records));
  if (ring.readers.empty() || !ring.HasRoom(count)) {
    if (ring.options.policy != RingPolicy::kDropOldest) {
      TENON_RETURN_IF_ERROR(ring.NoReader(count));
      if (!ring.HasRoom(count)) return false;
    }
  }
  ring.PutNow(records.data(), count);
  return true;
}

absl::Status RingProducer::Put(std::span<const std::byte> records,
                               Deadline deadline) {
  for (;;) {
    TENON_ASSIGN_OR_RETURN(const bool put, TryPut(records));
    if (put) return absl::OkStatus();
    State& ring = *state_;
    TENON_ASSIGN_OR_RETURN(const uint64_t count, ring.Count(records));
    TENON_ASSIGN_OR_RETURN(const bool room, ring.AwaitTails(count, deadline));
    if (!room) {
      return absl::DeadlineExceededError(absl::StrCat(
          "Put(): ", ring.what,
          " is full: ", ring.readers.DescribeSlowest(ring.writer.head())));
    }
  }
}

uint64_t RingProducer::put() const { return state_->writer.head(); }

// Waits until there is room for `count`, or a reader's state has changed. False
// at the deadline.
absl::StatusOr<bool> RingProducer::State::AwaitTails(uint64_t count,
                                                     Deadline deadline) {
  const auto ready = [&] {
    return !readers.Refresh(writer.head()) || HasRoom(count);
  };
  TENON_ASSIGN_OR_RETURN(const WaitOutcome outcome,
                         bell->Wait(ready, deadline));
  if (outcome.kind == WaitOutcome::kDied) {
    readers.Drop(outcome.participant, absl::UnavailableError("it has died"));
  }
  return outcome.kind != WaitOutcome::kDeadline;
}

// ---- Closing ----

void RingProducer::State::SetClosed() {
  closed = true;
  A::Store(words().closed, 1, std::memory_order_seq_cst);
  TENON_CRASH_POINT("ring.closed");
  readers.RingAll();
}

absl::Status RingProducer::Close(Deadline deadline) {
  State& ring = *state_;
  TENON_RETURN_IF_ERROR(ring.CheckNotInherited());
  if (!ring.closed) ring.SetClosed();
  for (;;) {
    ring.readers.RefreshAndDrop(put(), 0);
    if (ring.readers.oldest() == put()) return absl::OkStatus();
    // Room for a full ring means that all has been read.
    TENON_ASSIGN_OR_RETURN(const bool room,
                           ring.AwaitTails(ring.options.capacity, deadline));
    if (!room) {
      return absl::DeadlineExceededError(absl::StrCat(
          "Close(): ", ring.what, ": ", ring.readers.DescribeSlowest(put())));
    }
  }
}

// ---- Event loops ----

absl::StatusOr<int> RingProducer::PollFd() { return state_->bell->PollFd(); }

absl::StatusOr<bool> RingProducer::Arm() {
  State& ring = *state_;
  return ring.bell->Arm([&ring] {
    return !ring.readers.Refresh(ring.writer.head()) || ring.HasRoom(1);
  });
}

void RingProducer::Disarm() { state_->bell->Disarm(); }

RingStats RingProducer::stats() const {
  const DoorbellCounts counts = state_->bell->counts();
  return {.spins_won = counts.spins_won,
          .sleeps = counts.sleeps,
          .wakes = state_->readers.rings()};
}

}  // namespace tenon

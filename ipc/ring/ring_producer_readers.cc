// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Adding and dropping of readers; putting is in ring_producer.cc.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/doorbell/doorbell.h"
#include "tenon/ipc/ring/internal/ring_fds.h"
#include "tenon/ipc/ring/internal/ring_layout.h"
#include "tenon/ipc/ring/ring.h"
#include "tenon/ipc/ring/ring_offer.h"
#include "tenon/ipc/ring/ring_producer_reader.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/pid_fd.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/control_memory.h"

namespace tenon {
namespace {

using A = StdAtomics;

constexpr char kReaderMemory[] = "the memory of a ring's reader";

// Copied once and then validated.
absl::Status CheckReaderWords(const RingReaderWords& words) {
  uint64_t magic, version;
  std::memcpy(&magic, &words.magic, sizeof(magic));
  std::memcpy(&version, &words.version, sizeof(version));
  if (magic != RingReaderWords::kMagic) {
    return absl::InvalidArgumentError(
        absl::StrCat(kReaderMemory, " has a bad magic 0x", absl::Hex(magic)));
  }
  if (version != kRingVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat(kReaderMemory, " has layout version ", version,
                     "; this build of Tenon has version ", kRingVersion));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RingOffer> RingProducer::Offer() {
  TENON_RETURN_IF_ERROR(CheckUsable());
  const auto slot =
      std::find_if(reader_slots_.begin(), reader_slots_.end(),
                   [](const ReaderSlot& p) { return p.number == 0; });
  if (slot == reader_slots_.end()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("Offer(): ", what_, " has ", RingSizes::kMaxReaders,
                     " readers and unanswered offers, the limit"));
  }
  RingOffer offer;
  TENON_ASSIGN_OR_RETURN(offer.fds,
                         CopyRingFds(memory_.fd(), bell_->bell_fd()));
  slot->number = next_number_++;
  slot->joined = false;
  offer.message.geometry = words().geometry;
  offer.message.ring = id_;
  offer.message.index = static_cast<uint64_t>(slot - reader_slots_.begin());
  offer.message.number = slot->number;
  return offer;
}

absl::Status RingProducer::CheckReply(const RingReplyMessage& message) const {
  if (message.ring != id_ || message.index >= reader_slots_.size() ||
      message.number == 0 ||
      reader_slots_[message.index].number != message.number ||
      reader_slots_[message.index].joined) {
    return absl::InvalidArgumentError(
        absl::StrCat("AddReader(): the reply of reader ", message.number,
                     " does not answer an open offer of ", what_));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> RingProducer::AddReader(RingReply reply) {
  TENON_RETURN_IF_ERROR(CheckUsable());
  TENON_RETURN_IF_ERROR(CheckReply(reply.message));
  auto reader = std::make_unique<Reader>();
  reader->number = reply.message.number;
  reader->index = reply.message.index;
  const ByteRange range = {0, sizeof(RingReaderWords)};
  const int memory = reply.fds.memory.get();
  TENON_ASSIGN_OR_RETURN(reader->memory,
                         ControlView::Adopt(memory, range, kReaderMemory));
  TENON_RETURN_IF_ERROR(ReserveControlMemory(memory, range, kReaderMemory));
  TENON_RETURN_IF_ERROR(CheckReaderWords(reader->words()));
  TENON_ASSIGN_OR_RETURN(reader->process,
                         PidFd::Adopt(std::move(reply.fds.process)));
  TENON_ASSIGN_OR_RETURN(reader->ringer,
                         DoorbellRinger::Adopt(&reader->words().sleeping,
                                               std::move(reply.fds.bell)));
  TENON_RETURN_IF_ERROR(
      bell_->AddParticipant(reader->number, reader->process->fd()));
  const uint64_t number = reader->number;
  LetIn(std::move(reader));
  return number;
}

void RingProducer::LetIn(std::unique_ptr<Reader> reader) {
  const uint64_t start = writer_.head();
  reader->fences = reader->words().fences == 1;
  reader->tail = TailWatch<>(&reader->words().tail, start);
  reader_slots_[reader->index].joined = true;
  RingProducerWords::Entry& entry = words().readers[reader->index];
  A::Store(entry.start, start, std::memory_order_relaxed);
  A::Store(entry.state, reader->number << 2 | RingProducerWords::kReading,
           std::memory_order_seq_cst);
  TENON_CRASH_POINT("ring.reader_added");
  reader->ringer.Ring();
  readers_.push_back(std::move(reader));
  ChoosePublication();
}

// Fenced, if all waiting readers announce that they fence this process. A
// reader whose announcement is false misses its own wake-ups.
void RingProducer::ChoosePublication() {
  const bool all_fence =
      std::all_of(readers_.begin(), readers_.end(),
                  [](const auto& reader) { return reader->fences; });
  publication_ = bell_->fences() && all_fence ? Publication::kFenced
                                              : Publication::kSequential;
}

absl::Status RingProducer::RemoveReader(uint64_t number) {
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, what_));
  for (ReaderSlot& slot : reader_slots_) {
    if (number == 0 || slot.number != number) continue;
    if (slot.joined) {
      Drop(number, absl::CancelledError("the reader was removed"));
    } else {
      slot = ReaderSlot();
    }
    return absl::OkStatus();
  }
  return absl::NotFoundError(
      absl::StrCat("RemoveReader(): ", what_, " has no reader ", number));
}

void RingProducer::Drop(uint64_t number, absl::Status why) {
  const auto at = std::find_if(
      readers_.begin(), readers_.end(),
      [number](const auto& reader) { return reader->number == number; });
  if (at == readers_.end()) return;
  const std::unique_ptr<Reader> reader = std::move(*at);
  readers_.erase(at);
  ChoosePublication();
  bell_->RemoveParticipant(number);
  // Before a slot that the reader may be copying is overwritten.
  A::Store(words().readers[reader->index].state,
           number << 2 | RingProducerWords::kDropped,
           std::memory_order_seq_cst);
  TENON_CRASH_POINT("ring.reader_dropped");
  reader->ringer.Ring();
  old_rings_ += reader->ringer.rings();
  reader_slots_[reader->index] = ReaderSlot();
  last_end_ = absl::Status(why.code(),
                           absl::StrCat(what_, ": ", reader->Describe(), ": ",
                                        absl::string_view(why.message())));
  ended_.push_back({number, last_end_});
}

}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/ring/internal/ring_readers.h"

#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/doorbell/doorbell.h"
#include "tenon/ipc/doorbell/sleep_protocol.h"
#include "tenon/ipc/ring/internal/ring_fds.h"
#include "tenon/ipc/ring/internal/ring_layout.h"
#include "tenon/ipc/ring/internal/ring_protocol.h"
#include "tenon/ipc/ring/ring_geometry.h"
#include "tenon/ipc/ring/ring_offer.h"
#include "tenon/ipc/ring/ring_report.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/process/process_identity.h"
#include "tenon/shm/process/process_info.h"
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
  if (version != RingVersion()) {
    return absl::FailedPreconditionError(
        absl::StrCat(kReaderMemory, " has layout version ", version,
                     "; this build of Tenon has version ", RingVersion()));
  }
  return absl::OkStatus();
}

}  // namespace

std::string RingReaders::Reader::Describe() const {
  const pid_t pid = PidOf(*process).value_or(0);
  return absl::StrCat("reader ", number, " (pid ", pid, " '", NameOf(*process),
                      "', ", StateOf(*process), ")");
}

absl::StatusOr<RingOffer> RingReaders::Offer() {
  const auto slot = std::find_if(slots_.begin(), slots_.end(),
                                 [](const Slot& p) { return p.number == 0; });
  if (slot == slots_.end()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("Offer(): ", what_, " has ", RingGeometry::kMaxReaders,
                     " readers and unanswered offers, the limit"));
  }
  RingOffer offer;
  TENON_ASSIGN_OR_RETURN(offer.fds, CopyRingFds(memory_.fd(), bell_.bell_fd()));
  slot->number = next_number_++;
  slot->joined = false;
  offer.message.geometry = words().geometry;
  offer.message.ring = ring_;
  offer.message.index = static_cast<uint64_t>(slot - slots_.begin());
  offer.message.number = slot->number;
  return offer;
}

absl::Status RingReaders::CheckReply(const RingReplyMessage& message) const {
  if (message.ring != ring_ || message.index >= slots_.size() ||
      message.number == 0 || slots_[message.index].number != message.number ||
      slots_[message.index].joined) {
    return absl::InvalidArgumentError(
        absl::StrCat("AddReader(): the reply of reader ", message.number,
                     " does not answer an open offer of ", what_));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> RingReaders::Add(RingReply reply, uint64_t head) {
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
      bell_.AddParticipant(reader->number, reader->process->fd()));
  const uint64_t number = reader->number;
  LetIn(std::move(reader), head);
  return number;
}

void RingReaders::LetIn(std::unique_ptr<Reader> reader, uint64_t head) {
  reader->fences = reader->words().fences == 1;
  reader->tail = ConsumedWatch<>(&reader->words().tail, head, head);
  slots_[reader->index].joined = true;
  RingProducerWords::Entry& entry = words().readers[reader->index];
  A::Store(entry.start, head, std::memory_order_relaxed);
  A::Store(entry.state, reader->number << 2 | RingProducerWords::kReading,
           std::memory_order_seq_cst);
  TENON_CRASH_POINT("ring.reader_added");
  reader->ringer.Ring();
  readers_.push_back(std::move(reader));
  ChoosePublication();
}

// Fenced, if all waiting readers announce that they fence this process. A
// reader whose announcement is false misses its own wake-ups.
void RingReaders::ChoosePublication() {
  const bool all_fence =
      std::all_of(readers_.begin(), readers_.end(),
                  [](const auto& reader) { return reader->fences; });
  publication_ = bell_.fences() && all_fence ? Publication::kFenced
                                             : Publication::kSequential;
}

absl::Status RingReaders::Remove(uint64_t number) {
  for (Slot& slot : slots_) {
    if (number == 0 || slot.number != number) continue;
    if (slot.joined) {
      Drop(number, absl::CancelledError("the reader was removed"));
    } else {
      slot = Slot();
    }
    return absl::OkStatus();
  }
  return absl::NotFoundError(
      absl::StrCat("RemoveReader(): ", what_, " has no reader ", number));
}

void RingReaders::Drop(uint64_t number, const absl::Status& why) {
  const auto at = std::find_if(
      readers_.begin(), readers_.end(),
      [number](const auto& reader) { return reader->number == number; });
  if (at == readers_.end()) return;
  const std::unique_ptr<Reader> reader = std::move(*at);
  readers_.erase(at);
  ChoosePublication();
  bell_.RemoveParticipant(number);
  // Before a slot that the reader may be copying is overwritten.
  A::Store(words().readers[reader->index].state,
           number << 2 | RingProducerWords::kDropped,
           std::memory_order_seq_cst);
  TENON_CRASH_POINT("ring.reader_dropped");
  reader->ringer.Ring();
  old_rings_ += reader->ringer.rings();
  slots_[reader->index] = Slot();
  last_end_ = absl::Status(why.code(),
                           absl::StrCat(what_, ": ", reader->Describe(), ": ",
                                        absl::string_view(why.message())));
  ended_.push_back({number, last_end_});
}

bool RingReaders::Refresh(uint64_t head) {
  uint64_t longest = 0;
  bool good = true;
  for (const auto& reader : readers_) {
    good &= !reader->has_left();
    good &= reader->tail.Refresh(head);
    longest = std::max(longest, head - reader->tail.position());
  }
  oldest_ = head - longest;
  return good;
}

void RingReaders::DropBad(uint64_t head) {
  std::vector<RingEnd> bad;
  for (const auto& reader : readers_) {
    if (!reader->tail.Refresh(head)) {
      bad.push_back(
          {reader->number,
           absl::DataLossError(
               "its tail is corrupt: it moved back, or beyond the head")});
    } else if (reader->has_left()) {
      bad.push_back({reader->number, absl::UnavailableError("it has left")});
    }
  }
  for (const RingEnd& end : bad) Drop(end.reader, end.status);
}

void RingReaders::DropSlow(uint64_t head, uint64_t count) {
  std::vector<uint64_t> slow;
  for (const auto& reader : readers_) {
    if (head - reader->tail.position() + count > capacity_) {
      slow.push_back(reader->number);
    }
  }
  for (const uint64_t number : slow) {
    Drop(number, absl::ResourceExhaustedError("it was too slow"));
  }
}

void RingReaders::RefreshAndDrop(uint64_t head, uint64_t count) {
  if (!Refresh(head)) {
    DropBad(head);
    Refresh(head);
  }
  if (policy_ != RingPolicy::kDropReader || HasRoom(head, count)) return;
  DropSlow(head, count);
  Refresh(head);
}

absl::Status RingReaders::DropDead() {
  for (;;) {
    TENON_ASSIGN_OR_RETURN(const uint64_t* dead, bell_.FindDead());
    if (dead == nullptr) return absl::OkStatus();
    Drop(*dead, absl::UnavailableError("it has died"));
  }
}

std::string RingReaders::DescribeSlowest(uint64_t head) const {
  const Reader* slowest = nullptr;
  for (const auto& reader : readers_) {
    if (slowest == nullptr ||
        head - reader->tail.position() > head - slowest->tail.position()) {
      slowest = reader.get();
    }
  }
  if (slowest == nullptr) return "there is no reader";
  return absl::StrCat(slowest->Describe(), " has not read the last ",
                      head - slowest->tail.position(), " records");
}

uint64_t RingReaders::rings() const {
  uint64_t rings = old_rings_;
  for (const auto& reader : readers_) rings += reader->ringer.rings();
  return rings;
}

}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/ring/ring_offer.h"

#include <string.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/ring/internal/ring_layout.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {
namespace {

absl::Status CheckVersion(uint64_t version) {
  if (version == kRingVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("a ring of layout version ", version,
                   ", and this build of Tenon has version ", kRingVersion));
}

template <typename Message>
std::string BytesOf(const Message& message) {
  return std::string(reinterpret_cast<const char*>(&message), sizeof(message));
}

template <typename Message>
absl::StatusOr<Message> Read(absl::string_view bytes, uint64_t expected_magic,
                             absl::string_view what) {
  Message message;
  // Another version may have another size. Magic and version lie first in all.
  uint64_t magic = 0;
  uint32_t version = 0;
  if (bytes.size() >= sizeof(magic) + sizeof(version)) {
    memcpy(&magic, bytes.data(), sizeof(magic));
    memcpy(&version, bytes.data() + sizeof(magic), sizeof(version));
    if (magic == expected_magic) {
      TENON_RETURN_IF_ERROR(CheckVersion(version));
    }
  }
  if (bytes.size() != sizeof(message)) {
    return absl::InvalidArgumentError(
        absl::StrCat(bytes.size(), " bytes are no ", what, " of a ring"));
  }
  memcpy(static_cast<void*>(&message), bytes.data(), sizeof(message));
  return message;
}

// Numbers are counted from 1 on, and shifted.
absl::Status CheckPlace(uint64_t index, uint64_t number) {
  if (index < RingSizes::kMaxReaders && number >= 1 &&
      number <= ~uint64_t{0} >> 2) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("reader ", number, " at place ", index, " of a ring with ",
                   RingSizes::kMaxReaders, " places cannot be"));
}

}  // namespace

absl::Status CheckRingKind(const RingKind& kind) {
  if (kind.magic != RingKind::kMagic) {
    return absl::InvalidArgumentError("what was received is no ring");
  }
  TENON_RETURN_IF_ERROR(CheckVersion(kind.version));
  const RingSizes sizes = {kind.record_bytes, kind.capacity};
  if (!sizes.valid()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a ring of ", kind.capacity, " records of ", kind.record_bytes,
        " bytes cannot be: a record has 8 to ", RingSizes::kMaxRecordBytes,
        " bytes, in steps of 8, and there is a power of two of them, in at "
        "most ",
        RingSizes::kMaxBytes, " bytes"));
  }
  if (kind.policy > static_cast<uint32_t>(RingPolicy::kDropReader)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a ring has no policy ", kind.policy));
  }
  return absl::OkStatus();
}

std::string RingOfferMessage::ToBytes() const { return BytesOf(*this); }

absl::StatusOr<RingOfferMessage> RingOfferMessage::FromBytes(
    absl::string_view bytes) {
  TENON_ASSIGN_OR_RETURN(
      const auto message,
      Read<RingOfferMessage>(bytes, RingKind::kMagic, "offer"));
  TENON_RETURN_IF_ERROR(CheckRingKind(message.kind));
  TENON_RETURN_IF_ERROR(CheckPlace(message.index, message.number));
  return message;
}

std::string RingReplyMessage::ToBytes() const { return BytesOf(*this); }

absl::StatusOr<RingReplyMessage> RingReplyMessage::FromBytes(
    absl::string_view bytes) {
  TENON_ASSIGN_OR_RETURN(const auto message,
                         Read<RingReplyMessage>(bytes, kMagic, "reply"));
  if (message.magic != kMagic) {
    return absl::InvalidArgumentError(
        "what was received is no reply to the offer of a ring");
  }
  TENON_RETURN_IF_ERROR(CheckVersion(message.version));
  TENON_RETURN_IF_ERROR(CheckPlace(message.index, message.number));
  return message;
}

absl::StatusOr<RingFds> RingFds::From(std::vector<UniqueFd> fds) {
  if (fds.size() != 3) {
    return absl::InvalidArgumentError(absl::StrCat(
        fds.size(), " descriptors came with a ring, which needs 3"));
  }
  return RingFds{std::move(fds[0]), std::move(fds[1]), std::move(fds[2])};
}

absl::StatusOr<RingOffer> RingOffer::FromMessage(absl::string_view bytes,
                                                 std::vector<UniqueFd> fds) {
  RingOffer offer;
  TENON_ASSIGN_OR_RETURN(offer.message, RingOfferMessage::FromBytes(bytes));
  TENON_ASSIGN_OR_RETURN(offer.fds, RingFds::From(std::move(fds)));
  return offer;
}

absl::StatusOr<RingReply> RingReply::FromMessage(absl::string_view bytes,
                                                 std::vector<UniqueFd> fds) {
  RingReply reply;
  TENON_ASSIGN_OR_RETURN(reply.message, RingReplyMessage::FromBytes(bytes));
  TENON_ASSIGN_OR_RETURN(reply.fds, RingFds::From(std::move(fds)));
  return reply;
}

}  // namespace tenon

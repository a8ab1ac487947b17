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
#include "tenon/ipc/ring/ring_geometry.h"
#include "tenon/shm/base/size_text.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {
namespace {

absl::Status CheckVersion(uint64_t version) {
  if (version == RingVersion()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the ring has layout version ", version,
                   "; this build of Tenon has version ", RingVersion()));
}

template <typename Message>
std::string BytesOf(const Message& message) {
  return std::string(reinterpret_cast<const char*>(&message), sizeof(message));
}

template <typename Message>
absl::StatusOr<Message> Read(absl::string_view bytes, uint64_t expected_magic,
                             absl::string_view what) {
  Message message;
  // Another version may have another size. Magic and version come first in all.
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
        absl::StrCat("the ", what, " of a ring has ", sizeof(message),
                     " bytes; got ", bytes.size()));
  }
  memcpy(static_cast<void*>(&message), bytes.data(), sizeof(message));
  return message;
}

// Numbers count from 1 on, and are shifted.
absl::Status CheckSlot(uint64_t index, uint64_t number) {
  if (index < RingGeometry::kMaxReaders && number >= 1 &&
      number <= ~uint64_t{0} >> 2) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "reader ", number, " in slot ", index, " is out of range: a ring has ",
      RingGeometry::kMaxReaders, " slots"));
}

}  // namespace

absl::Status CheckRingGeometry(const RingGeometry& geometry) {
  if (geometry.magic != RingGeometry::kMagic) {
    return absl::InvalidArgumentError(
        "the offer is not that of a ring: bad magic");
  }
  TENON_RETURN_IF_ERROR(CheckVersion(geometry.version));
  if (!geometry.valid_sizes()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a ring of ", geometry.capacity, " records of ",
        SizeText(geometry.record_bytes),
        " is out of range: want records of 8 to ",
        SizeText(RingGeometry::kMaxRecordBytes),
        ", a multiple of 8, and a power of two of them in at most ",
        SizeText(RingGeometry::kMaxBytes)));
  }
  if (geometry.policy > static_cast<uint32_t>(RingPolicy::kDropReader)) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown policy ", geometry.policy, " of a ring"));
  }
  return absl::OkStatus();
}

std::string RingOfferMessage::ToBytes() const { return BytesOf(*this); }

absl::StatusOr<RingOfferMessage> RingOfferMessage::FromBytes(
    absl::string_view bytes) {
  TENON_ASSIGN_OR_RETURN(
      const auto message,
      Read<RingOfferMessage>(bytes, RingGeometry::kMagic, "offer"));
  TENON_RETURN_IF_ERROR(CheckRingGeometry(message.geometry));
  TENON_RETURN_IF_ERROR(CheckSlot(message.index, message.number));
  return message;
}

std::string RingReplyMessage::ToBytes() const { return BytesOf(*this); }

absl::StatusOr<RingReplyMessage> RingReplyMessage::FromBytes(
    absl::string_view bytes) {
  TENON_ASSIGN_OR_RETURN(const auto message,
                         Read<RingReplyMessage>(bytes, kMagic, "reply"));
  if (message.magic != kMagic) {
    return absl::InvalidArgumentError(
        "the message is not the reply to a ring's offer: bad magic");
  }
  TENON_RETURN_IF_ERROR(CheckVersion(message.version));
  TENON_RETURN_IF_ERROR(CheckSlot(message.index, message.number));
  return message;
}

absl::StatusOr<RingFds> RingFds::From(std::vector<UniqueFd> fds) {
  if (fds.size() != 3) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a ring's message came with ", fds.size(), " descriptors; want 3"));
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

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// RingOffer and RingReply: the messages that producer and reader of a ring
// exchange once, over anything that carries bytes and descriptors.
//
//   producer                            reader
//   offer = producer.Offer()    --->    RingReader::Attach(offer)
//   producer.AddReader(reply)   <---    reader.Reply()
//
// The producer sends the offer, and the reader parses it:
//
//   const std::array<int, 3> fds = offer.fds.get();
//   TENON_RETURN_IF_ERROR(
//       channel.Send(offer.message.ToBytes(), fds, deadline));
//
//   // The reader:
//   TENON_ASSIGN_OR_RETURN(Message m, channel.Receive(deadline));
//   TENON_ASSIGN_OR_RETURN(
//       RingOffer offer, RingOffer::FromMessage(m.bytes, std::move(m.fds)));

#ifndef TENON_IPC_RING_RING_OFFER_H_
#define TENON_IPC_RING_RING_OFFER_H_

#include <array>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/ring/ring_geometry.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {

struct RingOfferMessage {
  RingGeometry geometry;
  RandomId ring;
  // The reader's slot among the producer's words, and its number, which is
  // unique within the ring.
  uint64_t index = 0;
  uint64_t number = 0;

  std::string ToBytes() const;
  // Errors: kInvalidArgument if it is malformed; kFailedPrecondition naming
  // both versions if it is of another version.
  static absl::StatusOr<RingOfferMessage> FromBytes(absl::string_view bytes);
};

struct RingReplyMessage {
  static constexpr uint64_t kMagic = 0x31796c7065726e54;  // "Tnreply1".

  uint64_t magic = kMagic;
  uint64_t version = RingVersion();
  RandomId ring;
  uint64_t index = 0;
  uint64_t number = 0;

  std::string ToBytes() const;
  // Errors: as RingOfferMessage::FromBytes().
  static absl::StatusOr<RingReplyMessage> FromBytes(absl::string_view bytes);
};

static_assert(std::is_trivially_copyable_v<RingOfferMessage>);
static_assert(std::has_unique_object_representations_v<RingOfferMessage>);
static_assert(std::is_trivially_copyable_v<RingReplyMessage>);
static_assert(std::has_unique_object_representations_v<RingReplyMessage>);

// The descriptors of either, in this order.
struct RingFds {
  UniqueFd memory;   // Its own words; sealed.
  UniqueFd bell;     // Wakes it: see DoorbellRinger.
  UniqueFd process;  // Its pidfd.

  std::array<int, 3> get() const {
    return {memory.get(), bell.get(), process.get()};
  }
  // Errors: kInvalidArgument unless there are three.
  static absl::StatusOr<RingFds> From(std::vector<UniqueFd> fds);
};

// Ownership: owns its descriptors. For one Attach(), which takes them if
//   it succeeds. The receiver validates the type of each descriptor.
struct RingOffer {
  RingOfferMessage message;
  RingFds fds;

  // Errors: as RingOfferMessage::FromBytes() and RingFds::From().
  static absl::StatusOr<RingOffer> FromMessage(absl::string_view bytes,
                                               std::vector<UniqueFd> fds);
};

struct RingReply {
  RingReplyMessage message;
  RingFds fds;

  // Errors: as RingReplyMessage::FromBytes() and RingFds::From().
  static absl::StatusOr<RingReply> FromMessage(absl::string_view bytes,
                                               std::vector<UniqueFd> fds);
};

// Validates the geometry in a ring's memory or message. Errors:
// kInvalidArgument; kFailedPrecondition for another version, naming both.
absl::Status CheckRingGeometry(const RingGeometry& geometry);

}  // namespace tenon

#endif  // TENON_IPC_RING_RING_OFFER_H_

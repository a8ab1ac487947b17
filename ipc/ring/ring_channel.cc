// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/ring/ring_channel.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/ring/ring.h"
#include "tenon/ipc/ring/ring_offer.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon {
namespace {

constexpr size_t kFds = 3;  // Of RingFds.

}  // namespace

absl::StatusOr<uint64_t> SendRingOffer(RingProducer& ring, Channel& channel,
                                       Deadline deadline) {
  TENON_ASSIGN_OR_RETURN(const RingOffer offer, ring.Offer());
  const uint64_t number = offer.message.number;
  const absl::Status sent =
      channel.Send(offer.message.ToBytes(), offer.fds.get(), deadline);
  if (sent.ok()) return number;
  ring.RemoveReader(number).IgnoreError();
  return sent;
}

absl::StatusOr<uint64_t> ReceiveRingReply(RingProducer& ring, uint64_t offer,
                                          Channel& channel, Deadline deadline) {
  TENON_ASSIGN_OR_RETURN(Message message, channel.Receive(deadline, kFds));
  TENON_ASSIGN_OR_RETURN(
      RingReply reply,
      RingReply::FromMessage(message.bytes, std::move(message.fds)));
  if (reply.message.number != offer) {
    return absl::InvalidArgumentError(
        "AddRingReader(): the reply answers another offer of this ring");
  }
  return ring.AddReader(std::move(reply));
}

absl::StatusOr<uint64_t> AddRingReader(RingProducer& ring, Channel& channel,
                                       Deadline deadline) {
  TENON_ASSIGN_OR_RETURN(const uint64_t offer,
                         SendRingOffer(ring, channel, deadline));
  absl::StatusOr<uint64_t> reader =
      ReceiveRingReply(ring, offer, channel, deadline);
  if (!reader.ok()) ring.RemoveReader(offer).IgnoreError();
  return reader;
}

absl::StatusOr<std::unique_ptr<RingReader>> JoinRing(Channel& channel,
                                                     Deadline deadline) {
  TENON_ASSIGN_OR_RETURN(Message message, channel.Receive(deadline, kFds));
  TENON_ASSIGN_OR_RETURN(
      RingOffer offer,
      RingOffer::FromMessage(message.bytes, std::move(message.fds)));
  TENON_ASSIGN_OR_RETURN(auto reader, RingReader::Attach(std::move(offer)));
  TENON_ASSIGN_OR_RETURN(const RingReply reply, reader->Reply());
  TENON_RETURN_IF_ERROR(
      channel.Send(reply.message.ToBytes(), reply.fds.get(), deadline));
  return reader;
}

}  // namespace tenon

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

absl::StatusOr<uint64_t> Exchange(RingProducer& ring, const RingOffer& offer,
                                  Channel& channel, Deadline deadline) {
  TENON_RETURN_IF_ERROR(
      channel.Send(offer.message.ToBytes(), offer.fds.get(), deadline));
  TENON_ASSIGN_OR_RETURN(Message message, channel.Receive(deadline, kFds));
  TENON_ASSIGN_OR_RETURN(
      RingReply reply,
      RingReply::FromMessage(message.bytes, std::move(message.fds)));
  if (reply.message.number != offer.message.number) {
    return absl::InvalidArgumentError(
        "AddRingReader(): the reply answers another offer of this ring");
  }
  return ring.AddReader(std::move(reply));
}

}  // namespace

absl::StatusOr<uint64_t> AddRingReader(RingProducer& ring, Channel& channel,
                                       Deadline deadline) {
  TENON_ASSIGN_OR_RETURN(const RingOffer offer, ring.Offer());
  absl::StatusOr<uint64_t> reader = Exchange(ring, offer, channel, deadline);
  if (!reader.ok()) ring.RemoveReader(offer.message.number).IgnoreError();
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

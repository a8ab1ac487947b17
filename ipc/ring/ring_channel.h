// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Adds a reader in another process to a ring: exchanges offer and reply through
// a Channel, once.
//
//   // The producer:
//   TENON_RETURN_IF_ERROR(AddRingReader(*ring, channel, deadline).status());
//
//   // The reader, at the other end:
//   TENON_ASSIGN_OR_RETURN(auto reader, JoinRing(channel, deadline));

#ifndef TENON_IPC_RING_RING_CHANNEL_H_
#define TENON_IPC_RING_RING_CHANNEL_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/ring/ring.h"
#include "tenon/shm/base/deadline.h"

namespace tenon {

// Sends an offer, waits for the reply, and adds the reader; returns its number.
// Blocks until `deadline`. Trust: of the peer, as RingProducer of its readers;
// any message other than a reply is an error. After an error no reader has been
// added, and the offer is withdrawn; the channel stays usable unless the error
// says otherwise.
// Errors: RingProducer::Offer()'s and AddReader()'s; Channel's.
absl::StatusOr<uint64_t> AddRingReader(RingProducer& ring, Channel& channel,
                                       Deadline deadline);

// The two halves of AddRingReader(), for a producer that has other work before
// the reply comes: SendRingOffer() returns the number of the offer, which
// ReceiveRingReply() is given. The latter changes nothing if it fails with
// kDeadlineExceeded, and may be repeated; after another error the offer is
// withdrawn by RingProducer::RemoveReader(). Errors: AddRingReader()'s.
absl::StatusOr<uint64_t> SendRingOffer(RingProducer& ring, Channel& channel,
                                       Deadline deadline);
absl::StatusOr<uint64_t> ReceiveRingReply(RingProducer& ring, uint64_t offer,
                                          Channel& channel, Deadline deadline);

// Waits for an offer, attaches to the ring and replies. The next message of the
// channel must be the offer. Records put from then on are received. Blocks
// until `deadline`. Errors: RingReader::Attach()'s; Channel's. After an error
// the offer is lost: the producer has to call LetInReader() again.
absl::StatusOr<std::unique_ptr<RingReader>> JoinRing(Channel& channel,
                                                     Deadline deadline);

}  // namespace tenon

#endif  // TENON_IPC_RING_RING_CHANNEL_H_

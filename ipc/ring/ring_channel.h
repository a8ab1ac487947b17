// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// How a ring gets a reader in another process: offer and reply through a
// Channel, once.
//
//   // The producer:
//   TENON_RETURN_IF_ERROR(LetInReader(*ring, channel, deadline).status());
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

// Sends an offer, waits for the reply, and lets the reader in; returns its
// number. Blocks until `deadline`. Trust: of the peer, as RingProducer of its
// readers; any other message than a reply is an error. After an error nobody
// has been let in, and the offer is withdrawn; the channel stays usable unless
// it says otherwise.
// Errors: RingProducer::Offer()'s and AddReader()'s; Channel's.
absl::StatusOr<uint64_t> LetInReader(RingProducer& ring, Channel& channel,
                                     Deadline deadline);

// Waits for an offer, attaches to the ring and replies. The next message of the
// channel is to be the offer. Records put from then on arrive. Blocks until
// `deadline`. Errors: RingReader::Attach()'s; Channel's.
absl::StatusOr<std::unique_ptr<RingReader>> JoinRing(Channel& channel,
                                                     Deadline deadline);

}  // namespace tenon

#endif  // TENON_IPC_RING_RING_CHANNEL_H_

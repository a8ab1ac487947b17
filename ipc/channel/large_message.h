// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Messages that are too large for a datagram: in a sealed segment of their own.

#ifndef TENON_IPC_CHANNEL_LARGE_MESSAGE_H_
#define TENON_IPC_CHANNEL_LARGE_MESSAGE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/segment.h"

namespace tenon {

// A sealed segment with a copy of `bytes`. Errors: those of
// Segment::CreateFilled().
absl::StatusOr<Segment> StoreMessage(absl::string_view bytes);

// The contents of the segment `*fd`, which a peer announced with `announced`
// bytes. Reads it without mapping it: pages that the peer left out cost nothing
// here. Takes the descriptor if it is that of a segment.
// Errors: kDataLoss if it is not a sealed segment of this size;
// kResourceExhausted if it exceeds `max_bytes`, or if there is no memory for
// it; nothing has been read then.
absl::StatusOr<std::string> LoadMessage(UniqueFd* fd, uint64_t announced,
                                        uint64_t max_bytes);

}  // namespace tenon

#endif  // TENON_IPC_CHANNEL_LARGE_MESSAGE_H_

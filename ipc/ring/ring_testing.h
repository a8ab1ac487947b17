// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// For tests of rings: what a channel would do between two processes, and
// records that say which they are.

#ifndef TENON_IPC_RING_RING_TESTING_H_
#define TENON_IPC_RING_RING_TESTING_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/ring/ring.h"
#include "tenon/ipc/ring/ring_offer.h"
#include "tenon/shm/testing/kill/peer.h"

namespace tenon {

// A record of `words` words, each of which follows from its number.
template <size_t words>
using RecordOf = std::array<uint64_t, words>;
using Record = RecordOf<8>;

template <size_t words = 8>
RecordOf<words> MakeRecord(uint64_t number) {
  RecordOf<words> record;
  for (size_t i = 0; i < words; ++i) {
    record[i] = (number + 1) * 0x9e3779b97f4a7c15 + i;
  }
  return record;
}

template <size_t words>
std::span<const std::byte> BytesOf(const RecordOf<words>& record) {
  return std::as_bytes(std::span(record));
}
template <size_t words>
std::span<std::byte> BytesOf(RecordOf<words>& record) {
  return std::as_writable_bytes(std::span(record));
}

// Makes a reader in this process.
absl::StatusOr<std::unique_ptr<RingReader>> AddReaderTo(RingProducer& producer);

// Puts record `number`; gets one, which must be that.
absl::Status PutRecord(RingProducer& producer, uint64_t number,
                       Deadline deadline);
absl::Status GetRecord(RingReader& reader, uint64_t number, Deadline deadline);

// In memory that the peers of a test share: the bytes of an offer or a reply.
struct RingBoard {
  RingOfferMessage offer;
  RingReplyMessage reply;
};

// Offer and reply between two peers; both block for the other.
// On the producer's side; returns the reader's number.
absl::StatusOr<uint64_t> LetIn(Peer& self, absl::string_view other,
                               RingBoard& board, RingProducer& producer);
// On the reader's.
absl::StatusOr<std::unique_ptr<RingReader>> Join(Peer& self,
                                                 absl::string_view other,
                                                 RingBoard& board);

}  // namespace tenon

#endif  // TENON_IPC_RING_RING_TESTING_H_

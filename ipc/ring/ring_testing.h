// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// For tests of rings: replaces a channel between two processes, and makes
// records that identify themselves.

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

// A record of `words` words; each follows from the record's number.
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

// Puts record `number`; gets a record, which must be that one.
absl::Status PutRecord(RingProducer& producer, uint64_t number,
                       Deadline deadline);
absl::Status GetRecord(RingReader& reader, uint64_t number, Deadline deadline);

// In memory shared by the peers of a test: the bytes of an offer or a reply.
struct RingBoard {
  RingOfferMessage offer;
  RingReplyMessage reply;
};

// Exchange offer and reply between two peers; both wait for each other. LetIn()
// is the producer's; returns the reader's number.
absl::StatusOr<uint64_t> LetIn(Peer& self, absl::string_view other,
                               RingBoard& board, RingProducer& producer);
// The reader's.
absl::StatusOr<std::unique_ptr<RingReader>> Join(Peer& self,
                                                 absl::string_view other,
                                                 RingBoard& board);

}  // namespace tenon

#endif  // TENON_IPC_RING_RING_TESTING_H_

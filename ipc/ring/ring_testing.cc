// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/ring/ring_testing.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/ring/ring.h"
#include "tenon/ipc/ring/ring_offer.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/kill/peer.h"

namespace tenon {
namespace {

absl::Status Give(Peer& self, absl::string_view other, const RingFds& fds,
                  absl::string_view step) {
  for (const int fd : fds.get()) {
    TENON_RETURN_IF_ERROR(self.GiveFd(other, fd));
  }
  self.Step(absl::StrCat(step, " to ", other));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<UniqueFd>> Take(Peer& self, absl::string_view other,
                                           absl::string_view step) {
  TENON_RETURN_IF_ERROR(
      self.Await(other, absl::StrCat(step, " to ", self.name())));
  std::vector<UniqueFd> fds(3);
  for (UniqueFd& fd : fds) {
    TENON_ASSIGN_OR_RETURN(fd, self.TakeFd(other));
  }
  return fds;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RingReader>> AddReaderTo(
    RingProducer& producer) {
  TENON_ASSIGN_OR_RETURN(RingOffer offer, producer.Offer());
  TENON_ASSIGN_OR_RETURN(auto reader, RingReader::Attach(std::move(offer)));
  TENON_ASSIGN_OR_RETURN(RingReply reply, reader->Reply());
  TENON_RETURN_IF_ERROR(producer.AddReader(std::move(reply)).status());
  return reader;
}

absl::Status PutRecord(RingProducer& producer, uint64_t number,
                       Deadline deadline) {
  const Record record = MakeRecord(number);
  return producer.Put(BytesOf(record), deadline);
}

absl::Status GetRecord(RingReader& reader, uint64_t number, Deadline deadline) {
  Record record = {};
  TENON_RETURN_IF_ERROR(reader.Get(BytesOf(record), deadline).status());
  if (record == MakeRecord(number)) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("another record came than number ", number));
}

absl::StatusOr<uint64_t> LetIn(Peer& self, absl::string_view other,
                               RingBoard& board, RingProducer& producer) {
  TENON_ASSIGN_OR_RETURN(const RingOffer offer, producer.Offer());
  board.offer = offer.message;
  TENON_RETURN_IF_ERROR(Give(self, other, offer.fds, "offer"));
  TENON_ASSIGN_OR_RETURN(auto fds, Take(self, other, "reply"));
  TENON_ASSIGN_OR_RETURN(
      RingReply reply,
      RingReply::FromMessage(board.reply.ToBytes(), std::move(fds)));
  return producer.AddReader(std::move(reply));
}

absl::StatusOr<std::unique_ptr<RingReader>> Join(Peer& self,
                                                 absl::string_view other,
                                                 RingBoard& board) {
  TENON_ASSIGN_OR_RETURN(auto fds, Take(self, other, "offer"));
  TENON_ASSIGN_OR_RETURN(
      RingOffer offer,
      RingOffer::FromMessage(board.offer.ToBytes(), std::move(fds)));
  TENON_ASSIGN_OR_RETURN(auto reader, RingReader::Attach(std::move(offer)));
  TENON_ASSIGN_OR_RETURN(const RingReply reply, reader->Reply());
  board.reply = reply.message;
  TENON_RETURN_IF_ERROR(Give(self, other, reply.fds, "reply"));
  return reader;
}

}  // namespace tenon

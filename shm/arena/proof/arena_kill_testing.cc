// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/proof/arena_kill_testing.h"

#include <fcntl.h>
#include <string.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon {
namespace {

// Two blocks, or two generations of one, differ in every word.
uint64_t FirstWord(const BlockDescriptor& block) {
  uint64_t word = block.arena.low ^ (block.generation << 24 | block.block);
  word = (word ^ word >> 33) * 0xff51afd7ed558ccd;
  return word ^ word >> 33;
}

constexpr uint64_t kStep = 0x9e3779b97f4a7c15;

}  // namespace

void FillPattern(std::span<std::byte> bytes, const BlockDescriptor& block) {
  uint64_t word = FirstWord(block);
  for (size_t at = 0; at + sizeof(word) <= bytes.size(); at += sizeof(word)) {
    memcpy(bytes.data() + at, &word, sizeof(word));
    word += kStep;
  }
}

bool HasPattern(std::span<const std::byte> bytes,
                const BlockDescriptor& block) {
  uint64_t expected = FirstWord(block);
  for (size_t at = 0; at + sizeof(expected) <= bytes.size();
       at += sizeof(expected)) {
    uint64_t word;
    memcpy(&word, bytes.data() + at, sizeof(word));
    if (word != expected) return false;
    expected += kStep;
  }
  return true;
}

absl::StatusOr<SentBlock> MakeSentBlock(Arena& arena, size_t bytes) {
  SentBlock sent;
  TENON_ASSIGN_OR_RETURN(sent.block, arena.TryAllocate(bytes));
  TENON_ASSIGN_OR_RETURN(sent.message, sent.block.Describe());
  FillPattern(sent.block.bytes(), sent.message);
  return sent;
}

std::vector<UniqueFd> CopyFds(const std::vector<int>& fds) {
  std::vector<UniqueFd> copies;
  for (const int fd : fds) {
    copies.emplace_back(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  }
  return copies;
}

absl::StatusOr<std::shared_ptr<AttachedArena>> AttachTo(
    const ArenaOffer& offer) {
  return AttachedArena::Attach(offer.bytes, CopyFds(offer.fds));
}

absl::Status GiveOffer(Peer& self, absl::string_view other, OfferBoard& board,
                       const ArenaOffer& offer) {
  TENON_RETURN_IF_ERROR(
      Expect(offer.bytes.size() <= sizeof(board.bytes), "a long offer"));
  board.size = offer.bytes.size();
  board.fds = offer.fds.size();
  memcpy(board.bytes, offer.bytes.data(), offer.bytes.size());
  for (const int fd : offer.fds) {
    TENON_RETURN_IF_ERROR(self.GiveFd(other, fd));
  }
  self.Step(absl::StrCat("offered to ", other));  // Unblocks all waiting peers.
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<AttachedArena>> TakeOfferAndAttach(
    Peer& self, absl::string_view other, const OfferBoard& board) {
  TENON_RETURN_IF_ERROR(
      self.Await(other, absl::StrCat("offered to ", self.name())));
  std::vector<UniqueFd> fds;
  for (uint64_t i = 0; i < board.fds; ++i) {
    TENON_ASSIGN_OR_RETURN(UniqueFd fd, self.TakeFd(other));
    fds.push_back(std::move(fd));
  }
  return AttachedArena::Attach(absl::string_view(board.bytes, board.size),
                               std::move(fds));
}

ArenaOptions SmallArena(SharingStrategy strategy, const std::string& prefix,
                        size_t blocks, size_t block_bytes) {
  ArenaOptions options;
  options.segment.strategy = strategy;
  options.segment.name_prefix = prefix;
  options.quota_bytes = blocks * block_bytes;
  options.segment_bytes = options.quota_bytes;
  options.max_blocks = 8192;
  return options;
}

absl::Status Expect(bool holds, absl::string_view what) {
  return holds ? absl::OkStatus() : absl::InternalError(what);
}

uint64_t NumberFromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  uint64_t number;
  return text != nullptr && absl::SimpleAtoi(text, &number) ? number
                                                            : otherwise;
}

}  // namespace tenon

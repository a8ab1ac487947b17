// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Fuzz target of ArenaOffer and BlockDescriptor: both are a peer's bytes. An
// offer is parsed as by a simpler reference parser; ranges then added to an
// attached arena or claimed there are inside its segment, and no descriptor
// leaks.
//
// An input is a byte of flags, a descriptor of a block (48 bytes), and an offer
// (the rest). The flags select fields to be corrected, so that later checks are
// reached: 1: the arena of the descriptor; 2: its segment and block; 4: its
// generation; 8: the arena of the offer; and 16: that the offer is added.
//
// As a test it replays testdata/arena_offer_fuzz and mutations of it. As a
// fuzzer: clang++ -std=c++20 -DTENON_FUZZ -fsanitize=fuzzer,address,undefined,
// with the sources of //shm/arena and //shm/arena:attached_arena and
// their dependencies.

#include <fcntl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/attached_arena.h"
#include "tenon/shm/arena/block_descriptor.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/sharing_strategy.h"

#ifndef TENON_FUZZ
#include "gtest/gtest.h"
#include "tenon/shm/testing/fuzz_testing.h"
#endif

namespace tenon {
namespace {

constexpr size_t kBlockBytes = 4096;
constexpr size_t kOfferBytes = 32;  // Without a name.
constexpr size_t kArenaAt = 8;

int Duplicate(int fd) { return fcntl(fd, F_DUPFD_CLOEXEC, 0); }

// The number of the next descriptor: unchanged if none leaked.
int NextFd() { return UniqueFd(Duplicate(0)).get(); }

// An honest owner, whose block is full of the same byte, and a process that is
// attached.
struct Honest {
  std::shared_ptr<Arena> arena =
      Arena::Create({.segment = {.strategy = SharingStrategy::kFileDescriptor},
                     .max_blocks = 8192})
          .value();
  Block block = arena->TryAllocate(kBlockBytes).value();
  BlockDescriptor message = block.Describe().value();
  ArenaOffer offer = arena->Offer(block).value();
  std::shared_ptr<AttachedArena> attached =
      AttachedArena::Attach(offer.bytes, FdsOf(offer)).value();

  static std::vector<UniqueFd> FdsOf(const ArenaOffer& offer) {
    std::vector<UniqueFd> fds;
    for (const int fd : offer.fds) fds.emplace_back(Duplicate(fd));
    return fds;
  }
};

const Honest& GetHonest() {
  static const Honest& honest = *[] {
    auto* const made = new Honest();
    std::memset(made->block.data(), 0x5a, made->block.size());
    return made;
  }();
  return honest;
}

// A parse by hand.
bool PlainIsOffer(absl::string_view bytes) {
  uint32_t by_name = 0;
  if (bytes.size() < kOfferBytes) return false;
  std::memcpy(&by_name, bytes.data() + kOfferBytes - 4, 4);
  return bytes.substr(0, 8) == "Taoffer1" && by_name <= 1;
}

void FuzzOffer(absl::string_view bytes) {
  const auto facts = ArenaOfferFacts::FromBytes(bytes);
  TENON_CHECK(facts.ok() == PlainIsOffer(bytes),
              "an offer was refused, or the other way round");
  if (!facts.ok()) {
    TENON_CHECK(absl::IsInvalidArgument(facts.status()), "another error");
    return;
  }
  const bool by_name = facts->strategy == SharingStrategy::kFileSystem;
  const auto whole = bytes.substr(0, by_name ? bytes.size() : kOfferBytes);
  TENON_CHECK(facts->ToBytes() == std::string(whole),
              "an offer is not what was sent");
}

void FuzzAdd(const Honest& honest, absl::string_view bytes) {
  const int next_fd = NextFd();
  const absl::Status added =
      honest.attached->Add(bytes, Honest::FdsOf(honest.offer));
  TENON_CHECK(!added.ok() || PlainIsOffer(bytes), "no offer was added");
  TENON_CHECK(
      added.ok() || absl::IsInvalidArgument(added) || absl::IsNotFound(added),
      "another error");
  TENON_CHECK(NextFd() == next_fd, "a descriptor was left open");
}

void FuzzClaim(const Honest& honest, const BlockDescriptor& wanted) {
  const BlockDescriptor& good = honest.message;
  // The segment's other blocks exist, and have generation 0, too.
  const bool is_there = wanted.arena == good.arena &&
                        wanted.segment == good.segment && wanted.block < 64 &&
                        wanted.generation == 0 && wanted.size <= kBlockBytes &&
                        wanted.offset <= kBlockBytes - wanted.size;
  const absl::StatusOr<Hold> hold = honest.attached->Claim(wanted);
  TENON_CHECK(hold.ok() == is_there,
              "what is there was refused, or the other way round");
  if (!hold.ok()) {
    TENON_CHECK(!hold.status().message().empty(), "an error is silent");
    return;
  }
  TENON_CHECK(hold->size() == wanted.size, "another size");
  const std::byte expected{wanted.block == good.block ? uint8_t{0x5a}
                                                      : uint8_t{0}};
  TENON_CHECK(std::all_of(hold->bytes().begin(), hold->bytes().end(),
                          [&](std::byte b) { return b == expected; }),
              "bytes of another block");
}

void FuzzOne(const uint8_t* data, size_t size) {
  const Honest& honest = GetHonest();
  uint8_t flags = 0;
  BlockDescriptor wanted;
  std::string offer;
  if (size > 0) flags = data[0];
  if (size > 1) {
    std::memcpy(static_cast<void*>(&wanted), data + 1,
                std::min(size - 1, sizeof(wanted)));
  }
  if (size > 1 + sizeof(wanted)) {
    offer.assign(data + 1 + sizeof(wanted), data + size);
  }
  if (flags & 1) wanted.arena = honest.message.arena;
  if (flags & 2) {
    wanted.segment = honest.message.segment;
    wanted.block = honest.message.block;
  }
  if (flags & 4) wanted.generation = honest.message.generation;
  if ((flags & 8) && offer.size() >= kArenaAt + sizeof(RandomId)) {
    std::memcpy(offer.data() + kArenaAt, &honest.message.arena,
                sizeof(RandomId));
  }
  FuzzOffer(offer);
  FuzzClaim(honest, wanted);
  if (flags & 16) FuzzAdd(honest, offer);
}

}  // namespace
}  // namespace tenon

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tenon::FuzzOne(data, size);
  return 0;
}

#ifndef TENON_FUZZ

namespace tenon {
namespace {

TEST(ArenaOfferFuzzTest, CorpusAndItsMutations) {
  ReplayCorpus(LLVMFuzzerTestOneInput, "shm/arena/testdata/arena_offer_fuzz",
               {.mutations = 100'000});
}

}  // namespace
}  // namespace tenon

#endif  // TENON_FUZZ

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Fuzz target of RingOfferMessage and RingReplyMessage, a peer's bytes: each is
// parsed as a plainer implementation does, and encoded to the same bytes. A
// reader attached to the memory of an honest ring has that ring's geometry, and
// an accepted reply answers an open offer; no descriptor stays open.
//
// An input is a byte of flags and a message. 1: it is an offer, else a reply;
// 2: its ring, number and slot are corrected; 4: parsed messages are used.
//
// As a test it replays testdata/ring_offer_fuzz and mutations of it. As a
// fuzzer: clang++ -std=c++20 -DTENON_FUZZ -fsanitize=fuzzer,address,undefined,
// with the sources of //ipc/ring and its dependencies.

#include <fcntl.h>

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
#include "tenon/ipc/ring/ring.h"
#include "tenon/ipc/ring/ring_offer.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/base/unique_fd.h"

#ifndef TENON_FUZZ
#include "gtest/gtest.h"
#include "tenon/shm/testing/fuzz_testing.h"
#endif

namespace tenon {
namespace {

int Duplicate(int fd) { return fcntl(fd, F_DUPFD_CLOEXEC, 0); }

// The number of the next descriptor: unchanged if none leaked.
int NextFd() { return UniqueFd(Duplicate(0)).get(); }

std::vector<UniqueFd> Copies(const RingFds& fds) {
  std::vector<UniqueFd> copies;
  for (const int fd : fds.get()) copies.emplace_back(Duplicate(fd));
  return copies;
}

// A ring with an open offer, and the reader it is for.
struct Honest {
  std::unique_ptr<RingProducer> ring =
      RingProducer::Create({.record_bytes = 8, .capacity = 4}).value();
  RingOffer offer = ring->Offer().value();
  std::unique_ptr<RingReader> reader =
      RingReader::Attach(
          RingOffer::FromMessage(offer.message.ToBytes(), Copies(offer.fds))
              .value())
          .value();
  RingReply reply = reader->Reply().value();
};

Honest& GetHonest() {
  static Honest& honest = *new Honest();
  return honest;
}

uint64_t WordAt(absl::string_view bytes, size_t at) {
  uint64_t word = 0;
  std::memcpy(&word, bytes.data() + at, sizeof(word));
  return word;
}

bool PlainIsSlot(uint64_t index, uint64_t number) {
  return index < 64 && number != 0 && number >> 62 == 0;
}

// Byte by byte, and by division where the checked code multiplies.
bool PlainIsOffer(absl::string_view bytes) {
  if (bytes.size() != 64) return false;
  const uint64_t record = WordAt(bytes, 16), capacity = WordAt(bytes, 24);
  if (bytes.substr(0, 8) != "Tenring1" || bytes[8] != 1) return false;
  if ((WordAt(bytes, 8) & 0xffffff00) != 0) return false;
  if (WordAt(bytes, 8) >> 32 > 2) return false;
  if (record == 0 || record > 65536 || record % 8 != 0) return false;
  if (__builtin_popcountll(capacity) != 1 || capacity > (1 << 24)) return false;
  if (capacity > (1 << 30) / record) return false;
  return PlainIsSlot(WordAt(bytes, 48), WordAt(bytes, 56));
}

bool PlainIsReply(absl::string_view bytes) {
  return bytes.size() == 48 && bytes.substr(0, 8) == "Tnreply1" &&
         WordAt(bytes, 8) == 1 &&
         PlainIsSlot(WordAt(bytes, 32), WordAt(bytes, 40));
}

void CheckError(const absl::Status& status) {
  TENON_CHECK(
      absl::IsInvalidArgument(status) || absl::IsFailedPrecondition(status),
      "another error");
  TENON_CHECK(!status.message().empty(), "an error is silent");
}

void UseOffer(const std::string& bytes) {
  const Honest& honest = GetHonest();
  auto offer = RingOffer::FromMessage(bytes, Copies(honest.offer.fds));
  TENON_CHECK(offer.ok(), "what was good is not");
  const RingGeometry geometry = offer->message.geometry;
  const auto reader = RingReader::Attach(*std::move(offer));
  TENON_CHECK(reader.ok() == (geometry == honest.offer.message.geometry),
              "a ring of another kind, or none of its own");
  if (!reader.ok()) CheckError(reader.status());
}

void UseReply(const std::string& bytes) {
  Honest& honest = GetHonest();
  auto reply = RingReply::FromMessage(bytes, Copies(honest.reply.fds));
  TENON_CHECK(reply.ok(), "what was good is not");
  const RingReplyMessage message = reply->message;
  const auto number = honest.ring->AddReader(*std::move(reply));
  const bool is_it = message.ring == honest.reply.message.ring &&
                     message.index == honest.reply.message.index &&
                     message.number == honest.reply.message.number;
  TENON_CHECK(number.ok() == is_it, "a reply to no offer was let in");
  if (!number.ok()) return CheckError(number.status());
  // Another open offer.
  TENON_CHECK(honest.ring->RemoveReader(*number).ok(), "it is not there");
  honest.ring->TakeEnded();
  honest.offer.message = honest.ring->Offer().value().message;
  honest.reply.message.index = honest.offer.message.index;
  honest.reply.message.number = honest.offer.message.number;
}

void FuzzOffer(std::string bytes, uint8_t flags) {
  const RingOfferMessage& good = GetHonest().offer.message;
  if ((flags & 2) && bytes.size() == sizeof(good)) {
    std::memcpy(bytes.data() + sizeof(RingGeometry),
                good.ToBytes().data() + sizeof(RingGeometry),
                sizeof(good) - sizeof(RingGeometry));
  }
  const auto message = RingOfferMessage::FromBytes(bytes);
  TENON_CHECK(message.ok() == PlainIsOffer(bytes),
              "an offer was refused, or the other way round");
  if (!message.ok()) return CheckError(message.status());
  TENON_CHECK(message->ToBytes() == bytes, "an offer is not what was sent");
  if (flags & 4) UseOffer(bytes);
}

void FuzzReply(std::string bytes, uint8_t flags) {
  const RingReplyMessage& good = GetHonest().reply.message;
  if ((flags & 2) && bytes.size() == sizeof(good)) {
    std::memcpy(bytes.data() + 16, good.ToBytes().data() + 16,
                sizeof(good) - 16);
  }
  const auto message = RingReplyMessage::FromBytes(bytes);
  TENON_CHECK(message.ok() == PlainIsReply(bytes),
              "a reply was refused, or the other way round");
  if (!message.ok()) return CheckError(message.status());
  TENON_CHECK(message->ToBytes() == bytes, "a reply is not what was sent");
  if (flags & 4) UseReply(bytes);
}

void FuzzOne(const uint8_t* data, size_t size) {
  GetHonest();
  const int next_fd = NextFd();
  const uint8_t flags = size > 0 ? data[0] : 0;
  const std::string bytes(size > 0 ? data + 1 : data, data + size);
  if (flags & 1) {
    FuzzOffer(bytes, flags);
  } else {
    FuzzReply(bytes, flags);
  }
  TENON_CHECK(NextFd() == next_fd, "a descriptor was left open");
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

TEST(RingOfferFuzzTest, CorpusAndItsMutations) {
  ReplayCorpus(LLVMFuzzerTestOneInput, "ipc/ring/testdata/ring_offer_fuzz",
               {.mutations = 50'000});
}

}  // namespace
}  // namespace tenon

#endif  // TENON_FUZZ

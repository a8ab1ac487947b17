// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Readers and producers of a ring that behave badly: their words jump, go back
// or flicker, their descriptors are not what they should be, they are stopped.
// TENON_RING_FLIPS=10000000 in the environment takes longer for what flickers.

#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/ring.h"
#include "tenon/ipc/ring_fds.h"
#include "tenon/ipc/ring_layout.h"
#include "tenon/ipc/ring_offer.h"
#include "tenon/ipc/ring_testing.h"
#include "tenon/shm/atomics.h"
#include "tenon/shm/deadline.h"
#include "tenon/shm/ledger/control_memory.h"
#include "tenon/shm/status_matchers.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/peer.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/unique_fd.h"

namespace tenon {
namespace {

using A = StdAtomics;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kDataLoss = absl::StatusCode::kDataLoss;
constexpr auto kDeadlineExceeded = absl::StatusCode::kDeadlineExceeded;
constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;
constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;
constexpr auto kUnavailable = absl::StatusCode::kUnavailable;
constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr uint64_t kCapacity = 8;

const Deadline kNow = Deadline::Passed();
Deadline Soon() { return Deadline::After(absl::Seconds(60)); }

uint64_t Flips() {
  const char* text = std::getenv("TENON_RING_FLIPS");
  uint64_t flips;
  return text != nullptr && absl::SimpleAtoi(text, &flips) ? flips : 100'000;
}

std::unique_ptr<RingProducer> MakeRing(RingPolicy policy = RingPolicy::kWait) {
  return RingProducer::Create({.capacity = kCapacity, .policy = policy})
      .value();
}

// A memory and a bell, of which a test writes what it likes.
class Forger {
 public:
  explicit Forger(size_t bytes)
      : memory_(ControlMemory::Create(bytes, "forged").value()),
        bell_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    EXPECT_THAT(memory_.Reserve({0, bytes}), IsOk());
  }
  std::byte* data() const { return memory_.data(); }
  RingFds Fds() const { return CopyRingFds(memory_.fd(), bell_.get()).value(); }

 private:
  ControlMemory memory_;
  UniqueFd bell_;
};

class ForgedReader : public Forger {
 public:
  ForgedReader() : Forger(4096) {
    words().magic = RingReaderWords::kMagic;
    words().version = kRingVersion;
  }
  RingReaderWords& words() const {
    return *reinterpret_cast<RingReaderWords*>(data());
  }
  RingReply Reply(const RingOffer& offer) const {
    RingReply reply;
    reply.message.ring = offer.message.ring;
    reply.message.index = offer.message.index;
    reply.message.number = offer.message.number;
    reply.fds = Fds();
    return reply;
  }
  absl::StatusOr<uint64_t> Join(RingProducer& ring) const {
    return ring.AddReader(Reply(ring.Offer().value()));
  }
};

class ForgedProducer : public Forger {
 public:
  explicit ForgedProducer(RingPolicy policy)
      : Forger(kRingSlotsOffset + kCapacity * sizeof(Record)) {
    words().kind.policy = static_cast<uint32_t>(policy);
    words().kind.magic = RingKind::kMagic;
    words().kind.version = kRingVersion;
    words().kind.record_bytes = sizeof(Record);
    words().kind.capacity = kCapacity;
    A::Store(words().readers[0].state, 1 << 2 | RingProducerWords::kReading,
             kRelaxed);
  }
  RingProducerWords& words() const {
    return *reinterpret_cast<RingProducerWords*>(data());
  }
  RingOffer Offer() const {
    RingOffer offer;
    offer.message.kind = words().kind;
    offer.message.number = 1;
    offer.fds = Fds();
    return offer;
  }
  std::unique_ptr<RingReader> Reader() const {
    return RingReader::Attach(Offer()).value();
  }
};

// --- Readers. ---

TEST(RingHostileTest, AReaderWhoseTailCannotBeIsDropped) {
  for (const uint64_t tail : {uint64_t{3}, uint64_t{100}, ~uint64_t{0},
                              uint64_t{1} << 63, ~uint64_t{0} - kCapacity}) {
    const auto ring = MakeRing();
    TENON_ASSERT_OK_AND_ASSIGN(const auto honest, AddReaderTo(*ring));
    const ForgedReader forged;
    ASSERT_THAT(forged.Join(*ring), IsOkAndHolds(2u));
    ASSERT_THAT(PutRecord(*ring, 0, kNow), IsOk());
    ASSERT_THAT(PutRecord(*ring, 1, kNow), IsOk());
    A::Store(forged.words().tail, tail, kRelaxed);
    EXPECT_EQ(ring->acknowledged(), 0u);
    const std::vector<RingEnd> ended = ring->TakeEnded();
    ASSERT_EQ(ended.size(), 1u);
    EXPECT_THAT(ended[0].status,
                StatusIs(kDataLoss, AllOf(HasSubstr("reader 2 (pid"),
                                          HasSubstr("cannot be believed"))));
    ASSERT_THAT(GetRecord(*honest, 0, kNow), IsOk());
    EXPECT_EQ(ring->acknowledged(), 1u);
  }
}

TEST(RingHostileTest, AReaderWhoseTailGoesBackIsDropped) {
  const auto ring = MakeRing();
  const ForgedReader forged;
  ASSERT_THAT(forged.Join(*ring), IsOk());
  for (uint64_t i = 0; i < 5; ++i) {
    ASSERT_THAT(PutRecord(*ring, i, kNow), IsOk());
  }
  A::Store(forged.words().tail, 4, kRelaxed);
  EXPECT_EQ(ring->acknowledged(), 4u);
  A::Store(forged.words().tail, 3, kRelaxed);
  ring->acknowledged();
  EXPECT_EQ(ring->num_readers(), 0u);
  EXPECT_THAT(PutRecord(*ring, 5, kNow), StatusIs(kDataLoss));
}

TEST(RingHostileTest, AReaderThatSeemsAsleepAlwaysIsRungOnce) {
  const auto ring = MakeRing(RingPolicy::kDropOldest);
  const ForgedReader forged;
  ASSERT_THAT(forged.Join(*ring), IsOk());
  A::Store(forged.words().sleeping, 77, kRelaxed);
  for (uint64_t i = 0; i < 1000; ++i) {
    ASSERT_THAT(PutRecord(*ring, i, kNow), IsOk());
  }
  EXPECT_EQ(ring->rings(), 1u);
}

TEST(RingHostileTest, TailsThatFlickerCostTheirReaderOnly) {
  const auto ring = MakeRing();
  TENON_ASSERT_OK_AND_ASSIGN(const auto honest, AddReaderTo(*ring));
  const ForgedReader forged;
  std::atomic<bool> stop{false};
  std::thread flipper([&] {
    std::mt19937_64 random(1);
    while (!stop.load()) {
      const uint64_t r = random();
      A::Store(forged.words().tail, r % 4 == 0 ? r : r >> 40, kRelaxed);
      A::Store(forged.words().sleeping, r, kRelaxed);
      A::Store(forged.words().left, r % 64 == 1, kRelaxed);
    }
  });
  const uint64_t rounds = Flips() / 20;
  uint64_t dropped = 0, number = 0;
  for (uint64_t i = 0; i < rounds; ++i) {
    if (ring->num_readers() < 2) {
      TENON_ASSERT_OK_AND_ASSIGN(number, forged.Join(*ring));
      ++dropped;
    }
    // It never rings: one that seems slow costs the deadline.
    const absl::Status put =
        PutRecord(*ring, i, Deadline::After(absl::Milliseconds(1)));
    if (!put.ok()) {
      ASSERT_THAT(put, StatusIs(kDeadlineExceeded));
      ASSERT_THAT(ring->RemoveReader(number), IsOk());
      ASSERT_THAT(PutRecord(*ring, i, Soon()), IsOk());
    }
    ASSERT_THAT(GetRecord(*honest, i, kNow), IsOk());
    ASSERT_LE(ring->acknowledged(), ring->put());
  }
  stop.store(true);
  flipper.join();
  EXPECT_GT(dropped, 10u);
}

// --- Producers. ---

TEST(RingHostileTest, AHeadThatCannotBePoisonsTheRing) {
  for (const RingPolicy policy : {RingPolicy::kWait, RingPolicy::kDropReader}) {
    for (const uint64_t head :
         {kCapacity + 1, uint64_t{1} << 40, ~uint64_t{0}, uint64_t{1} << 63}) {
      const ForgedProducer forged(policy);
      const auto reader = forged.Reader();
      ASSERT_THAT(GetRecord(*reader, 0, kNow), StatusIs(kDeadlineExceeded));
      A::Store(forged.words().head, head, kRelaxed);
      for (int i = 0; i < 3; ++i) {
        EXPECT_THAT(GetRecord(*reader, 0, Soon()),
                    StatusIs(kDataLoss, HasSubstr("the producer's head")));
      }
      // Also after it has become plausible again.
      A::Store(forged.words().head, 1, kRelaxed);
      EXPECT_THAT(GetRecord(*reader, 0, Soon()), StatusIs(kDataLoss));
    }
  }
}

TEST(RingHostileTest, AHeadThatGoesBackPoisonsTheRing) {
  for (const RingPolicy policy :
       {RingPolicy::kWait, RingPolicy::kDropOldest, RingPolicy::kDropReader}) {
    const ForgedProducer forged(policy);
    const auto reader = forged.Reader();
    A::Store(forged.words().head, 5, kRelaxed);
    std::vector<std::byte> out(8 * sizeof(Record));
    ASSERT_THAT(reader->Get(out, kNow), IsOkAndHolds(5u));
    A::Store(forged.words().head, 4, kRelaxed);
    EXPECT_THAT(reader->Get(out, Soon()), StatusIs(kDataLoss));
    EXPECT_THAT(reader->Get(out, Soon()), StatusIs(kDataLoss));
  }
}

class FlickeringProducerTest : public testing::TestWithParam<RingPolicy> {};

TEST_P(FlickeringProducerTest, CostsErrorsOnly) {
  const ForgedProducer forged(GetParam());
  std::atomic<uint64_t> base{0};
  std::atomic<bool> stop{false};
  std::atomic<bool> flips_now{false};
  std::thread flipper([&] {
    std::mt19937_64 random(2);
    auto* const slots = reinterpret_cast<SharedWord<uint64_t>*>(
        forged.data() + kRingSlotsOffset);
    RingProducerWords& words = forged.words();
    while (!stop.load(kRelaxed)) {
      const uint64_t r = random();
      const uint64_t near = base.load(kRelaxed) + r % (2 * kCapacity);
      const bool wild = r >> 48 == 0;
      A::Store(words.head, wild ? random() : near, kRelaxed);
      A::Store(words.reserved, wild ? random() : near + r / 7 % 5, kRelaxed);
      A::Store(words.sleeping, r, kRelaxed);
      A::Store(slots[r / 3 % (kCapacity * 8)], r, kRelaxed);
      // In place, what was checked once.
      words.kind.capacity = r % 3 == 0 ? kCapacity : r;
      if (r >> 50 == 1) A::Store(words.readers[0].state, r, kRelaxed);
      A::Store(words.readers[0].state, 1 << 2 | RingProducerWords::kReading,
               kRelaxed);
      flips_now.store(true);
    }
  });
  while (!flips_now.load()) std::this_thread::yield();
  std::unique_ptr<RingReader> reader;
  std::vector<std::byte> out(3 * sizeof(Record));
  const uint64_t flips = Flips();
  uint64_t got = 0, errors = 0, attached = 0;
  uint64_t tail = 0;
  for (uint64_t i = 0; i < flips; ++i) {
    if (reader == nullptr) {
      // What is being written at the same time may be refused.
      auto made = RingReader::Attach([&] {
        RingOffer offer = forged.Offer();
        offer.message.kind.capacity = kCapacity;
        return offer;
      }());
      if (!made.ok()) {
        ASSERT_THAT(made, StatusIs(kInvalidArgument));
        continue;
      }
      reader = *std::move(made);
      ++attached;
      tail = A::Load(forged.words().readers[0].start, kRelaxed);
    }
    const auto some = reader->TryGet(out);
    if (some.ok()) {
      ASSERT_LE(*some, 3u);
      got += *some;
      tail += *some;
    } else {
      ASSERT_THAT(some, StatusIs(kDataLoss));
      ++errors;
      // All of these are sticky but the loss of records.
      if (GetParam() != RingPolicy::kDropOldest || i % 64 == 0) reader.reset();
      tail = reader == nullptr ? 0 : tail + reader->lost();
    }
    base.store(tail, kRelaxed);
  }
  stop.store(true);
  flipper.join();
  EXPECT_GT(got + errors, 0u);
  EXPECT_GT(attached, 0u);
}

INSTANTIATE_TEST_SUITE_P(Policies, FlickeringProducerTest,
                         testing::Values(RingPolicy::kWait,
                                         RingPolicy::kDropOldest,
                                         RingPolicy::kDropReader),
                         [](const auto& policy) {
                           return std::string(
                               policy.param == RingPolicy::kWait ? "Wait"
                               : policy.param == RingPolicy::kDropOldest
                                   ? "DropOldest"
                                   : "DropReader");
                         });

// --- Descriptors. ---

TEST(RingHostileTest, MemoryThatIsNotSealedIsRefused) {
  const ForgedProducer forged(RingPolicy::kWait);
  RingOffer offer = forged.Offer();
  offer.fds.memory = UniqueFd(memfd_create("x", MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(offer.fds.memory.get(), 8192), 0);
  EXPECT_THAT(RingReader::Attach(std::move(offer)),
              StatusIs(kFailedPrecondition));
  const auto ring = MakeRing();
  TENON_ASSERT_OK_AND_ASSIGN(const RingOffer good, ring->Offer());
  RingReply reply = ForgedReader().Reply(good);
  reply.fds.memory = UniqueFd(memfd_create("x", MFD_ALLOW_SEALING));
  EXPECT_THAT(ring->AddReader(std::move(reply)), StatusIs(kFailedPrecondition));
  // The offer is still good.
  EXPECT_THAT(ring->AddReader(ForgedReader().Reply(good)), IsOk());
}

TEST(RingHostileTest, MemoryThatIsTooSmallOrOfAnotherKindIsRefused) {
  const ForgedProducer forged(RingPolicy::kWait);
  RingOffer larger = forged.Offer();
  larger.message.kind.capacity = 4096;
  EXPECT_THAT(RingReader::Attach(std::move(larger)),
              StatusIs(kInvalidArgument));
  RingOffer smaller = forged.Offer();
  smaller.message.kind.capacity = 4;
  EXPECT_THAT(RingReader::Attach(std::move(smaller)),
              StatusIs(kInvalidArgument, HasSubstr("not of the kind")));
  RingOffer other = forged.Offer();
  forged.words().kind.magic = 0;
  EXPECT_THAT(RingReader::Attach(std::move(other)), StatusIs(kInvalidArgument));
  forged.words().kind.magic = RingKind::kMagic;
  forged.words().kind.version = 9;
  RingOffer versions = forged.Offer();
  versions.message.kind.version = kRingVersion;
  EXPECT_THAT(RingReader::Attach(std::move(versions)),
              StatusIs(kFailedPrecondition,
                       AllOf(HasSubstr("version 9"), HasSubstr("version 1"))));
}

TEST(RingHostileTest, DescriptorsInAnotherOrderAreRefused) {
  const ForgedProducer forged(RingPolicy::kWait);
  RingOffer offer = forged.Offer();
  std::swap(offer.fds.memory, offer.fds.bell);
  EXPECT_THAT(RingReader::Attach(std::move(offer)), StatusIs(kInvalidArgument));
  offer = forged.Offer();
  std::swap(offer.fds.process, offer.fds.bell);
  EXPECT_THAT(RingReader::Attach(std::move(offer)), StatusIs(kInvalidArgument));
  offer = forged.Offer();
  offer.fds.bell = UniqueFd();
  EXPECT_THAT(RingReader::Attach(std::move(offer)), StatusIs(kInvalidArgument));
  const auto ring = MakeRing();
  TENON_ASSERT_OK_AND_ASSIGN(const RingOffer good, ring->Offer());
  RingReply reply = ForgedReader().Reply(good);
  std::swap(reply.fds.process, reply.fds.bell);
  EXPECT_THAT(ring->AddReader(std::move(reply)), StatusIs(kInvalidArgument));
  reply = ForgedReader().Reply(good);
  reply.fds.process = UniqueFd();
  EXPECT_THAT(ring->AddReader(std::move(reply)), StatusIs(kInvalidArgument));
  EXPECT_EQ(ring->num_readers(), 0u);
}

// --- Processes. ---

TEST(RingHostileTest, WhoIsStoppedIsWaitedForAndNamedSo) {
  const SharedObject<RingBoard> board;
  const auto ring = MakeRing();
  TENON_ASSERT_OK_AND_ASSIGN(
      auto peers,
      MakePeers({"producer", "reader"}, PeerMode::kProcesses, Soon()));
  TENON_ASSERT_OK_AND_ASSIGN(
      auto child,
      ForkedChild::Fork({.watchdog = absl::Minutes(2)}, [&](const Reporter&) {
        Peer self = std::move(peers[1]);
        peers.clear();
        TENON_ASSERT_OK_AND_ASSIGN(const auto reader,
                                   Join(self, "producer", *board));
        raise(SIGSTOP);
        for (uint64_t i = 0; i <= kCapacity; ++i) {
          ASSERT_THAT(GetRecord(*reader, i, Soon()), IsOk());
        }
      }));
  ASSERT_THAT(LetIn(peers[0], "reader", *board, *ring), IsOk());
  for (uint64_t i = 0; i < kCapacity; ++i) {
    ASSERT_THAT(PutRecord(*ring, i, kNow), IsOk());
  }
  // Until it has got that far.
  absl::Status put;
  for (int i = 0; i < 1000; ++i) {
    put = PutRecord(*ring, kCapacity, Deadline::After(absl::Milliseconds(10)));
    ASSERT_THAT(put, StatusIs(kDeadlineExceeded));
    if (put.message().find("stopped") != absl::string_view::npos) break;
  }
  EXPECT_THAT(put, StatusIs(kDeadlineExceeded, HasSubstr("stopped")));
  ASSERT_EQ(kill(child.pid(), SIGCONT), 0);
  EXPECT_THAT(PutRecord(*ring, kCapacity, Soon()), IsOk());
  EXPECT_TRUE(child.EndsWell());
  EXPECT_THAT(ring->Close(Soon()), IsOk());
}

TEST(RingHostileTest, WhoDiesWhileItIsWaitedForEndsTheWait) {
  const SharedObject<RingBoard> board;
  const auto ring = MakeRing();
  TENON_ASSERT_OK_AND_ASSIGN(
      auto peers,
      MakePeers({"producer", "reader"}, PeerMode::kProcesses, Soon()));
  TENON_ASSERT_OK_AND_ASSIGN(
      auto child, ForkedChild::Fork({}, [&](const Reporter&) {
        Peer self = std::move(peers[1]);
        peers.clear();
        TENON_ASSERT_OK_AND_ASSIGN(const auto reader,
                                   Join(self, "producer", *board));
        usleep(20'000);
        self.Die();
      }));
  ASSERT_THAT(LetIn(peers[0], "reader", *board, *ring), IsOk());
  for (uint64_t i = 0; i < kCapacity; ++i) {
    ASSERT_THAT(PutRecord(*ring, i, kNow), IsOk());
  }
  EXPECT_THAT(PutRecord(*ring, kCapacity, Soon()),
              StatusIs(kUnavailable, HasSubstr("has died")));
}

}  // namespace
}  // namespace tenon

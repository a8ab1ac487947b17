// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Readers and producers of a ring with wrong descriptors, and those that are
// stopped, or die.

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/ring/internal/ring_layout.h"
#include "tenon/ipc/ring/ring.h"
#include "tenon/ipc/ring/ring_hostile_testing.h"
#include "tenon/ipc/ring/ring_offer.h"
#include "tenon/ipc/ring/ring_testing.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/kill/peer.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using absl::StatusCode::kFailedPrecondition;
using absl::StatusCode::kUnavailable;

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
  // The offer is still valid.
  EXPECT_THAT(ring->AddReader(ForgedReader().Reply(good)), IsOk());
}

TEST(RingHostileTest, MemoryThatIsTooSmallOrOfAnotherKindIsRefused) {
  const ForgedProducer forged(RingPolicy::kWait);
  RingOffer larger = forged.Offer();
  larger.message.geometry.capacity = 4096;
  EXPECT_THAT(RingReader::Attach(std::move(larger)),
              StatusIs(kInvalidArgument));
  RingOffer smaller = forged.Offer();
  smaller.message.geometry.capacity = 4;
  EXPECT_THAT(RingReader::Attach(std::move(smaller)),
              StatusIs(kInvalidArgument, HasSubstr("another geometry")));
  RingOffer other = forged.Offer();
  forged.words().geometry.magic = 0;
  EXPECT_THAT(RingReader::Attach(std::move(other)), StatusIs(kInvalidArgument));
  forged.words().geometry.magic = RingGeometry::kMagic;
  forged.words().geometry.version = 9;
  RingOffer versions = forged.Offer();
  versions.message.geometry.version = RingVersion();
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

TEST(RingHostileTest, AStoppedReaderIsAwaitedAndNamed) {
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
  // Waits until the call has come that far.
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

TEST(RingHostileTest, ADeathDuringTheWaitEndsIt) {
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

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A ring between two peers, in threads and in processes.

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/ring/ring.h"
#include "tenon/ipc/ring/ring_offer.h"
#include "tenon/ipc/ring/ring_testing.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/testing/kill/peer.h"
#include "tenon/shm/testing/kill/two_peers.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

Deadline Soon() { return Deadline::After(absl::Seconds(60)); }
constexpr absl::Duration kWatchdog = absl::Seconds(90);

class RingTwoPeersTest : public testing::TestWithParam<PeerMode> {
 protected:
  // "a" has a ring, "b" reads it.
  void Run(const RingOptions& options,
           const std::function<void(RingProducer&, Peer&)>& produce,
           const std::function<void(RingReader&, Peer&)>& read) {
    EXPECT_TRUE(RunTwoPeers(
        GetParam(),
        [&](Peer& self) {
          if (self.name() == "a") {
            TENON_ASSERT_OK_AND_ASSIGN(const auto ring,
                                       RingProducer::Create(options));
            ASSERT_THAT(LetIn(self, "b", *board_, *ring), IsOk());
            produce(*ring, self);
          } else {
            TENON_ASSERT_OK_AND_ASSIGN(const auto reader,
                                       Join(self, "a", *board_));
            read(*reader, self);
          }
        },
        kWatchdog));
  }

  SharedObject<RingBoard> board_;
};

TEST_P(RingTwoPeersTest, ManyRecordsThroughFewSlots) {
  static constexpr uint64_t kRecords = 20'000;
  for (const size_t capacity : {1, 4, 256}) {
    Run(
        {.capacity = capacity},
        [](RingProducer& ring, Peer&) {
          for (uint64_t i = 0; i < kRecords; ++i) {
            ASSERT_THAT(PutRecord(ring, i, Soon()), IsOk());
          }
          EXPECT_THAT(ring.Close(Soon()), IsOk());
          EXPECT_EQ(ring.acknowledged(), kRecords);
        },
        [](RingReader& reader, Peer&) {
          for (uint64_t i = 0; i < kRecords; ++i) {
            ASSERT_THAT(GetRecord(reader, i, Soon()), IsOk());
          }
          EXPECT_THAT(GetRecord(reader, 0, Soon()),
                      StatusIs(absl::StatusCode::kOutOfRange));
        });
  }
}

TEST_P(RingTwoPeersTest, SleepersAreWoken) {
  static constexpr uint64_t kRecords = 200;
  for (const bool sleeper_fences : {true, false}) {
    Run(
        {.capacity = 2, .sleeper_fences = sleeper_fences},
        [](RingProducer& ring, Peer&) {
          for (uint64_t i = 0; i < kRecords; ++i) {
            if (i % 3 == 0) absl::SleepFor(absl::Microseconds(300));
            ASSERT_THAT(PutRecord(ring, i, Soon()), IsOk());
          }
          EXPECT_THAT(ring.Close(Soon()), IsOk());
        },
        [](RingReader& reader, Peer&) {
          for (uint64_t i = 0; i < kRecords; ++i) {
            if (i % 7 == 0) absl::SleepFor(absl::Milliseconds(1));
            ASSERT_THAT(GetRecord(reader, i, Soon()), IsOk());
          }
          // Each sleep is ended by at most one wake-up of the peer.
          EXPECT_GT(reader.stats().sleeps, 0u);
        });
  }
}

// A slow reader receives whole records in order, and the number of missing
// ones.
TEST_P(RingTwoPeersTest, DropOldestNeverTearsARecord) {
  static constexpr uint64_t kRecords = 50'000;
  Run(
      {.capacity = 4, .policy = RingPolicy::kDropOldest},
      [](RingProducer& ring, Peer& self) {
        for (uint64_t i = 0; i < kRecords; ++i) {
          ASSERT_THAT(PutRecord(ring, i, Soon()), IsOk());
          EXPECT_LE(ring.acknowledged(), ring.put());
        }
        EXPECT_THAT(ring.Close(Soon()), IsOk());
        self.Step("closed");
      },
      [](RingReader& reader, Peer&) {
        uint64_t next = 0;
        while (next < kRecords) {
          Record record;
          const uint64_t lost = reader.lost();
          const auto got = reader.Get(BytesOf(record), Soon());
          if (got.ok()) {
            ASSERT_EQ(record, MakeRecord(next));
            ++next;
            continue;
          }
          ASSERT_THAT(got, StatusIs(absl::StatusCode::kDataLoss));
          ASSERT_GT(reader.lost(), lost);
          next += reader.lost() - lost;
        }
        EXPECT_EQ(next, kRecords);
      });
}

TEST_P(RingTwoPeersTest, ADroppedReaderIsToldAsleepOrNot) {
  Run(
      {.capacity = 4, .policy = RingPolicy::kDropReader},
      [](RingProducer& ring, Peer& self) {
        for (uint64_t i = 0; i < 1'000'000; ++i) {
          const absl::Status put = PutRecord(ring, i, Soon());
          if (put.ok()) continue;
          ASSERT_THAT(put, StatusIs(absl::StatusCode::kResourceExhausted));
          break;
        }
        EXPECT_EQ(ring.num_readers(), 0u);
        EXPECT_THAT(self.Await("told"), IsOk());
      },
      [](RingReader& reader, Peer& self) {
        absl::SleepFor(absl::Milliseconds(5));
        uint64_t i = 0;
        absl::Status got;
        while ((got = GetRecord(reader, i, Soon())).ok()) ++i;
        EXPECT_THAT(got, StatusIs(absl::StatusCode::kDataLoss));
        self.Step("told");
      });
}

INSTANTIATE_TEST_SUITE_P(Modes, RingTwoPeersTest, AllPeerModes(), PeerModeName);

}  // namespace
}  // namespace tenon

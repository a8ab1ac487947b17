// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/internal/own_storage.h"

#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

constexpr size_t kQuota = 256 << 10;

class OwnStorageTest : public testing::Test {
 protected:
  void SetUp() override {
    TENON_ASSERT_OK_AND_ASSIGN(arena_, Arena::Create({.quota_bytes = kQuota}));
  }
  std::shared_ptr<Storage> New(size_t bytes) {
    auto storage = OwnStorages::Create(*arena_, bytes, Deadline::Passed());
    EXPECT_THAT(storage, IsOk());
    return storage.ok() ? *std::move(storage) : nullptr;
  }

  static const OwnLease& LeaseOf(const Storage& storage) {
    return static_cast<const OwnLease&>(*storage.lease());
  }
  static bool IsKept(const Storage& storage) {
    return LeaseOf(storage).block.arena().use_count() == 0;
  }

  std::shared_ptr<Arena> arena_;
};

TEST_F(OwnStorageTest, IsKeptForTheNextUseOfItsBlock) {
  std::shared_ptr<Storage> storage = New(20);
  const Storage* const first = storage.get();
  const std::byte* const data = storage->Read().value();
  storage = nullptr;
  EXPECT_EQ(arena_->Use().blocks_in_use, 0u);
  storage = New(40);
  EXPECT_EQ(storage.get(), first);
  EXPECT_EQ(storage->Read().value(), data);
  EXPECT_EQ(storage.use_count(), 1);
  EXPECT_TRUE(IsKept(*storage));
  EXPECT_EQ(arena_->Use().blocks_in_use, 1u);
  const std::shared_ptr<Storage> other = New(20);
  EXPECT_NE(other.get(), first);
  EXPECT_NE(other->Read().value(), data);
}

TEST_F(OwnStorageTest, AWeakReferenceKeepsNeitherBlockNorSegment) {
  std::shared_ptr<Storage> storage = New(kQuota);
  const std::byte* const data = storage->Read().value();
  std::weak_ptr<Storage> weak = storage;
  storage = nullptr;
  EXPECT_EQ(weak.lock(), nullptr);
  storage = New(kQuota);
  EXPECT_EQ(storage->Read().value(), data);
  EXPECT_FALSE(IsKept(*storage));
  EXPECT_EQ(weak.lock(), nullptr);
  storage = nullptr;
  // Of another size.
  storage = New(64);
  EXPECT_EQ(weak.lock(), nullptr);
  storage = nullptr;
  EXPECT_THAT(arena_->Trim(), IsOk());
  EXPECT_EQ(arena_->Use().segments, 0u);
  weak.reset();
  EXPECT_NE(New(kQuota), nullptr);
}

TEST_F(OwnStorageTest, MoreThanAreKept) {
  constexpr size_t kKept = 4096, kMany = kKept + 100;
  TENON_ASSERT_OK_AND_ASSIGN(arena_, Arena::Create());
  for (int turn = 0; turn < 2; ++turn) {
    std::set<std::shared_ptr<Storage>> all;
    std::set<const std::byte*> places;
    size_t kept = 0;
    for (size_t i = 0; i < kMany; ++i) {
      std::shared_ptr<Storage> storage = New(64);
      kept += IsKept(*storage);
      places.insert(storage->Read().value());
      all.insert(std::move(storage));
    }
    EXPECT_EQ(all.size(), kMany);
    EXPECT_EQ(places.size(), kMany);
    // Later on, blocks may be used that were not before.
    if (turn == 0) {
      EXPECT_EQ(kept, kKept);
    }
    EXPECT_LE(kept, kKept);
    EXPECT_GT(kept, kKept / 2);
    EXPECT_EQ(arena_->Use().blocks_in_use, kMany);
    all.clear();
    EXPECT_EQ(arena_->Use().blocks_in_use, 0u);
  }
  EXPECT_THAT(arena_->Trim(), IsOk());
  EXPECT_EQ(arena_->Use().segments, 0u);
  // Those of retired segments count no longer.
  EXPECT_TRUE(IsKept(*New(64)));
}

TEST_F(OwnStorageTest, OutlivesTheReferenceToItsArena) {
  arena_ = nullptr;
  const size_t fds = CountOpenFds();
  TENON_ASSERT_OK_AND_ASSIGN(arena_, Arena::Create());
  std::shared_ptr<Storage> first = New(64), second = New(5000);
  std::weak_ptr<Storage> weak = New(64);
  arena_ = nullptr;
  EXPECT_GT(CountOpenFds(), fds);
  first = nullptr;
  // The arena is still there.
  TENON_ASSERT_OK_AND_ASSIGN(std::byte* const bytes, second->Write());
  std::memset(bytes, 7, second->size_bytes());
  const Block& block = LeaseOf(*second).block;
  EXPECT_THAT(block.Describe(), IsOk());
  EXPECT_THAT(block.arena()->Offer(block), IsOk());
  std::thread([last = std::move(second)] {}).join();
  weak.reset();
  EXPECT_EQ(CountOpenFds(), fds);
}

TEST_F(OwnStorageTest, IsInertInAForkedChild) {
  std::shared_ptr<Storage> storage = New(64);
  EXPECT_TRUE(PassesInChild([&] {
    EXPECT_FALSE(storage->IsUsable());
    storage = nullptr;
    arena_ = nullptr;
  }));
  EXPECT_TRUE(PassesInChild([&] {
    arena_ = nullptr;
    storage = nullptr;
  }));
  EXPECT_EQ(arena_->Use().blocks_in_use, 1u);
  storage = nullptr;
  EXPECT_EQ(arena_->Use().blocks_in_use, 0u);
}

// Two threads create; each drops the storages of the other.
TEST_F(OwnStorageTest, IsReleasedInOtherThreads) {
  constexpr int kTurns = 3000;
  TENON_ASSERT_OK_AND_ASSIGN(arena_, Arena::Create());
  struct Side {
    std::atomic<bool> full = false;
    std::shared_ptr<Storage> storage;
  };
  Side sides[2];
  std::vector<std::thread> threads;
  for (int self = 0; self < 2; ++self) {
    threads.emplace_back([&, self] {
      Side &out = sides[self], &in = sides[1 - self];
      for (int i = 0; i < kTurns; ++i) {
        std::shared_ptr<Storage> mine = New(64);
        std::byte* const bytes = mine->Write().value();
        std::memset(bytes, i, 64);
        const std::shared_ptr<Storage> copy = mine;
        while (out.full.load(std::memory_order_acquire)) {
          std::this_thread::yield();
        }
        out.storage = std::move(mine);
        out.full.store(true, std::memory_order_release);
        while (!in.full.load(std::memory_order_acquire)) {
          std::this_thread::yield();
        }
        in.storage = nullptr;
        in.full.store(false, std::memory_order_release);
        // No other thread has the block.
        EXPECT_EQ(bytes[63], static_cast<std::byte>(i));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(arena_->Use().blocks_in_use, 0u);
}

// All blocks that the quota permits, of which another thread has released more
// than its lane takes.
TEST_F(OwnStorageTest, BlocksThatAnotherThreadReleasedAreFound) {
  constexpr size_t kBytes = 4096, kMany = kQuota / kBytes;
  for (int round = 0; round < 20; ++round) {
    std::thread([&] {
      std::vector<std::shared_ptr<Storage>> all;
      for (size_t i = 0; i < kMany; ++i) all.push_back(New(kBytes));
    }).join();
    ASSERT_FALSE(HasFailure());
  }
  // Of another size: the segments are retired.
  EXPECT_NE(New(kQuota), nullptr);
}

TEST_F(OwnStorageTest, LanesAreEmptiedBeforeTheArenaGrows) {
  constexpr size_t kBytes = 4096, kMany = (256 << 10) / kBytes;
  TENON_ASSERT_OK_AND_ASSIGN(arena_, Arena::Create());
  for (int round = 0; round < 4; ++round) {
    std::thread([&] {
      std::vector<std::shared_ptr<Storage>> all;
      for (size_t i = 0; i < kMany; ++i) all.push_back(New(kBytes));
    }).join();
    EXPECT_EQ(arena_->Use().segments, 1u);
  }
}

// At most as many as the quota permits are in use, so each thread gets one at
// once, also if all others are in lanes.
TEST_F(OwnStorageTest, LanesWithholdNoBlock) {
  constexpr int kThreads = 4, kTurns = 3000;
  constexpr size_t kBytes = kQuota / kThreads;
  // All of one size are there before.
  {
    std::vector<std::shared_ptr<Storage>> all;
    for (int i = 0; i < kThreads; ++i) all.push_back(New(kBytes));
  }
  std::vector<std::thread> threads;
  for (int self = 0; self < kThreads; ++self) {
    threads.emplace_back([&, self] {
      for (int i = 0; i < kTurns; ++i) {
        const std::shared_ptr<Storage> mine = New(kBytes);
        ASSERT_NE(mine, nullptr);
        std::byte* const bytes = mine->Write().value();
        bytes[0] = bytes[kBytes - 1] = static_cast<std::byte>(self);
        if (i % 16 == 0) std::this_thread::yield();
        ASSERT_EQ(bytes[0], static_cast<std::byte>(self));
        ASSERT_EQ(bytes[kBytes - 1], static_cast<std::byte>(self));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(arena_->Use().blocks_in_use, 0u);
  EXPECT_THAT(arena_->Trim(), IsOk());
  EXPECT_EQ(arena_->Use().segments, 0u);
}

// Of a segment with one block each time, which a thread that does not grow the
// arena must not take.
TEST_F(OwnStorageTest, EachThreadGetsTheBlockForWhichItGrewTheArena) {
  constexpr int kThreads = 16, kRounds = 200, kTurns = 50;
  constexpr size_t kBytes = 64 << 10;
  for (int round = 0; round < kRounds && !HasFailure(); ++round) {
    TENON_ASSERT_OK_AND_ASSIGN(arena_, Arena::Create({.segment_bytes = 512}));
    std::atomic<int> ready = 0;
    std::vector<std::thread> threads;
    for (int self = 0; self < kThreads; ++self) {
      threads.emplace_back([&] {
        ready.fetch_add(1);
        while (ready.load() < kThreads) std::this_thread::yield();
        std::vector<std::shared_ptr<Storage>> mine;
        for (int i = 0; i < kTurns; ++i) mine.push_back(New(kBytes));
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

// Each round ends an arena while other threads drop its storages.
TEST_F(OwnStorageTest, ArenasEndWhileTheirStoragesAreDropped) {
  arena_ = nullptr;
  const size_t fds = CountOpenFds();
  for (int round = 0; round < 200; ++round) {
    TENON_ASSERT_OK_AND_ASSIGN(arena_, Arena::Create());
    std::atomic<int> ready = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&ready, last = New(64)]() mutable {
        ready.fetch_add(1);
        while (ready.load() < 3) {
        }
        last = nullptr;
      });
    }
    while (ready.load() < 2) {
    }
    ready.fetch_add(1);
    arena_ = nullptr;
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(CountOpenFds(), fds);
  }
}

// The same with segments that are retired meanwhile.
TEST_F(OwnStorageTest, SegmentsRetireWhileTheirStoragesAreDropped) {
  for (int round = 0; round < 200; ++round) {
    std::atomic<bool> dropped = false;
    std::thread thread([&, last = New(64)]() mutable {
      last = nullptr;
      dropped.store(true);
    });
    while (!dropped.load()) EXPECT_THAT(arena_->Trim(), IsOk());
    thread.join();
    EXPECT_THAT(arena_->Trim(), IsOk());
    ASSERT_EQ(arena_->Use().segments, 0u);
  }
}

}  // namespace
}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Four putters and four getters, as threads and as processes: each item is
// received once, the items of one putter in their order. And the same while
// getters and putters are killed at random and replaced.

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <random>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/queue/internal/queue_core.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/queue/queue_testing.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/kill/peer.h"
#include "tenon/shm/testing/kill/two_peers.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

constexpr size_t kEach = 4;  // Putters, and getters.

Deadline Soon() { return Deadline::After(absl::Seconds(60)); }

absl::StatusOr<std::unique_ptr<QueueCore>> MakeItems(size_t capacity,
                                                     size_t participants) {
  return QueueCore::Create(
      QueueType::kItems, sizeof(TestItem),
      {.capacity = capacity, .max_participants = participants});
}

// ---- Without deaths ----

constexpr uint64_t kItems = 20000;  // Per putter.

struct Counts {
  std::array<std::array<std::atomic<uint8_t>, kItems>, kEach> got;
  std::atomic<uint64_t> putters_done{0};
};

class QueueManyTest : public testing::TestWithParam<PeerMode> {
 protected:
  void RunAll(size_t batch) {
    TENON_ASSERT_OK_AND_ASSIGN(const auto queue, MakeItems(64, 2 * kEach + 1));
    std::vector<QueueHandle> handles;
    for (size_t i = 0; i < 2 * kEach; ++i) {
      TENON_ASSERT_OK_AND_ASSIGN(QueueHandle handle, queue->Share());
      handles.push_back(std::move(handle));
    }
    const auto body = [&](size_t i) {
      auto mine = OpenItems(std::move(handles[i]));
      ASSERT_THAT(mine, IsOk());
      i < kEach ? PutAll(**mine, i, batch) : GetAll(**mine, batch);
    };
    std::vector<std::thread> threads;
    std::vector<ForkedChild> children;
    for (size_t i = 0; i < 2 * kEach; ++i) {
      if (GetParam() == PeerMode::kThreads) {
        threads.emplace_back(body, i);
        continue;
      }
      TENON_ASSERT_OK_AND_ASSIGN(
          ForkedChild child,
          ForkedChild::Fork({.name = "peer", .watchdog = absl::Minutes(2)},
                            [&body, i](const Reporter&) { body(i); }));
      children.push_back(std::move(child));
    }
    for (std::thread& thread : threads) thread.join();
    for (ForkedChild& child : children) EXPECT_TRUE(child.EndsWell());
    EXPECT_EQ(queue->size(), 0u);
    for (const auto& of_putter : counts_->got) {
      for (const auto& got : of_putter) ASSERT_EQ(got, 1);
    }
  }

 private:
  void PutAll(QueueCore& queue, uint64_t putter, size_t batch) {
    std::vector<TestItem> items;
    for (uint64_t i = 0; i < kItems; ++i) {
      items.push_back(MakeItem(putter, i));
      if (items.size() < batch && i + 1 < kItems) continue;
      ASSERT_THAT(queue.Put(std::as_bytes(std::span(items)), Soon()), IsOk());
      items.clear();
    }
    if (++counts_->putters_done == kEach) {
      EXPECT_THAT(queue.Close(), IsOk());
    }
  }

  void GetAll(QueueCore& queue, size_t batch) {
    std::vector<TestItem> items(batch);
    std::array<int64_t, kEach> last = {-1, -1, -1, -1};
    for (;;) {
      const auto got =
          queue.Get(std::as_writable_bytes(std::span(items)), Soon());
      if (!got.ok()) {
        EXPECT_THAT(got, StatusIs(absl::StatusCode::kOutOfRange));
        return;
      }
      for (size_t i = 0; i < *got; ++i) {
        ASSERT_TRUE(IsWhole(items[i]));
        const auto [putter, number] = std::pair(items[i][0], items[i][1]);
        ASSERT_EQ(++counts_->got[putter][number], 1);
        ASSERT_GT(static_cast<int64_t>(number), last[putter]);
        last[putter] = static_cast<int64_t>(number);
      }
    }
  }

  SharedObject<Counts> counts_;
};

TEST_P(QueueManyTest, OneByOne) { RunAll(1); }
TEST_P(QueueManyTest, Batches) { RunAll(16); }

INSTANTIATE_TEST_SUITE_P(Modes, QueueManyTest, AllPeerModes(), PeerModeName);

// ---- Killed at random ----

uint64_t Kills() {
  const char* text = std::getenv("TENON_RANDOM_KILLS");
  return text == nullptr ? 300 : std::strtoull(text, nullptr, 10);
}

struct Ledger {
  static constexpr uint64_t kMost = 1 << 22;

  std::atomic<uint64_t> next{0};    // The next unused number.
  std::atomic<uint64_t> rounds{0};  // Received items.
  std::atomic<bool> done{false};
  std::atomic<bool> over{false};
  // The state of each number.
  std::array<std::atomic<uint8_t>, kMost> was_put;
  std::array<std::atomic<uint8_t>, kMost> was_got;
};

class QueueRandomKillTest : public testing::Test {
 protected:
  ForkedChild Fork(size_t i) {
    QueueHandle handle = queue_->Share().value();
    return ForkedChild::Fork({.name = "peer", .watchdog = absl::Minutes(4)},
                             [this, i, &handle](const Reporter&) {
                               // Retries until the dead predecessor's slot is
                               // free.
                               auto mine = OpenItems(std::move(handle));
                               ASSERT_THAT(mine, IsOk());
                               i < kEach ? PutOn(**mine) : GetOn(**mine);
                             })
        .value();
  }

  void PutOn(QueueCore& queue) {
    while (!ledger_->done) {
      const uint64_t number = ledger_->next++;
      if (number >= Ledger::kMost) return;
      ASSERT_THAT(queue.Put(BytesOf(MakeItem(0, number)), Soon()), IsOk());
      ledger_->was_put[number] = 1;
      if (number % 16 == 0) absl::SleepFor(absl::Microseconds(50));
    }
  }

  void GetOn(QueueCore& queue) {
    for (;;) {
      const auto item = GetItem(queue, Soon());
      if (!item.ok()) {
        EXPECT_THAT(item, StatusIs(absl::StatusCode::kOutOfRange));
        return;
      }
      EXPECT_EQ(++ledger_->was_got[(*item)[1]], 1);
      ++ledger_->rounds;
    }
  }

  std::unique_ptr<QueueCore> queue_;
  SharedObject<Ledger> ledger_;
};

TEST_F(QueueRandomKillTest, TheOthersGoOn) {
  TENON_ASSERT_OK_AND_ASSIGN(queue_, MakeItems(8, 64));
  const size_t fds = CountOpenFds();
  std::vector<ForkedChild> crew;
  for (size_t i = 0; i < 2 * kEach; ++i) crew.push_back(Fork(i));
  std::mt19937_64 random(20240607);
  uint64_t getters_killed = 0;
  for (uint64_t i = 0; i < Kills(); ++i) {
    const uint64_t before = ledger_->rounds;
    absl::SleepFor(absl::Microseconds(random() % 2000));
    const size_t victim = random() % crew.size();
    crew[victim].Kill();
    EXPECT_TRUE(crew[victim].report().failures.empty())
        << crew[victim].report().failures.front();
    getters_killed += victim >= kEach;
    crew[victim] = Fork(victim);
    ASSERT_TRUE(Becomes([&] { return ledger_->rounds > before; }))
        << "nobody goes on after kill " << i;
  }
  ledger_->done = true;
  for (size_t i = 0; i < kEach; ++i) EXPECT_TRUE(crew[i].EndsWell());
  ASSERT_THAT(queue_->Close(), IsOk());
  for (size_t i = kEach; i < 2 * kEach; ++i) EXPECT_TRUE(crew[i].EndsWell());
  EXPECT_EQ(queue_->size(), 0u);
  // A missing item was received by a getter that was killed before it recorded
  // it.
  uint64_t missing = 0, put = 0;
  for (uint64_t n = 0; n < ledger_->next && n < Ledger::kMost; ++n) {
    put += ledger_->was_put[n];
    if (ledger_->was_put[n] == 1 && ledger_->was_got[n] == 0) ++missing;
  }
  EXPECT_LE(missing, getters_killed);
  std::cout << Kills() << " killed, " << getters_killed << " of them getters; "
            << put << " items, " << missing << " died with their getter\n";
  crew.clear();
  EXPECT_TRUE(Becomes([&] { return CountOpenFds() <= fds + 64; }));
}

}  // namespace
}  // namespace tenon

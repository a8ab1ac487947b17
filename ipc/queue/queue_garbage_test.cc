// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Corrupt bytes in the memory of a queue. Its participants trust each other, so
// any error or any item may result; but no process crashes, accesses other
// memory, or waits beyond a deadline.

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <memory>
#include <random>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/queue/internal/queue_core.h"
#include "tenon/ipc/queue/internal/queue_handle_bytes.h"
#include "tenon/ipc/queue/internal/queue_layout.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/queue/queue_testing.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

constexpr auto kDataLoss = absl::StatusCode::kDataLoss;

// A queue, and a second mapping of its memory.
class QueueGarbageTest : public testing::Test {
 protected:
  static constexpr size_t kCapacity = 4;

  void Make(QueueType type = QueueType::kItems) {
    Unmap();
    auto queue = QueueCore::Create(
        type, sizeof(TestItem), {.capacity = kCapacity, .max_participants = 3});
    ASSERT_THAT(queue, IsOk());
    queue_ = *std::move(queue);
    TENON_ASSERT_OK_AND_ASSIGN(QueueHandle handle, queue_->Share());
    TENON_ASSERT_OK_AND_ASSIGN(
        geometry_, ParseQueueHandle(handle.bytes, handle.fds.size()));
    size_ = geometry_.bytes();
    memory_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED,
                   handle.fds[0].get(), 0);
    ASSERT_NE(memory_, MAP_FAILED);
    TENON_ASSERT_OK_AND_ASSIGN(other_, OpenItems(std::move(handle), type));
  }
  void Unmap() {
    queue_.reset();
    other_.reset();
    if (memory_ != nullptr) munmap(memory_, size_);
    memory_ = nullptr;
  }
  void TearDown() override { Unmap(); }

  std::span<uint64_t> words() const {
    return {static_cast<uint64_t*>(memory_), size_ / sizeof(uint64_t)};
  }
  uint64_t& Word(size_t slot, size_t offset) const {
    return words()[(kQueueParticipantsOffset + slot * sizeof(QueueParticipant) +
                    offset) /
                   sizeof(uint64_t)];
  }
  // The sequence word of the slot of `position` in the ring of slot 0.
  uint64_t& Sequence(uint64_t position) const {
    return words()[(geometry_.slots_offset() +
                    position % geometry_.slots() * geometry_.bytes_per_slot()) /
                   sizeof(uint64_t)];
  }

  QueueGeometry geometry_;
  std::unique_ptr<QueueCore> queue_, other_;
  void* memory_ = nullptr;
  size_t size_ = 0;
};

TEST_F(QueueGarbageTest, AHeadFarAwayMisleadsNoGetter) {
  Make();
  ASSERT_THAT(queue_->Put(BytesOf(MakeItem(0, 0)), Deadline::Passed()), IsOk());
  Word(0, offsetof(QueueParticipant, head)) = uint64_t{1} << 40;
  EXPECT_EQ(other_->size(), kCapacity);
  EXPECT_THAT(GetItem(*other_, Deadline::Passed()), IsOk());
  EXPECT_THAT(other_->Drain(), IsOkAndHolds(0u));
  // The putter has its own count.
  ASSERT_THAT(queue_->Put(BytesOf(MakeItem(0, 1)), Deadline::Passed()), IsOk());
  EXPECT_EQ(other_->size(), 1u);
}

TEST_F(QueueGarbageTest, ASequenceOfAnotherItemIsRefused) {
  Make();
  ASSERT_THAT(queue_->Put(BytesOf(MakeItem(0, 0)), Deadline::Passed()), IsOk());
  ASSERT_EQ(Sequence(0), 1u);
  Sequence(0) = 7;
  const auto got = GetItem(*other_, Deadline::Passed());
  EXPECT_THAT(got, StatusIs(kDataLoss));
  EXPECT_THAT(got.status().message(),
              testing::HasSubstr("slot 0 (head 1, take 0, sequence 7)"));
  EXPECT_THAT(other_->Drain(), StatusIs(kDataLoss));
  // A sleeper would wake at once.
  EXPECT_THAT(other_->Arm(), IsOkAndHolds(false));
  // An impossible size is that of a whole item.
  Sequence(0) = 1 | uint64_t{255} << 56;
  EXPECT_THAT(GetItem(*other_, Deadline::Passed()), IsOk());
}

TEST_F(QueueGarbageTest, ATakeBeyondTheHeadIsRefused) {
  Make();
  for (uint64_t i = 0; i < kCapacity; ++i) {
    ASSERT_THAT(queue_->Put(BytesOf(MakeItem(0, i)), Deadline::Passed()),
                IsOk());
  }
  Word(0, offsetof(QueueParticipant, take)) = 77;
  EXPECT_THAT(queue_->Put(BytesOf(MakeItem(0, 9)), Deadline::Passed()),
              StatusIs(kDataLoss));
  EXPECT_THAT(GetItem(*other_, Deadline::Passed()), StatusIs(kDataLoss));
}

TEST_F(QueueGarbageTest, AWrongKindIsNotOpened) {
  Make();
  TENON_ASSERT_OK_AND_ASSIGN(QueueHandle handle, queue_->Share());
  words()[3] = uint64_t{1} << 50;  // The capacity.
  EXPECT_THAT(OpenItems(std::move(handle)),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

// Seeded, so that failures can be reproduced.
TEST_F(QueueGarbageTest, CorruptWordsAreSurvived) {
  const size_t fds = CountOpenFds();
  std::mt19937_64 random(42);
  uint64_t errors = 0, calls = 0;
  for (int round = 0; round < 3000; ++round) {
    const QueueType type =
        round % 4 == 0 ? QueueType::kTasks : QueueType::kItems;
    if (round % 20 == 0) Make(type);
    for (uint64_t n = random() % 4; n < 4; ++n) {
      // All but the geometry, which is not read any more.
      uint64_t& word = words()[8 + random() % (words().size() - 8)];
      switch (random() % 4) {
        case 0:
          word = random();
          break;
        case 1:
          word += random() % 5 - 2;
          break;
        case 2:
          word ^= uint64_t{1} << random() % 64;
          break;
        case 3:
          word = 0;
          break;
      }
    }
    for (QueueCore* queue : {queue_.get(), other_.get()}) {
      const auto note = [&](const absl::Status& status) {
        ++calls;
        errors += !status.ok();
      };
      TestItem item;
      const auto out = std::as_writable_bytes(std::span(item));
      const Deadline soon = random() % 16 == 0
                                ? Deadline::After(absl::Microseconds(200))
                                : Deadline::Passed();
      note(queue->Put(BytesOf(MakeItem(0, 0)), soon));
      note(queue->Get(out, soon).status());
      note(queue->TryGet(out).status());
      note(queue->TaskDone(1));
      note(queue->JoinTasks(soon));
      note(queue->Arm().status());
      queue->Disarm();
      EXPECT_LE(queue->size(), 3 * kCapacity);
      note(queue->ReadFds(random() % 4).status());
      if (random() % 8 != 0) continue;
      TENON_ASSERT_OK_AND_ASSIGN(QueueHandle handle, queue->Share());
      note(OpenItems(std::move(handle), type).status());
    }
  }
  Unmap();
  std::cout << errors << " of " << calls << " calls failed\n";
  EXPECT_GT(errors, 0u);
  EXPECT_EQ(CountOpenFds(), fds);
}

}  // namespace
}  // namespace tenon

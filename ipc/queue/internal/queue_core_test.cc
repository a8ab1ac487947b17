// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// QueueCore's functions for queues of more than bytes: claims before taking,
// the count of taken items, descriptors published with a slot.

#include "tenon/ipc/queue/internal/queue_core.h"

#include <sys/eventfd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/queue/fd_board.h"
#include "tenon/ipc/queue/internal/queue_layout.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/queue/queue_testing.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const Deadline kNow = Deadline::Passed();

// Records the numbers of the claimed items; `at` is called at each claim and
// may refuse it.
class Claimer : public QueueClaimer {
 public:
  using At = std::function<absl::Status(uint64_t number)>;

  explicit Claimer(At at = [](uint64_t) { return absl::OkStatus(); })
      : at_(std::move(at)) {}

  absl::Status Claim(const QueueItem& item) override {
    TestItem copy;
    std::memcpy(copy.data(), item.bytes.data(), sizeof(copy));
    EXPECT_TRUE(IsWhole(copy));
    EXPECT_EQ(item.position, copy[1]);
    EXPECT_EQ(item.slot, copy[0]);
    absl::Status claimed = at_(copy[1]);
    if (claimed.ok()) held_.push_back(copy[1]);
    return claimed;
  }
  void Undo(const QueueItem& item) override {
    ASSERT_FALSE(held_.empty());
    EXPECT_EQ(held_.back(), item.position);
    held_.pop_back();
    ++undone_;
  }

  const std::vector<uint64_t>& held() const { return held_; }
  int undone() const { return undone_; }

 private:
  At at_;
  std::vector<uint64_t> held_;
  int undone_ = 0;
};

class QueueCoreTest : public testing::Test {
 protected:
  void SetUp() override {
    auto queue = QueueCore::Create(QueueType::kTensors, sizeof(TestItem),
                                   {.capacity = 8});
    ASSERT_THAT(queue, IsOk());
    queue_ = *std::move(queue);
    ASSERT_EQ(queue_->slot(), 0u);
    other_ = Another();
  }

  std::unique_ptr<QueueCore> Another() {
    auto other = OpenItems(queue_->Share().value(), QueueType::kTensors);
    EXPECT_THAT(other, IsOk());
    return *std::move(other);
  }

  void PutMany(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      ASSERT_THAT(queue_->Put(BytesOf(MakeItem(0, queue_->put())), kNow),
                  IsOk());
    }
  }
  absl::StatusOr<size_t> GetMany(QueueClaimer* claimer) {
    std::array<TestItem, 8> items;
    return other_->Get(std::as_writable_bytes(std::span(items)), kNow, claimer);
  }

  std::unique_ptr<QueueCore> queue_, other_;
};

TEST_F(QueueCoreTest, TakenItemsWereClaimed) {
  Claimer claimer;
  PutMany(3);
  EXPECT_EQ(queue_->taken(), 0u);
  EXPECT_THAT(GetMany(&claimer), IsOkAndHolds(3u));
  EXPECT_THAT(claimer.held(), ElementsAre(0, 1, 2));
  EXPECT_EQ(queue_->put(), 3u);
  EXPECT_EQ(queue_->taken(), 3u);
  EXPECT_EQ(other_->taken(), 0u);
}

TEST_F(QueueCoreTest, RefusedItemsStayQueued) {
  Claimer refuses([](uint64_t number) {
    return number < 2 ? absl::OkStatus() : absl::ResourceExhaustedError("no");
  });
  PutMany(4);
  // First the good items.
  EXPECT_THAT(GetMany(&refuses), IsOkAndHolds(2u));
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(GetMany(&refuses),
                StatusIs(absl::StatusCode::kResourceExhausted));
  }
  EXPECT_EQ(queue_->taken(), 2u);
  Claimer takes;
  EXPECT_THAT(GetMany(&takes), IsOkAndHolds(2u));
}

TEST_F(QueueCoreTest, AnUnusableItemIsRemoved) {
  Claimer refuses([](uint64_t number) {
    return number != 1 ? absl::OkStatus() : absl::DataLossError("died");
  });
  PutMany(3);
  EXPECT_THAT(GetMany(&refuses), IsOkAndHolds(1u));
  EXPECT_THAT(GetMany(&refuses), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(GetMany(&refuses), IsOkAndHolds(1u));
  EXPECT_THAT(refuses.held(), ElementsAre(0, 2));
  EXPECT_EQ(queue_->size(), 0u);
}

// Another getter takes the item between the claim and the taking.
TEST_F(QueueCoreTest, TheSlowerGetterUndoesItsClaims) {
  auto third = Another();
  bool first = true;
  Claimer slow([&](uint64_t) {
    if (std::exchange(first, false)) {
      EXPECT_THAT(GetItem(*third, kNow), IsOk());
    }
    return absl::OkStatus();
  });
  PutMany(3);
  EXPECT_THAT(GetMany(&slow), IsOkAndHolds(2u));
  EXPECT_EQ(slow.undone(), 3);
  EXPECT_THAT(slow.held(), ElementsAre(1, 2));
}

// The same, and the claim fails for that reason: the error is discarded.
TEST_F(QueueCoreTest, AnErrorOfTheSlowerGetterIsDiscarded) {
  auto third = Another();
  Claimer slow([&](uint64_t) {
    EXPECT_THAT(GetItem(*third, kNow), IsOk());
    return absl::DataLossError("it has been let go of");
  });
  PutMany(1);
  EXPECT_THAT(GetMany(&slow), StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(slow.held(), IsEmpty());
  EXPECT_EQ(queue_->taken(), 1u);
}

// Records the claimed items; the first claim calls `at`.
class BytesClaimer : public QueueClaimer {
 public:
  using Bytes = std::vector<std::byte>;

  explicit BytesClaimer(std::function<void()> at = [] {})
      : at_(std::move(at)) {}

  absl::Status Claim(const QueueItem& item) override {
    std::exchange(at_, [] {})();
    held_.emplace_back(item.bytes.begin(), item.bytes.end());
    return absl::OkStatus();
  }
  void Undo(const QueueItem& item) override {
    ASSERT_FALSE(held_.empty());
    EXPECT_EQ(held_.back(), Bytes(item.bytes.begin(), item.bytes.end()));
    held_.pop_back();
  }

  const std::vector<Bytes>& held() const { return held_; }

 private:
  std::function<void()> at_;
  std::vector<Bytes> held_;
};

// The first `bytes` bytes of the item of that number.
BytesClaimer::Bytes Short(uint64_t number, size_t bytes) {
  const TestItem item = MakeItem(0, number);
  return {BytesOf(item).begin(),
          BytesOf(item).begin() + static_cast<ptrdiff_t>(bytes)};
}

TEST_F(QueueCoreTest, AClaimerReceivesShortItemsAsTheyWerePut) {
  std::vector<BytesClaimer::Bytes> put;
  // Twice around the ring: short items follow longer ones in the same slot.
  for (uint64_t round = 0; round < 4; ++round) {
    const std::vector<size_t> sizes = {24, 64, 64, 8, 56};
    for (uint64_t i = 0; i < sizes.size(); ++i) {
      put.push_back(Short(round * 8 + i, sizes[i]));
      ASSERT_THAT(queue_->Put(put.back(), kNow), IsOk());
    }
    BytesClaimer claimer;
    // A short item is taken alone.
    for (const size_t count : {1u, 2u, 1u, 1u}) {
      EXPECT_THAT(GetMany(&claimer), IsOkAndHolds(count));
    }
    EXPECT_EQ(claimer.held(), put);
    put.clear();
  }
  EXPECT_EQ(queue_->taken(), 20u);
}

TEST_F(QueueCoreTest, WithoutAClaimerAShortItemFillsItsPlace) {
  ASSERT_THAT(queue_->TryPut(Short(0, 16)), IsOkAndHolds(true));
  PutMany(1);
  std::array<TestItem, 8> items;
  EXPECT_THAT(other_->TryGet(std::as_writable_bytes(std::span(items))),
              IsOkAndHolds(2u));
  EXPECT_EQ(items[0][0], MakeItem(0, 0)[0]);
  EXPECT_EQ(items[0][1], MakeItem(0, 0)[1]);
  EXPECT_EQ(items[1], MakeItem(0, 1));
}

TEST_F(QueueCoreTest, TheSlowerGetterUndoesAShortItem) {
  auto third = Another();
  BytesClaimer slow([&] {
    BytesClaimer fast;
    TestItem item;
    EXPECT_THAT(third->TryGet(std::as_writable_bytes(std::span(item)), &fast),
                IsOkAndHolds(1u));
  });
  ASSERT_THAT(queue_->Put(Short(0, 40), kNow), IsOk());
  ASSERT_THAT(queue_->Put(Short(1, 8), kNow), IsOk());
  EXPECT_THAT(GetMany(&slow), IsOkAndHolds(1u));
  EXPECT_THAT(slow.held(), ElementsAre(Short(1, 8)));
}

TEST_F(QueueCoreTest, ShortItemsAreOfWholeWordsAndAlone) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  for (const size_t bytes : {0u, 1u, 12u, 63u}) {
    EXPECT_THAT(queue_->Put(Short(0, bytes), kNow), StatusIs(kInvalid));
  }
  // One and a half.
  const std::array<TestItem, 2> two = {};
  EXPECT_THAT(queue_->Put(std::as_bytes(std::span(two)).first(96), kNow),
              StatusIs(kInvalid));
  // Items of other queues are whole.
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto items,
      QueueCore::Create(QueueType::kItems, sizeof(TestItem), {.capacity = 8}));
  EXPECT_THAT(items->Put(Short(0, 24), kNow), StatusIs(kInvalid));
}

// By the short way, too: it would write beyond the slot.
TEST_F(QueueCoreTest, WordsArePutOnlyWhereTheyAreAShortItem) {
  const std::array<uint64_t, 7> words = {1, 2, 3, 4, 5, 6, 7};
  struct Case {
    QueueType type;
    size_t item_bytes;
    bool puts;
  };
  for (const Case& c : {Case{QueueType::kTensors, 57, true},
                        Case{QueueType::kTensors, 56, false},
                        Case{QueueType::kTensors, 8, false},
                        Case{QueueType::kItems, 64, false}}) {
    TENON_ASSERT_OK_AND_ASSIGN(
        const auto queue,
        QueueCore::Create(c.type, c.item_bytes, {.capacity = 2}));
    // From then on it knows its participants, as the short way requires.
    ASSERT_THAT(queue->Put(std::vector<std::byte>(c.item_bytes), kNow), IsOk());
    EXPECT_EQ(queue->TryPutWords(words), c.puts) << c.item_bytes;
    EXPECT_EQ(queue->size(), c.puts ? 2u : 1u);
  }
}

TEST_F(QueueCoreTest, AShortItemHasAtMost255Words) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto queue,
      QueueCore::Create(QueueType::kTensors, 4000, {.capacity = 2}));
  std::vector<std::byte> most(2040, std::byte{7});
  EXPECT_THAT(queue->Put(most, kNow), IsOk());
  most.resize(2048);
  EXPECT_THAT(queue->Put(most, kNow),
              StatusIs(absl::StatusCode::kInvalidArgument));
  BytesClaimer claimer;
  std::vector<std::byte> out(4000);
  EXPECT_THAT(queue->Get(out, kNow, &claimer), IsOkAndHolds(1u));
  EXPECT_THAT(claimer.held(),
              ElementsAre(BytesClaimer::Bytes(2040, std::byte{7})));
}

TEST(QueueLayoutTest, ASlotWastesNoCacheLine) {
  QueueGeometry geometry;
  geometry.type = static_cast<uint32_t>(QueueType::kTensors);
  for (uint64_t bytes = 1; bytes <= QueueGeometry::kMaxItemBytes; ++bytes) {
    geometry.item_bytes = bytes;
    const uint64_t used = 8 + bytes, slot = geometry.bytes_per_slot();
    ASSERT_GE(slot, used);
    // Slots begin at a line, or do not cross one.
    ASSERT_EQ(used > 64 ? slot % 64 : 64 % slot, 0u) << bytes;
    ASSERT_LT(slot, used > 64 ? used + 64 : 2 * used + 8) << bytes;
    QueueGeometry whole = geometry;
    whole.type = static_cast<uint32_t>(QueueType::kItems);
    // Packed if larger than a line: there are no short items.
    ASSERT_EQ(whole.bytes_per_slot(), used > 64 ? (used + 7) / 8 * 8 : slot);
  }
}

// A queue of tasks, for the hook of the test below.
struct LostTake {
  std::unique_ptr<QueueCore> loser, winner;
  absl::Status done;
};
LostTake* lost_take = nullptr;

// The loser has announced that it begins a task. The winner takes it first.
void TakeFirst(const CrashPoint& point) {
  if (point.name() != std::string("queue.begun")) return;
  SetCrashPointHook(nullptr);
  EXPECT_THAT(GetItem(*lost_take->winner, kNow), IsOk());
  lost_take->done = lost_take->loser->TaskDone(1);
}

TEST(QueueTasksTest, ATaskOfALostTakeIsNotDone) {
  LostTake state;
  lost_take = &state;
  auto queue = QueueCore::Create(QueueType::kTasks, sizeof(TestItem), {});
  ASSERT_THAT(queue, IsOk());
  state.winner = *std::move(queue);
  auto other = OpenItems(state.winner->Share().value(), QueueType::kTasks);
  ASSERT_THAT(other, IsOk());
  state.loser = *std::move(other);
  ASSERT_THAT(state.winner->Put(BytesOf(MakeItem(0, 0)), kNow), IsOk());
  TestItem item;
  SetCrashPointHook(&TakeFirst);
  EXPECT_THAT(state.loser->TryGet(std::as_writable_bytes(std::span(item))),
              IsOkAndHolds(0u));
  EXPECT_EQ(SetCrashPointHook(nullptr), nullptr) << "no take was lost";
  EXPECT_THAT(state.done, StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(state.winner->TaskDone(1), IsOk());
  EXPECT_THAT(state.winner->JoinTasks(kNow), IsOk());
}

TEST_F(QueueCoreTest, DescriptorsArePublishedInASlot) {
  // Now each participant knows the others.
  PutMany(1);
  ASSERT_THAT(GetItem(*other_, kNow), IsOk());
  const size_t fds = CountOpenFds();
  {
    const UniqueFd mine(eventfd(3, EFD_CLOEXEC));
    const int fd = mine.get();
    ASSERT_THAT(queue_->PublishFds("arena", {&fd, 1}), IsOk());
    PutMany(1);
    TENON_ASSERT_OK_AND_ASSIGN(const Message item, other_->ReadFds(0));
    EXPECT_EQ(item.bytes, "arena");
    EXPECT_EQ(item.fds.size(), 1u);
  }
  EXPECT_EQ(CountOpenFds(), fds);
  // The former member is still known, and rung.
  auto third = Another();
  ASSERT_THAT(third->Arm(), IsOk());
  queue_.reset();
  // Items and published descriptors outlive their owner.
  EXPECT_THAT(other_->ReadFds(0), IsOk());
  EXPECT_THAT(GetItem(*other_, kNow), IsOk());
  EXPECT_THAT(other_->ReadFds(64),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace tenon

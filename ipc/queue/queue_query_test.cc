// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/queue/queue_query.h"

#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/channel/channel_testing.h"
#include "tenon/ipc/queue/internal/queue_layout.h"
#include "tenon/ipc/queue/queue.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/memfd.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

// The only queue of that name, if there is one.
std::optional<QueueReport> Find(const std::string& name) {
  const auto reports = QueryQueues();
  EXPECT_THAT(reports, IsOk());
  std::optional<QueueReport> found;
  for (const QueueReport& queue : reports->queues) {
    if (queue.name != name) continue;
    EXPECT_FALSE(found.has_value()) << "twice";
    found = queue;
  }
  return found;
}

TEST(QueueQueryTest, ReportsItemsAndHolders) {
  const std::string name = UniqueTestPrefix();
  TENON_ASSERT_OK_AND_ASSIGN(
      auto queue, Queue<uint64_t>::Create({.name = name, .capacity = 16}));
  TENON_ASSERT_OK_AND_ASSIGN(QueueHandle handle, queue.Share());
  auto pair = Channel::CreatePair().value();
  const pid_t child = StartChild([&] {
    auto gate = Channel::Adopt(pair.second.Release());
    ASSERT_THAT(gate, IsOk());
    auto theirs = Queue<uint64_t>::Open(std::move(handle));
    ASSERT_THAT(theirs, IsOk());
    for (uint64_t i = 0; i < 5; ++i) {
      ASSERT_THAT(theirs->Put(i, Watchdog()), IsOk());
    }
    ASSERT_THAT(gate->Send("put", {}, Watchdog()), IsOk());
    EXPECT_THAT(gate->Receive(Watchdog()), IsMessage("end"));
  });
  ASSERT_THAT(pair.first.Receive(Watchdog()), IsMessage("put"));
  ASSERT_THAT(queue.Put(7, Watchdog()), IsOk());
  ASSERT_THAT(queue.Get(Watchdog()), IsOk());

  const auto report = Find(name);
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->type, QueueType::kItems);
  EXPECT_EQ(report->item_bytes, 8u);
  EXPECT_EQ(report->capacity, 16u);
  EXPECT_FALSE(report->closed);
  EXPECT_EQ(report->items, 5u);
  ASSERT_THAT(report->slots, SizeIs(2));
  EXPECT_EQ(report->slots[0].put + report->slots[1].put, 6u);
  EXPECT_TRUE(report->slots[0].present && report->slots[1].present);
  EXPECT_THAT(report->pids, ElementsAre(getpid(), child));
  EXPECT_EQ(report->slots[0].put_waits.count(), 0u);

  ASSERT_THAT(queue.Close(), IsOk());
  ASSERT_THAT(pair.first.Send("end", {}, Watchdog()), IsOk());
  EXPECT_EQ(ExitCodeOf(child), 0);
  const auto after = Find(name);
  ASSERT_TRUE(after.has_value());
  EXPECT_TRUE(after->closed);
  EXPECT_THAT(after->pids, ElementsAre(getpid()));
}

TEST(QueueQueryTest, ReportsWaits) {
  const std::string name = UniqueTestPrefix();
  TENON_ASSERT_OK_AND_ASSIGN(
      auto queue, Queue<uint64_t>::Create({.name = name, .capacity = 1}));
  const auto a_moment = [] { return Deadline::After(absl::Milliseconds(200)); };
  EXPECT_THAT(queue.Get(a_moment()),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  ASSERT_THAT(queue.Put(1, Watchdog()), IsOk());
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(queue.Put(2, a_moment()),
                StatusIs(absl::StatusCode::kDeadlineExceeded));
  }
  const auto report = Find(name);
  ASSERT_TRUE(report.has_value());
  ASSERT_THAT(report->slots, SizeIs(1));
  EXPECT_EQ(report->slots[0].get_waits.count(), 1u);
  EXPECT_EQ(report->slots[0].put_waits.count(), 2u);
  EXPECT_EQ(report->slots[0].put_waits.total_ns,
            queue.stats().put_waits.total_ns);
}

TEST(QueueQueryTest, WhatMakesNoSenseIsLeftOut) {
  const std::string name = UniqueTestPrefix();
  const std::string label = absl::StrCat(kQueueLabel, name);
  TENON_ASSERT_OK_AND_ASSIGN(const UniqueFd empty,
                             OpenMemfd(label, 0, "a memfd"));
  EXPECT_FALSE(Find(name).has_value());
  QueueGeometry geometry;
  geometry.type = static_cast<uint32_t>(QueueType::kItems);
  geometry.item_bytes = 8;
  geometry.capacity = 4;
  geometry.participants = 2;
  ASSERT_EQ(ftruncate(empty.get(), static_cast<off_t>(geometry.bytes())), 0);
  ASSERT_EQ(pwrite(empty.get(), &geometry, sizeof(geometry), 0),
            static_cast<ssize_t>(sizeof(geometry)));
  // Whatever the heads and takes, the reported number of items is possible.
  const uint64_t wild = ~uint64_t{0};
  for (const size_t word : {offsetof(QueueParticipant, generation),
                            offsetof(QueueParticipant, head)}) {
    const size_t at = kQueueParticipantsOffset + word;
    ASSERT_EQ(pwrite(empty.get(), &wild, 8, static_cast<off_t>(at)), 8);
  }
  const auto report = Find(name);
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->items, 4u);
  geometry.participants = 65;
  ASSERT_EQ(pwrite(empty.get(), &geometry, sizeof(geometry), 0),
            static_cast<ssize_t>(sizeof(geometry)));
  EXPECT_FALSE(Find(name).has_value());
}

}  // namespace
}  // namespace tenon

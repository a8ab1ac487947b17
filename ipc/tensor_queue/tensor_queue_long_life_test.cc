// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Long-lived consumers: many queues over one arena, queues that are reopened,
// messages that are rejected again and again, changing producers. No tensor
// that a consumer holds is overwritten, and the consumer's resources do not
// grow.

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/ipc/tensor_queue/tensor_queue_testing.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/few_fds.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kElements = 512;  // Of 8 bytes: a page.

std::shared_ptr<Arena> SmallArena() {
  return Arena::Create({.quota_bytes = static_cast<size_t>(2 * kMiB)}).value();
}

// Reuses all memory of the arena that has no holder.
void Overwrite(Arena& arena) {
  std::vector<Tensor> all;
  for (;;) {
    auto tensor =
        CreateTensor(arena, kDtypeOf<int64_t>, {kElements}, Deadline::Passed());
    if (!tensor.ok()) {
      EXPECT_THAT(tensor, StatusIs(StatusCode::kResourceExhausted));
      break;
    }
    ASSERT_THAT(tensor->Fill(int64_t{-1}), IsOk());
    all.push_back(*std::move(tensor));
  }
  EXPECT_GT(all.size(), 100u);
}

absl::Status PutNumber(TensorQueue& queue, int64_t value) {
  auto tensor =
      queue.CreateTensor(kDtypeOf<int64_t>, {kElements}, TestDeadline());
  if (!tensor.ok()) return tensor.status();
  absl::Status filled = tensor->Fill(value);
  return filled.ok() ? queue.Put(*tensor, TestDeadline()) : filled;
}

// The number of `held` tensors, initially 0, 1, 2, ..., that have been
// overwritten.
size_t CountOverwritten(const std::vector<Tensor>& held) {
  size_t overwritten = 0;
  for (size_t i = 0; i < held.size(); ++i) {
    overwritten += !IsTensorOf(held[i], static_cast<int64_t>(i));
  }
  return overwritten;
}

TEST(TensorQueueLongLifeTest, ManyQueuesShareOneArena) {
  const auto arena = SmallArena();
  std::vector<std::unique_ptr<TensorQueue>> queues;
  std::vector<Tensor> held;
  for (int64_t i = 0; i < 70; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(
        auto producer, TensorQueue::Create({.capacity = 4}, {.arena = arena}));
    TENON_ASSERT_OK_AND_ASSIGN(QueueHandle handle, producer->Share());
    TENON_ASSERT_OK_AND_ASSIGN(auto consumer,
                               TensorQueue::Open(std::move(handle)));
    ASSERT_THAT(PutNumber(*producer, i), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(held.emplace_back(),
                               consumer->GetTensor(TestDeadline()));
    queues.push_back(std::move(producer));
    queues.push_back(std::move(consumer));
  }
  TensorQueue::Reap();
  Overwrite(*arena);
  EXPECT_EQ(CountOverwritten(held), 0u);
  EXPECT_EQ(arena->Use().attached, 1u);
}

TEST(TensorQueueLongLifeTest, AQueueIsOpenedAnewForEachEpoch) {
  const auto arena = SmallArena();
  TENON_ASSERT_OK_AND_ASSIGN(
      auto producer, TensorQueue::Create({.capacity = 4}, {.arena = arena}));
  std::vector<Tensor> held;
  for (int64_t epoch = 0; epoch < 70; ++epoch) {
    TENON_ASSERT_OK_AND_ASSIGN(QueueHandle handle, producer->Share());
    TENON_ASSERT_OK_AND_ASSIGN(auto consumer,
                               TensorQueue::Open(std::move(handle)));
    ASSERT_THAT(PutNumber(*producer, epoch), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(held.emplace_back(),
                               consumer->GetTensor(TestDeadline()));
  }
  TensorQueue::Reap();
  Overwrite(*arena);
  EXPECT_EQ(CountOverwritten(held), 0u);
}

// No tensor is held from one epoch to the next, and the owner does not reclaim.
TEST(TensorQueueLongLifeTest, AnIdleOwnerIsAttachedToManyTimes) {
  const auto arena = SmallArena();
  TENON_ASSERT_OK_AND_ASSIGN(
      auto producer, TensorQueue::Create({.capacity = 128}, {.arena = arena}));
  for (int64_t i = 0; i < 100; ++i) {
    ASSERT_THAT(PutNumber(*producer, 0), IsOk());
  }
  std::vector<Tensor> held;
  for (int epoch = 0; epoch < 100; ++epoch) {
    held.clear();
    TENON_ASSERT_OK_AND_ASSIGN(QueueHandle handle, producer->Share());
    TENON_ASSERT_OK_AND_ASSIGN(auto consumer,
                               TensorQueue::Open(std::move(handle)));
    TENON_ASSERT_OK_AND_ASSIGN(held.emplace_back(),
                               consumer->GetTensor(TestDeadline()));
  }
  TensorQueue::Reap();
  Overwrite(*arena);
  EXPECT_EQ(CountOverwritten(held), 0u);
  EXPECT_EQ(arena->Use().refused, 0u);
}

// One message exceeds the consumer's limit. The consumer keeps the arenas of
// other producers.
TEST(TensorQueueLongLifeTest, AMessageIsRefusedAgainAndAgain) {
  const auto arena = SmallArena();
  TENON_ASSERT_OK_AND_ASSIGN(
      auto producer, TensorQueue::Create({.capacity = 4}, {.arena = arena}));
  TENON_ASSERT_OK_AND_ASSIGN(auto other,
                             TensorQueue::Open(producer->Share().value()));
  TensorQueueParticipantOptions use;
  use.arenas.max_arenas = 128;
  use.arenas.max_bytes = static_cast<uint64_t>(4 * kMiB);
  TENON_ASSERT_OK_AND_ASSIGN(auto consumer,
                             TensorQueue::Open(producer->Share().value(), use));
  TENON_ASSERT_OK_AND_ASSIGN(
      const Tensor large,
      other->CreateTensor(kDtypeOf<int64_t>, {kMiB}, TestDeadline()));
  ASSERT_THAT(other->Put(large, TestDeadline()), IsOk());

  std::vector<Tensor> held;
  size_t refused = 0;
  for (int64_t i = 0; i < 150; ++i) {
    ASSERT_THAT(PutNumber(*producer, i), IsOk());
    for (int tries = 0; tries < 10; ++tries) {
      auto tensor = consumer->GetTensor(Deadline::Passed());
      if (tensor.ok()) {
        held.push_back(*std::move(tensor));
        break;
      }
      ASSERT_THAT(tensor, StatusIs(StatusCode::kResourceExhausted,
                                   HasSubstr("max_bytes")))
          << "with " << held.size() << " held";
      ++refused;
    }
    TensorQueue::Reap();
    ASSERT_EQ(held.size(), static_cast<size_t>(i) + 1) << refused << " refused";
  }
  EXPECT_GT(refused, 0u);
  Overwrite(*arena);
  EXPECT_EQ(CountOverwritten(held), 0u);
  EXPECT_EQ(arena->Use().attached, 1u);
}

// A process that joins a queue, receives one tensor and leaves.
void BeOneConsumer(QueueHandle handle) {
  TENON_ASSERT_OK_AND_ASSIGN(auto queue, TensorQueue::Open(std::move(handle)));
  EXPECT_THAT(queue->GetTensor(TestDeadline()).status(), IsOk());
}

// An owner that is never short of memory accepts every attachment. New tensors,
// then the same one each time.
TEST(TensorQueueLongLifeTest, HundredsOfConsumersOfABusyOwner) {
  TENON_ASSERT_OK_AND_ASSIGN(auto producer,
                             TensorQueue::Create({.capacity = 4}));
  TENON_ASSERT_OK_AND_ASSIGN(
      const Tensor first,
      producer->CreateTensor(kDtypeOf<uint8_t>, {16 * kMiB}, TestDeadline()));
  const auto serve = [&](int consumers, auto put) {
    for (int i = 0; i < consumers; ++i) {
      TENON_ASSERT_OK_AND_ASSIGN(QueueHandle handle, producer->Share());
      ASSERT_THAT(put(), IsOk());
      TENON_ASSERT_OK_AND_ASSIGN(ForkedChild child,
                                 ForkedChild::Fork({}, [&](const Reporter&) {
                                   BeOneConsumer(std::move(handle));
                                 }));
      handle = QueueHandle();
      ASSERT_TRUE(child.EndsWell()) << "consumer " << i;
    }
  };
  serve(300, [&] { return PutNumber(*producer, 1); });
  TENON_ASSERT_OK_AND_ASSIGN(
      const Tensor same,
      producer->CreateTensor(kDtypeOf<uint8_t>, {4096}, TestDeadline()));
  serve(300, [&] { return producer->Put(same, TestDeadline()); });
}

// Shared memory in the address space of this process.
int64_t MappedMemfdBytes() {
  std::ifstream maps("/proc/self/maps");
  int64_t bytes = 0;
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    if (!absl::StrContains(line, "memfd:")) continue;
    if (sscanf(line.c_str(), "%lx-%lx", &begin, &end) != 2) continue;
    bytes += static_cast<int64_t>(end - begin);
  }
  return bytes;
}

// A process that puts one tensor, and ends once it is taken.
absl::StatusOr<ForkedChild> Producer(QueueHandle handle, int64_t bytes) {
  return ForkedChild::Fork({}, [&](const Reporter&) {
    TENON_ASSERT_OK_AND_ASSIGN(auto queue,
                               TensorQueue::Open(std::move(handle)));
    TENON_ASSERT_OK_AND_ASSIGN(
        const Tensor tensor,
        queue->CreateTensor(kDtypeOf<uint8_t>, {bytes}, TestDeadline()));
    ASSERT_THAT(queue->Put(tensor, TestDeadline()), IsOk());
    ASSERT_THAT(queue->AwaitTaken(TestDeadline()), IsOk());
  });
}

TEST(TensorQueueLongLifeTest, ProducersComeAndGo) {
  TENON_ASSERT_OK_AND_ASSIGN(auto consumer,
                             TensorQueue::Create({.capacity = 4}));
  // So that the queue waits for a producer.
  TENON_ASSERT_OK_AND_ASSIGN(const auto other,
                             TensorQueue::Open(consumer->Share().value()));
  int64_t mapped = 0;
  size_t fds = 0;
  for (int i = 0; i < 60; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(QueueHandle handle, consumer->Share());
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild child,
                               Producer(std::move(handle), 4 * kMiB));
    ASSERT_THAT(consumer->GetTensor(TestDeadline()), IsOk());
    ASSERT_TRUE(child.EndsWell());
    if (i == 1) {
      mapped = MappedMemfdBytes();
      fds = CountOpenFds();
    }
  }
  // A former producer's arena may still be mapped; a call without a producer
  // drops it.
  EXPECT_LE(MappedMemfdBytes(), mapped);
  EXPECT_LE(CountOpenFds(), fds);
  EXPECT_THAT(consumer->Trim(), IsOk());
  EXPECT_LE(MappedMemfdBytes(), mapped - 4 * kMiB);
  EXPECT_EQ(consumer->mapped().bytes, 0u);
}

// Arenas of which nothing is held have descriptors, and are forgotten where an
// offer cannot be received without.
TEST(TensorQueueLongLifeTest, IdleArenasMakeRoomAtTheLimitOfDescriptors) {
  // Each round begins with all descriptors below the limit: those that are open
  // above it would make no room.
  for (const rlim_t room : {0, 1, 2}) {
    TENON_ASSERT_OK_AND_ASSIGN(const auto consumer,
                               TensorQueue::Create({.capacity = 4}));
    TENON_ASSERT_OK_AND_ASSIGN(const auto last,
                               TensorQueue::Open(consumer->Share().value()));
    std::vector<std::unique_ptr<TensorQueue>> idle;
    for (int64_t i = 0; i < 5; ++i) {
      TENON_ASSERT_OK_AND_ASSIGN(idle.emplace_back(),
                                 TensorQueue::Open(consumer->Share().value()));
      ASSERT_THAT(PutNumber(*idle.back(), i), IsOk());
      EXPECT_TRUE(IsTensorOf(consumer->GetTensor(TestDeadline()), i));
    }
    TENON_ASSERT_OK_AND_ASSIGN(const auto arena, Arena::Create());
    TENON_ASSERT_OK_AND_ASSIGN(
        const Tensor tensor,
        CreateTensor(*arena, kDtypeOf<int64_t>, {kElements}, TestDeadline()));
    ASSERT_THAT(tensor.Fill(int64_t{7}), IsOk());
    ASSERT_THAT(last->Put(tensor, TestDeadline()), IsOk());
    const size_t arenas = consumer->mapped().arenas;
    absl::StatusOr<Tensor> got = absl::UnknownError("");
    {
      const FewFds few(room);
      got = consumer->GetTensor(Deadline::Passed());
    }
    EXPECT_TRUE(IsTensorOf(got, 7)) << "with " << room;
    EXPECT_LT(consumer->mapped().arenas, arenas);
  }
}

TEST(TensorQueueLongLifeTest, WhatALivingOwnerHasTrimmedIsUnmapped) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto arena, Arena::Create());
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto producer,
      TensorQueue::Create({.capacity = 4}, {.arena = arena}));
  TENON_ASSERT_OK_AND_ASSIGN(const auto consumer,
                             TensorQueue::Open(producer->Share().value()));
  for (const bool trims : {true, false}) {
    {
      TENON_ASSERT_OK_AND_ASSIGN(
          const Tensor tensor,
          producer->CreateTensor(kDtypeOf<uint8_t>, {4 * kMiB},
                                 TestDeadline()));
      ASSERT_THAT(producer->Put(tensor, TestDeadline()), IsOk());
      ASSERT_THAT(consumer->GetTensor(TestDeadline()).status(), IsOk());
      ASSERT_THAT(producer->AwaitTaken(TestDeadline()), IsOk());
    }
    EXPECT_GE(consumer->mapped().bytes, static_cast<uint64_t>(4 * kMiB));
    ASSERT_THAT(producer->Trim(), IsOk());
    ASSERT_THAT(arena->Trim(), IsOk());
    ASSERT_EQ(arena->Use().segments, 0u);
    if (trims) {
      EXPECT_THAT(consumer->Trim(), IsOk());
      EXPECT_EQ(consumer->mapped().bytes, 0u);
    } else {
      EXPECT_TRUE(Becomes([&] {
        EXPECT_THAT(consumer->GetTensor(Deadline::Passed()).status(),
                    StatusIs(StatusCode::kDeadlineExceeded));
        return consumer->mapped().bytes == 0;
      }));
    }
    EXPECT_EQ(consumer->mapped().segments, 0u);
    EXPECT_EQ(consumer->mapped().arenas, 1u);
  }
}

// Forks a process that has copies of all descriptors of this one, and exits
// when the other end of `pipe` is closed.
void ForkOneThatStays(int pipe) {
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid != 0) return;
  char byte;
  while (read(pipe, &byte, 1) < 0) {
  }
  _exit(0);
}

// Such a process keeps the leases of a killed owner from hanging up.
TEST(TensorQueueLongLifeTest, OwnersAreKilledAndTheirForkedChildrenStay) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd stay(ends[0]);
  UniqueFd end(ends[1]);
  TENON_ASSERT_OK_AND_ASSIGN(const auto consumer,
                             TensorQueue::Create({.capacity = 4}));
  TENON_ASSERT_OK_AND_ASSIGN(const auto other,
                             TensorQueue::Open(consumer->Share().value()));
  for (int i = 0; i < 140; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(QueueHandle handle, consumer->Share());
    TENON_ASSERT_OK_AND_ASSIGN(
        ForkedChild owner, ForkedChild::Fork({}, [&](const Reporter&) {
          end.Reset();
          TENON_ASSERT_OK_AND_ASSIGN(auto queue,
                                     TensorQueue::Open(std::move(handle)));
          ASSERT_THAT(PutNumber(*queue, i), IsOk());
          TENON_ASSERT_OK_AND_ASSIGN(
              const Tensor second,
              queue->CreateTensor(kDtypeOf<int64_t>, {kElements},
                                  TestDeadline()));
          // It has a copy of the inbox, with its unread attachments.
          ForkOneThatStays(stay.get());
          ASSERT_THAT(queue->Put(second, TestDeadline()), IsOk());
          for (;;) pause();
        }));
    handle = QueueHandle();
    EXPECT_TRUE(IsTensorOf(consumer->GetTensor(TestDeadline()), i));
    ASSERT_THAT(consumer->GetTensor(TestDeadline()).status(), IsOk())
        << "owner " << i;
    owner.Kill();
    ASSERT_LE(consumer->mapped().arenas, 3u);
  }
  EXPECT_THAT(consumer->Trim(), IsOk());
  EXPECT_EQ(consumer->mapped().arenas, 0u);
}

}  // namespace
}  // namespace tenon

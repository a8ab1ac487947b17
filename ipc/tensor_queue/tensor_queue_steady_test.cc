// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The cost of many tensors: no system call while both ends spin, those that a
// segment of its own needs, and neither descriptors nor mappings.

#include <sched.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/ipc/tensor_queue/tensor_queue_testing.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm/testing/trace/syscall_failer.h"
#include "tenon/shm/testing/trace/tracee.h"

namespace tenon {
namespace {

using testing::Pair;
using testing::UnorderedElementsAre;

// Called in each turn of a loop that spins: a peer that waits for a core of a
// busy machine gets this one, not only after a slice of the scheduler.
void YieldAfterMany(uint64_t turn) {
  if (turn % 4096 == 4095) sched_yield();
}

// Spins until a message comes; gives up after several minutes.
absl::StatusOr<TensorMessage> SpinForOne(TensorQueue& queue) {
  for (uint64_t i = 0; i < uint64_t{1} << 32; ++i) {
    auto got = queue.TryGet();
    if (!got.ok()) return got.status();
    if (got->has_value()) return **std::move(got);
    YieldAfterMany(i);
  }
  return absl::DeadlineExceededError("nothing came");
}

// Without those of YieldAfterMany().
absl::StatusOr<std::map<std::string, size_t>> CountOwnSyscalls(
    const std::function<void()>& body) {
  auto calls = CountSyscalls(body);
  if (calls.ok()) calls->erase("sched_yield");
  return calls;
}

// Sends each tensor back until a message has none.
void Echo(QueueHandle from_handle, QueueHandle to_handle) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto from,
                             TensorQueue::Open(std::move(from_handle)));
  TENON_ASSERT_OK_AND_ASSIGN(const auto to,
                             TensorQueue::Open(std::move(to_handle)));
  for (;;) {
    TENON_ASSERT_OK_AND_ASSIGN(const TensorMessage message, SpinForOne(*from));
    if (message.empty()) return;
    ASSERT_THAT(to->Put(message, TestDeadline()), IsOk());
  }
}

enum class Tensors { kOne, kNewOnes };

void RoundTrips(TensorQueue& there, TensorQueue& back, Tensors which,
                int count) {
  Tensor tensor;
  for (int i = 0; i < count; ++i) {
    if (i == 0 || which == Tensors::kNewOnes) {
      TENON_ASSERT_OK_AND_ASSIGN(
          tensor, there.CreateTensor(kDtypeOf<float>, {16}, TestDeadline()));
    }
    ASSERT_THAT(there.Put(tensor, TestDeadline()), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(const TensorMessage message, SpinForOne(back));
  }
}

// The system calls of a process that sends `which` tensors to a peer and
// receives them back.
absl::StatusOr<std::map<std::string, size_t>> CallsOf(Tensors which,
                                                      int round_trips) {
  return CountOwnSyscalls([&] {
    TENON_ASSERT_OK_AND_ASSIGN(const auto there, TensorQueue::Create());
    TENON_ASSERT_OK_AND_ASSIGN(const auto back, TensorQueue::Create());
    TENON_ASSERT_OK_AND_ASSIGN(QueueHandle to_echo, there->Share());
    TENON_ASSERT_OK_AND_ASSIGN(QueueHandle from_echo, back->Share());
    TENON_ASSERT_OK_AND_ASSIGN(
        ForkedChild echo,
        ForkedChild::Fork({.name = "echo", .watchdog = absl::Minutes(2)},
                          [&](const Reporter&) {
                            Echo(std::move(to_echo), std::move(from_echo));
                          }));
    RoundTrips(*there, *back, which, round_trips);
    ASSERT_THAT(there->Put(TensorMessage(), TestDeadline()), IsOk());
    EXPECT_TRUE(echo.EndsWell());
  });
}

constexpr size_t kMoreTrips = 2'000;

// The number of calls of so many further round trips; `what` names them.
size_t CallsOfMoreTrips(Tensors which, std::string* what) {
  constexpr int kFew = 1'000;
  auto few = CallsOf(which, kFew);
  const auto many = CallsOf(which, kFew + kMoreTrips);
  EXPECT_THAT(few, IsOk());
  EXPECT_THAT(many, IsOk());
  size_t more = 0;
  for (const auto& [call, count] : *many) {
    if (count <= (*few)[call]) continue;
    more += count - (*few)[call];
    *what += call + " " + std::to_string(count - (*few)[call]) + ", ";
  }
  return more;
}

// Variation from the wait for the child's end, and from the allocator.
constexpr size_t kByChance = 60;

// An arena checks for new processes every 20 ms, however many tensors are sent.
size_t LooksSince(absl::Time begin) {
  return static_cast<size_t>((absl::Now() - begin) / absl::Milliseconds(10));
}

TEST(TensorQueueSteadyTest, NoSystemCallsWhileBothSpin) {
  if (const absl::Status can = CanTrace(); !can.ok()) GTEST_SKIP() << can;
  std::string what;
  const absl::Time begin = absl::Now();
  const size_t calls = CallsOfMoreTrips(Tensors::kOne, &what);
  EXPECT_LE(calls, kByChance + LooksSince(begin)) << what;
}

// A new tensor each time: the arena reads its inbox once for every few dozen
// blocks that it reclaims.
TEST(TensorQueueSteadyTest, FewSystemCallsForBlocksThatAreUsedAgain) {
  if (const absl::Status can = CanTrace(); !can.ok()) GTEST_SKIP() << can;
  std::string what;
  const absl::Time begin = absl::Now();
  const size_t calls = CallsOfMoreTrips(Tensors::kNewOnes, &what);
  EXPECT_LE(calls, kMoreTrips / 20 + kByChance + LooksSince(begin)) << what;
}

// ---- Segments of their own ----

enum class End { kSender, kReceiver };

absl::StatusOr<Tensor> NewSegment() {
  return Tensor::CreateShared(
      kDtypeOf<int64_t>, {512},
      {.segment = {.strategy = SharingStrategy::kFileDescriptor}});
}

void SendSegments(TensorQueue& queue, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor, NewSegment());
    ASSERT_THAT(tensor.Fill(i), IsOk());
    ASSERT_THAT(queue.Put(tensor, TestDeadline()), IsOk());
    for (uint64_t turn = 0; !queue.empty(); ++turn) YieldAfterMany(turn);
  }
}

void ReceiveSegments(TensorQueue& queue, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(const TensorMessage message, SpinForOne(queue));
    ASSERT_TRUE(IsTensorOf(message.tensor(0), i));
  }
}

// The system calls of one end while `count` tensors are sent, and of creating
// and closing the queue.
absl::StatusOr<std::map<std::string, size_t>> CallsOfSegments(End end,
                                                              int64_t count) {
  return CountOwnSyscalls([&] {
    TENON_ASSERT_OK_AND_ASSIGN(const auto queue, TensorQueue::Create());
    TENON_ASSERT_OK_AND_ASSIGN(QueueHandle handle, queue->Share());
    const auto run = [&](End own, TensorQueue& through) {
      own == End::kSender ? SendSegments(through, count)
                          : ReceiveSegments(through, count);
    };
    TENON_ASSERT_OK_AND_ASSIGN(
        ForkedChild peer,
        ForkedChild::Fork(
            {.name = "peer", .watchdog = absl::Minutes(2)},
            [&](const Reporter&) {
              TENON_ASSERT_OK_AND_ASSIGN(const auto opened,
                                         TensorQueue::Open(std::move(handle)));
              run(end == End::kSender ? End::kReceiver : End::kSender, *opened);
            }));
    run(end, *queue);
    EXPECT_TRUE(peer.EndsWell());
  });
}

// The system calls of one end for each tensor.
std::map<std::string, size_t> CallsOfASegment(End end) {
  constexpr size_t kMore = 200;
  std::map<std::string, size_t> each;
  const auto few = CallsOfSegments(end, 50);
  EXPECT_THAT(few, IsOk());
  if (!few.ok()) return each;
  const auto many = CallsOfSegments(end, 50 + kMore);
  EXPECT_THAT(many, IsOk());
  if (!many.ok()) return each;
  for (const auto& [call, count] : *many) {
    const auto before = few->find(call);
    const size_t more = count - (before == few->end() ? 0 : before->second);
    // Rounded: some come from the allocator, and from the wait for the peer.
    if (2 * more < kMore) continue;
    // Which of the two the C library calls depends on the processor.
    each[call == "newfstatat" ? "fstat" : call] = (more + kMore / 2) / kMore;
  }
  return each;
}

// The first six are those of a bare segment. getrlimit (prlimit64): beyond
// RLIMIT_FSIZE the kernel kills. fcntl: the seals. fstat: the identity by which
// a tensor that comes back is recognized. recvmsg: removes the descriptor
// published before.
TEST(TensorQueueSteadyTest, SystemCallsToSendASegment) {
  if (const absl::Status can = CanTrace(); !can.ok()) GTEST_SKIP() << can;
  EXPECT_THAT(CallsOfASegment(End::kSender),
              UnorderedElementsAre(
                  Pair("memfd_create", 1), Pair("fallocate", 1),
                  Pair("mmap", 1), Pair("sendmsg", 1), Pair("munmap", 1),
                  Pair("close", 1), Pair("prlimit64", 1), Pair("fcntl", 1),
                  Pair("fstat", 1), Pair("recvmsg", 1)));
}

// The checks of a received descriptor are its seals (fcntl), and its size and
// identity (fstat).
TEST(TensorQueueSteadyTest, SystemCallsToReceiveASegment) {
  if (const absl::Status can = CanTrace(); !can.ok()) GTEST_SKIP() << can;
  EXPECT_THAT(CallsOfASegment(End::kReceiver),
              UnorderedElementsAre(Pair("recvmsg", 1), Pair("mmap", 1),
                                   Pair("munmap", 1), Pair("close", 1),
                                   Pair("fcntl", 1), Pair("fstat", 1)));
}

TEST(TensorQueueSteadyTest, AHundredThousandTensorsCostNoDescriptors) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto a, TensorQueue::Create());
  TENON_ASSERT_OK_AND_ASSIGN(QueueHandle handle, a->Share());
  TENON_ASSERT_OK_AND_ASSIGN(const auto b,
                             TensorQueue::Open(std::move(handle)));
  const auto send = [&](int count) {
    for (int64_t i = 0; i < count; ++i) {
      TENON_ASSERT_OK_AND_ASSIGN(
          const Tensor tensor,
          a->CreateTensor(kDtypeOf<int64_t>, {128}, TestDeadline()));
      ASSERT_THAT(tensor.Fill(i), IsOk());
      ASSERT_THAT(a->Put(tensor, TestDeadline()), IsOk());
      if (i % 64 != 63) continue;
      for (int64_t n = i - 63; n <= i; ++n) ASSERT_TRUE(GetsTensorOf(*b, n));
    }
  };
  send(6'400);
  const Census before = TakeCensus();
  send(100'000 / 64 * 64);
  EXPECT_TRUE(ExpectSame(before, TakeCensus()));
}

TEST(TensorQueueSteadyTest, SegmentsOfTheirOwnGoAsTheyAreTaken) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto a, TensorQueue::Create());
  TENON_ASSERT_OK_AND_ASSIGN(QueueHandle handle, a->Share());
  TENON_ASSERT_OK_AND_ASSIGN(const auto b,
                             TensorQueue::Open(std::move(handle)));
  TensorMaker maker(TensorWay::kFileDescriptor, a.get(), "steady");
  const auto send = [&](int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor, maker.Make(i));
      ASSERT_THAT(a->Put(tensor, TestDeadline()), IsOk());
      if (i % 8 != 7) continue;
      for (int64_t n = i - 7; n <= i; ++n) ASSERT_TRUE(GetsTensorOf(*b, n));
    }
    TensorQueue::Reap();
  };
  send(80);
  const Census before = TakeCensus();
  send(4'000);
  EXPECT_TRUE(ExpectSame(before, TakeCensus()));
}

}  // namespace
}  // namespace tenon

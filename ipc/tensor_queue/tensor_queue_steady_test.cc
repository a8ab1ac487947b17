// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The cost of many tensors: no system call while both ends spin, and neither
// descriptors nor mappings.

#include <cstddef>
#include <cstdint>
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
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm/testing/trace/syscall_failer.h"
#include "tenon/shm/testing/trace/tracee.h"

namespace tenon {
namespace {

// Spins until a message comes; gives up after several minutes.
absl::StatusOr<TensorMessage> SpinForOne(TensorQueue& queue) {
  for (uint64_t i = 0; i < uint64_t{1} << 32; ++i) {
    auto got = queue.TryGet();
    if (!got.ok()) return got.status();
    if (got->has_value()) return **std::move(got);
  }
  return absl::DeadlineExceededError("nothing came");
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
  return CountSyscalls([&] {
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

// The number of calls of 10,000 further round trips; `what` names them.
size_t CallsOfTenThousand(Tensors which, std::string* what) {
  auto few = CallsOf(which, 1'000);
  const auto many = CallsOf(which, 11'000);
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
  const size_t calls = CallsOfTenThousand(Tensors::kOne, &what);
  EXPECT_LE(calls, kByChance + LooksSince(begin)) << what;
}

// A new tensor each time: the arena reads its inbox once for every few dozen
// blocks that it reclaims.
TEST(TensorQueueSteadyTest, FewSystemCallsForBlocksThatAreUsedAgain) {
  if (const absl::Status can = CanTrace(); !can.ok()) GTEST_SKIP() << can;
  std::string what;
  const absl::Time begin = absl::Now();
  const size_t calls = CallsOfTenThousand(Tensors::kNewOnes, &what);
  EXPECT_LE(calls, 10'000 / 20 + kByChance + LooksSince(begin)) << what;
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

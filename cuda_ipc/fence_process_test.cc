// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Fences between processes: order, shown by contents; and deaths, which no
// stream waits for.

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/device_pool.h"
#include "tenon/cuda_ipc/device_process_testing.h"
#include "tenon/cuda_ipc/fence.h"
#include "tenon/cuda_ipc/fence_testing.h"
#include "tenon/cuda_ipc/fenced_tensor.h"
#include "tenon/cuda_ipc/internal/timeline.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/kill/kill_driver.h"
#include "tenon/shm/testing/kill/kill_report.h"
#include "tenon/shm/testing/kill/kill_scenario.h"
#include "tenon/shm/testing/kill/peer.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::cuda_ipc {
namespace {

using ::testing::AnyOf;

// Sixteen blocks fill a segment, which is all that the pools here have: each
// block is used again and again.
constexpr int64_t kBlockBytes = kPage / 16;

// Of a host function; never opened, so that its stream does not come further.
std::atomic<bool> never_opened = false;

// Whether another process has raised it.
class Signal {
 public:
  Signal() { EXPECT_EQ(pipe(ends_.data()), 0); }
  ~Signal() {
    for (const int end : ends_) close(end);
  }
  void Raise() const { EXPECT_EQ(write(ends_[1], "s", 1), 1); }
  void Await() const {
    pollfd readable = {.fd = ends_[0], .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&readable, 1, 60'000), 1);
  }

 private:
  std::array<int, 2> ends_ = {};
};

// A queue whose handles are used in children.
class FenceQueue {
 public:
  explicit FenceQueue(size_t capacity = 8)
      : own_(TensorQueue::Create({.capacity = capacity}).value()) {
    for (auto& handle : handles_) handle = own_->Share().value();
  }
  std::unique_ptr<TensorQueue> Open(int number) {
    absl::StatusOr<std::unique_ptr<TensorQueue>> queue =
        TensorQueue::Open(*std::move(handles_[number]));
    EXPECT_THAT(queue, IsOk());
    return *std::move(queue);
  }

 private:
  std::unique_ptr<TensorQueue> own_;
  std::array<std::optional<QueueHandle>, 3> handles_;
};

absl::Status PutFenced(TensorQueue& queue, const FencedTensor& fenced) {
  TensorMessage message;
  AddFenced(message, fenced);
  return queue.Put(message, Soon());
}

absl::StatusOr<FencedTensor> TakeFenced(TensorQueue& queue) {
  absl::StatusOr<TensorMessage> message = queue.Get(Soon());
  if (!message.ok()) return message.status();
  return GetFenced(*message, 0);
}

struct Streams {
  explicit Streams(const TestDevice& gpu,
                   std::optional<FenceBackend> backend = std::nullopt) {
    for (auto& [stream, timeline] : all) {
      stream = gpu.MakeStream();
      auto made =
          StreamTimeline::Create(gpu.context(), stream, {.backend = backend});
      EXPECT_THAT(made, IsOk());
      timeline = *std::move(made);
    }
  }
  struct One {
    CUstream stream = nullptr;
    std::unique_ptr<StreamTimeline> timeline;
  };
  std::array<One, 2> all;
};

// What a sender of one tensor has.
struct Sender {
  explicit Sender(FenceQueue& queue) : mine(queue.Open(0)) {}

  const TestDevice gpu;
  const std::shared_ptr<DevicePool> pool = DevicePool::Create(0).value();
  const std::unique_ptr<TensorQueue> mine;
  const Streams streams{gpu};
  const Tensor tensor =
      pool->CreateTensor(kDtypeOf<uint8_t>, {kBlockBytes}, Soon()).value();
};

// A sender that waits for no stream, and a receiver that does not either.
struct Schedule {
  std::optional<FenceBackend> backend;
  int count = 0;
  // Without one of these the contents are wrong now and then.
  bool waits = true;
  bool retains = true;
  std::string sender, receiver;  // Settings of the fake driver.
};

class FenceProcessTest : public DeviceProcessTest {
 protected:
  // Returns nothing: the receiver checks, in its process, how many of the
  // messages had wrong contents.
  void RunSchedule(const Schedule& schedule) {
    FenceQueue queue;
    ForkedChild sender = Run(
        "sender", [&] { Send(schedule, *queue.Open(0)); }, schedule.sender);
    ForkedChild receiver = Run(
        "receiver", [&] { Receive(schedule, *queue.Open(1)); },
        schedule.receiver);
    EXPECT_TRUE(receiver.EndsWell());
    EXPECT_TRUE(sender.EndsWell());
  }

  static void Send(const Schedule& schedule, TensorQueue& queue) {
    const TestDevice gpu;
    const auto pool = DevicePool::Create(0, {.quota_bytes = kPage}).value();
    Streams streams(gpu, schedule.backend);
    std::mt19937 random(20'261'127);
    for (int i = 0; i < schedule.count; ++i) {
      const auto& [stream, timeline] = streams.all[random() % 2];
      TENON_ASSERT_OK_AND_ASSIGN(
          const Tensor tensor,
          pool->CreateTensor(kDtypeOf<uint8_t>, {kBlockBytes}, Soon()));
      gpu.Fill(stream, tensor, ByteOf(i));
      TENON_ASSERT_OK_AND_ASSIGN(const Fence fence, timeline->Record());
      ASSERT_THAT(PutFenced(queue, {tensor, fence}), IsOk());
      ASSERT_THAT(RetainUntil(fence, tensor), IsOk());
    }
    EXPECT_THAT(queue.AwaitTaken(Soon()), IsOk());
    EXPECT_THAT(pool->Close(Soon()), IsOk());
  }

  static void Receive(const Schedule& schedule, TensorQueue& queue) {
    const TestDevice gpu;
    Streams streams(gpu, schedule.backend);
    const size_t bytes = 2 * schedule.count;
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    gpu.Context([&](const DriverTable& d) {
      // A device that cannot register it copies synchronously.
      d.cuMemHostRegister_v2(memory, bytes, 0);
    });
    auto* const seen = static_cast<uint8_t*>(memory);
    std::mt19937 random(20'261'128);
    for (int i = 0; i < schedule.count; ++i) {
      const auto& [stream, timeline] = streams.all[random() % 2];
      TENON_ASSERT_OK_AND_ASSIGN(const FencedTensor got, TakeFenced(queue));
      if (schedule.waits) {
        ASSERT_THAT(got.fence.WaitOn(gpu.context(), stream), IsOk());
      }
      const CUdeviceptr first = gpu.AddressOf(got.tensor);
      for (const int end : {0, 1}) {
        gpu.Call([&, on = stream](const DriverTable& d) {
          return d.cuMemcpyDtoHAsync_v2(seen + 2 * i + end,
                                        first + end * (kBlockBytes - 1), 1, on);
        });
      }
      if (schedule.retains) {
        ASSERT_THAT(timeline->RecordUse(got.tensor), IsOk());
      }
    }
    int wrong = 0;
    for (const auto& used : streams.all) gpu.Synchronize(used.stream);
    for (int i = 0; i < schedule.count; ++i) {
      wrong += seen[2 * i] != ByteOf(i) || seen[2 * i + 1] != ByteOf(i);
    }
    if (schedule.waits && schedule.retains) {
      EXPECT_EQ(wrong, 0);
    } else {
      EXPECT_GT(wrong, 0);
    }
  }

  // Differs from those of the blocks' uses before and after.
  static uint8_t ByteOf(int i) { return static_cast<uint8_t>(1 + i % 251); }
};

TEST_F(FenceProcessTest, TenThousandRandomSchedulesAreInOrder) {
  RunSchedule({.count = 10'000,
               .sender = "delay_us=60",
               .receiver = "delay_us=60 seed=2"});
}

TEST_F(FenceProcessTest, OtherBackendsAreInOrder) {
  for (const FenceBackend backend :
       {FenceBackend::kEvents, FenceBackend::kHost}) {
    RunSchedule({.backend = backend,
                 .count = 300,
                 .sender = "delay_us=300",
                 .receiver = "delay_us=300 seed=2"});
  }
}

TEST_F(FenceProcessTest, ProcessesOfDifferentBackendsAreInOrder) {
  if (!has_fake()) GTEST_SKIP() << "needs other devices";
  const std::string without = "delay_us=300 attribute=99:0";
  RunSchedule(
      {.count = 300, .sender = without, .receiver = "delay_us=300 seed=2"});
  RunSchedule(
      {.count = 300, .sender = "delay_us=300 seed=2", .receiver = without});
}

// The tests above can fail.
TEST_F(FenceProcessTest, WithoutWaitsContentsAreWrong) {
  if (!has_fake()) GTEST_SKIP() << "needs delayed streams";
  RunSchedule({.count = 200, .waits = false, .sender = "delay_us=20000"});
}

TEST_F(FenceProcessTest, WithoutRecordedUsesContentsAreWrong) {
  if (!has_fake()) GTEST_SKIP() << "needs delayed streams";
  RunSchedule({.count = 200, .retains = false, .receiver = "delay_us=20000"});
}

TEST_F(FenceProcessTest, AFenceThatWasReachedCostsTheReceiverNoDriverCall) {
  FenceQueue queue;
  const Signal ended;
  ForkedChild sender = Run("sender", [&] {
    const TestDevice gpu;
    const auto pool = DevicePool::Create(0).value();
    const auto mine = queue.Open(0);
    const CUstream stream = gpu.MakeStream();
    const auto timeline = StreamTimeline::Create(gpu.context(), stream).value();
    static std::atomic<bool> gate = false;
    gpu.Close(stream, gate);
    const Fence fence = timeline->Record().value();
    const Tensor tensor =
        pool->CreateTensor(kDtypeOf<uint8_t>, {kBlockBytes}, Soon()).value();
    for (int i = 0; i < 5; ++i) {
      ASSERT_THAT(PutFenced(*mine, {tensor, fence}), IsOk());
    }
    gate = true;
    ASSERT_THAT(fence.Wait(Soon()), IsOk());
    ended.Raise();
    EXPECT_THAT(mine->AwaitTaken(Soon()), IsOk());
  });
  ForkedChild receiver = Run("receiver", [&] {
    const TestDevice gpu;
    const auto mine = queue.Open(1);
    const CUstream stream = gpu.MakeStream();
    ended.Await();
    // The first imports the segment.
    FencedTensor got = TakeFenced(*mine).value();
    const uint64_t before = Calls();
    for (int i = 0; i < 4; ++i) {
      EXPECT_NE(got.fence.value(), 0);
      EXPECT_TRUE(got.fence.IsReached());
      EXPECT_THAT(got.fence.WaitOn(gpu.context(), stream), IsOk());
      got = TakeFenced(*mine).value();
    }
    EXPECT_EQ(Calls(), before);
  });
  EXPECT_TRUE(sender.EndsWell());
  EXPECT_TRUE(receiver.EndsWell());
}

TEST_F(FenceProcessTest, AFenceIsForwardedAndOutlivesItsRecorder) {
  FenceQueue queue, second;
  const Signal forwarded;
  ForkedChild sender = Run("sender", [&] {
    Sender self(queue);
    const auto& [gpu, pool, mine, streams, good] = self;
    const auto& [stream, timeline] = streams.all[0];
    gpu.Fill(stream, good, 7);
    // Sent before it is reached, so that it is sent with its timeline.
    static std::atomic<bool> gate = false;
    gpu.Close(stream, gate);
    const Fence filled = timeline->Record().value();
    ASSERT_THAT(PutFenced(*mine, {good, filled}), IsOk());
    gate = true;
    ASSERT_THAT(filled.Wait(Soon()), IsOk());
    const Tensor lost =
        pool->CreateTensor(kDtypeOf<uint8_t>, {kBlockBytes}, Soon()).value();
    gpu.Close(stream, never_opened);
    gpu.Fill(stream, lost, 8);
    const Fence never = timeline->Record().value();
    ASSERT_THAT(PutFenced(*mine, {lost, never}), IsOk());
    forwarded.Await();
    raise(SIGKILL);
  });
  ForkedChild receiver = Run("receiver", [&] {
    const auto mine = queue.Open(1);
    const auto next = second.Open(0);
    for (int i = 0; i < 2; ++i) {
      ASSERT_THAT(PutFenced(*next, TakeFenced(*mine).value()), IsOk());
    }
    forwarded.Raise();
    EXPECT_THAT(next->AwaitTaken(Soon()), IsOk());
  });
  const ExitStatus end = sender.Wait(Soon()).value();
  EXPECT_EQ(end.signal, SIGKILL) << end.ToString();
  ForkedChild third = Run("third", [&] {
    const TestDevice gpu;
    const auto mine = second.Open(1);
    const CUstream stream = gpu.MakeStream();
    {
      TENON_ASSERT_OK_AND_ASSIGN(const FencedTensor good, TakeFenced(*mine));
      EXPECT_THAT(good.fence.WaitOn(gpu.context(), stream), IsOk());
      EXPECT_TRUE(gpu.BecomesIdle(stream));
      EXPECT_THAT(good.fence.Check(), IsOk());
      EXPECT_TRUE(gpu.Has(good.tensor, 7));
      TENON_ASSERT_OK_AND_ASSIGN(const FencedTensor lost, TakeFenced(*mine));
      EXPECT_THAT(lost.fence.WaitOn(gpu.context(), stream),
                  StatusIs(absl::StatusCode::kDataLoss));
      EXPECT_TRUE(gpu.BecomesIdle(stream));
    }
    // What has ended is dropped, once nothing uses it.
    EXPECT_TRUE(
        Becomes([] { return TimelinePages::OfProcess().CountPages() == 0; }));
  });
  EXPECT_TRUE(third.EndsWell());
  EXPECT_TRUE(receiver.EndsWell());
}

// The sender is killed while the receiver's stream waits; the receiver may be
// stopped meanwhile.
class DeadSenderTest : public FenceProcessTest {
 protected:
  void RunKilled(absl::Duration stopped, bool kills) {
    FenceQueue queue;
    const Signal waits, go_on;
    ForkedChild sender = Run("sender", [&] {
      Sender self(queue);
      const auto& [gpu, pool, mine, streams, tensor] = self;
      const auto& [stream, timeline] = streams.all[0];
      gpu.Fill(stream, tensor, 5);
      static std::atomic<bool> gate = false;
      gpu.Close(stream, gate);
      ASSERT_THAT(PutFenced(*mine, {tensor, timeline->Record().value()}),
                  IsOk());
      go_on.Await();
      gate = true;
      EXPECT_THAT(mine->AwaitTaken(Soon()), IsOk());
      gpu.Synchronize(stream);
    });
    ForkedChild receiver = Run("receiver", [&] {
      const TestDevice gpu;
      const auto mine = queue.Open(1);
      const CUstream stream = gpu.MakeStream();
      TENON_ASSERT_OK_AND_ASSIGN(const FencedTensor got, TakeFenced(*mine));
      EXPECT_THAT(got.fence.WaitOn(gpu.context(), stream), IsOk());
      EXPECT_FALSE(gpu.IsIdle(stream));
      waits.Raise();
      EXPECT_TRUE(gpu.BecomesIdle(stream));
      EXPECT_THAT(got.fence.Check(),
                  StatusIs(kills ? absl::StatusCode::kDataLoss
                                 : absl::StatusCode::kOk));
      EXPECT_TRUE(kills || gpu.Has(got.tensor, 5));
    });
    waits.Await();
    if (stopped > absl::ZeroDuration()) kill(receiver.pid(), SIGSTOP);
    if (kills) {
      sender.Kill();
    } else {
      go_on.Raise();
    }
    absl::SleepFor(stopped);
    kill(receiver.pid(), SIGCONT);
    EXPECT_TRUE(receiver.EndsWell());
    if (!kills) {
      EXPECT_TRUE(sender.EndsWell());
    }
  }
};

TEST_F(DeadSenderTest, AKilledSenderFreesTheStreamThatWaits) {
  RunKilled(absl::ZeroDuration(), true);
}

TEST_F(DeadSenderTest, AReceiverStoppedForTenSecondsGoesOn) {
  RunKilled(absl::Seconds(10), false);
}

TEST_F(DeadSenderTest, AReceiverStoppedWhileItsSenderIsKilledGoesOn) {
  RunKilled(absl::Seconds(1), true);
}

std::atomic<int> retired = 0;

// The caller that finds that a sender has ended does not wait for the driver.
TEST_F(DeadSenderTest, AThreadUnregistersTheMemoryOfAKilledSender) {
  if (!has_fake()) GTEST_SKIP() << "counts calls of the driver";
  FenceQueue queue;
  const Signal waits;
  ForkedChild sender = Run("sender", [&] {
    Sender self(queue);
    const auto& [gpu, pool, mine, streams, tensor] = self;
    const auto& [stream, timeline] = streams.all[0];
    gpu.Close(stream, never_opened);
    ASSERT_THAT(PutFenced(*mine, {tensor, timeline->Record().value()}), IsOk());
    EXPECT_THAT(mine->AwaitTaken(Deadline::Never()), IsOk());
  });
  ForkedChild receiver = Run("receiver", [&] {
    const TestDevice gpu;
    const auto mine = queue.Open(1);
    const CUstream stream = gpu.MakeStream();
    Tensor kept;  // Memory of the device is retired, too.
    {
      TENON_ASSERT_OK_AND_ASSIGN(const FencedTensor got, TakeFenced(*mine));
      EXPECT_THAT(got.fence.WaitOn(gpu.context(), stream), IsOk());
      kept = got.tensor;
    }
    SetCrashPointHook([](const CrashPoint& point) {
      if (absl::string_view(point.name()) == "device_memory.retired") ++retired;
    });
    waits.Raise();
    EXPECT_TRUE(gpu.BecomesIdle(stream));
    EXPECT_TRUE(
        Becomes([] { return TimelinePages::OfProcess().CountPages() == 0; }));
    EXPECT_EQ(retired, 1);
    EXPECT_TRUE(
        Becomes([&] { return fake_.Calls("cuMemHostUnregister") == 1; }));
    SetCrashPointHook(nullptr);
  });
  waits.Await();
  sender.Kill();
  EXPECT_TRUE(receiver.EndsWell());
}

// Both are killed, or stopped, at each named point of a fence.
class FencePointsTest : public FenceProcessTest {
 protected:
  static Deadline Patience() { return Deadline::After(absl::Seconds(15)); }

  void Begin() {
    if (has_fake()) {
      fake_.Reset(absl::StrCat(machine_, " delay_us=1000"));
      fake_.SetEnvironment();
    }
    ASSERT_THAT(GetDriver(), IsOk());
  }

  void PlaySender(Peer& self) {
    Begin();
    const TestDevice gpu;
    const auto pool = DevicePool::Create(0, {.quota_bytes = kPage}).value();
    const auto queue = queue_->Open(0);
    Streams streams(gpu);
    // The first is filled at its end, the second never.
    for (const int number : {0, 1}) {
      const auto& [stream, timeline] = streams.all[number];
      const Tensor tensor =
          pool->CreateTensor(kDtypeOf<uint8_t>, {kBlockBytes}, Patience())
              .value();
      if (number == 1) gpu.Close(stream, never_opened);
      gpu.Fill(stream, tensor, 5);
      TENON_ASSERT_OK_AND_ASSIGN(const Fence fence, timeline->Record());
      TensorMessage message;
      AddFenced(message, {tensor, fence});
      ASSERT_THAT(queue->Put(message, Patience()), IsOk());
    }
    self.Step("sent");
    self.Await("receiver", "waits").IgnoreError();
    // With work that never ends.
    self.Step("ends");
  }

  void PlayReceiver(Peer& self) {
    Begin();
    const TestDevice gpu;
    const auto queue = queue_->Open(1);
    Streams streams(gpu);
    const bool is_sent = self.Await("sender", "sent").ok();
    std::vector<FencedTensor> all;
    for (const auto& [stream, timeline] : streams.all) {
      const absl::StatusOr<TensorMessage> message =
          queue->Get(is_sent ? Patience() : Deadline::Passed());
      if (!message.ok()) break;
      absl::StatusOr<FencedTensor> got = GetFenced(*message, 0);
      ASSERT_THAT(got, IsOk());
      EXPECT_THAT(got->fence.WaitOn(gpu.context(), stream),
                  AnyOf(IsOk(), StatusIs(absl::StatusCode::kDataLoss)));
      all.push_back(*std::move(got));
    }
    if (is_sent) {
      EXPECT_EQ(all.size(), 2u);
    }
    self.Step("waits");
    self.Await("sender", "ends").IgnoreError();
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_TRUE(gpu.BecomesIdle(streams.all[i].stream));
      const absl::Status status = all[i].fence.Check();
      if (i == 1) {
        EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss));
      } else if (status.ok()) {
        EXPECT_TRUE(gpu.Has(all[i].tensor, 5));
      } else {
        // The sender has ended before its stream came so far.
        EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss));
      }
    }
  }

  void RunPoints(KillMethod method) {
    KillScenario scenario;
    scenario.name = "fences";
    scenario.method = method;
    scenario.points = "fence.";
    scenario.prepare = [&] { queue_.emplace(); };
    scenario.roles = {{"sender", [&](Peer& self) { PlaySender(self); }},
                      {"receiver", [&](Peer& self) { PlayReceiver(self); }}};
    scenario.watchdog = absl::Seconds(40);
    scenario.max_failures = 3;
    const KillReport report = RunKillMatrix(scenario);
    queue_.reset();
    std::cout << report.ToString();
    EXPECT_TRUE(report.ok()) << report.ToString();
  }

  std::optional<FenceQueue> queue_;
};

TEST_F(FencePointsTest, KilledAtEachPointOfAFence) {
  if (!has_fake()) GTEST_SKIP() << "needs a stream that never ends";
  RunPoints(KillMethod::kKill);
}

TEST_F(FencePointsTest, StoppedAtEachPointOfAFence) {
  if (!has_fake()) GTEST_SKIP() << "needs a stream that never ends";
  RunPoints(KillMethod::kStop);
}

}  // namespace
}  // namespace tenon::cuda_ipc

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Fences within one process: the same cases for every backend, and what is of
// one. Each runs in a child, with a driver of its own.

#include "tenon/cuda_ipc/fence.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/device_pool.h"
#include "tenon/cuda_ipc/device_process_testing.h"
#include "tenon/cuda_ipc/fence_testing.h"
#include "tenon/cuda_ipc/internal/timeline.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::cuda_ipc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kBytes = 4096;

// Of host functions, which may run until the child ends.
std::atomic<bool> open_gate = false;

Tensor MakeTensor(DevicePool& pool) {
  return pool.CreateTensor(kDtypeOf<uint8_t>, {kBytes}, Soon()).value();
}

std::unique_ptr<StreamTimeline> MakeTimeline(
    const TestDevice& gpu, CUstream stream,
    std::optional<FenceBackend> backend = std::nullopt) {
  auto made =
      StreamTimeline::Create(gpu.context(), stream, {.backend = backend});
  EXPECT_THAT(made, IsOk());
  return *std::move(made);
}

Timeline& TimelineOf(const Fence& fence) {
  return *reinterpret_cast<Timeline*>(
      fence.timeline().data<std::byte>().value().data());
}

class FenceTest : public DeviceProcessTest {};

class EveryFenceTest : public DeviceProcessTest,
                       public ::testing::WithParamInterface<FenceBackend> {};

INSTANTIATE_TEST_SUITE_P(Backends, EveryFenceTest,
                         ::testing::Values(FenceBackend::kWords,
                                           FenceBackend::kEvents,
                                           FenceBackend::kHost),
                         [](const auto& tested) {
                           return std::string(FenceBackendName(tested.param));
                         });

TEST_P(EveryFenceTest, WorkAfterAWaitSeesTheWorkBefore) {
  RunAlone(
      [] {
        const TestDevice gpu;
        const auto pool = DevicePool::Create(0).value();
        const CUstream writer = gpu.MakeStream();
        const CUstream reader = gpu.MakeStream();
        const auto timeline = MakeTimeline(gpu, writer, GetParam());
        EXPECT_EQ(timeline->backend(), GetParam());
        const Tensor from = MakeTensor(*pool);
        const Tensor to = MakeTensor(*pool);
        for (int i = 1; i < 100; ++i) {
          gpu.Fill(writer, from, i);
          TENON_ASSERT_OK_AND_ASSIGN(const Fence fence, timeline->Record());
          ASSERT_THAT(fence.WaitOn(gpu.context(), reader), IsOk());
          gpu.Copy(reader, to, from);
          gpu.Synchronize(reader);
          ASSERT_TRUE(gpu.Has(to, i)) << i;
          EXPECT_TRUE(fence.IsReached());
          EXPECT_THAT(fence.Check(), IsOk());
          EXPECT_THAT(fence.Wait(Deadline::Passed()), IsOk());
        }
      },
      "delay_us=1000");
}

TEST_P(EveryFenceTest, AReachedFenceCostsNoDriverCall) {
  RunAlone([this] {
    const TestDevice gpu;
    const CUstream stream = gpu.MakeStream();
    const auto timeline = MakeTimeline(gpu, stream, GetParam());
    TENON_ASSERT_OK_AND_ASSIGN(const Fence fence, timeline->Record());
    ASSERT_THAT(fence.Wait(Soon()), IsOk());
    const uint64_t before = Calls();
    for (int i = 0; i < 1000; ++i) {
      EXPECT_TRUE(fence.IsReached());
      EXPECT_THAT(fence.WaitOn(gpu.context(), stream), IsOk());
    }
    EXPECT_EQ(Calls(), before);
  });
}

TEST_P(EveryFenceTest, AUsedTensorIsReleasedOnceItsStreamsArePastIt) {
  RunAlone([] {
    const TestDevice gpu;
    const auto pool = DevicePool::Create(0).value();
    const CUstream streams[] = {gpu.MakeStream(), gpu.MakeStream()};
    std::optional<Tensor> tensor = MakeTensor(*pool);
    // The second is late, unless RecordUse() waits for it.
    const bool is_late = GetParam() != FenceBackend::kHost;
    if (is_late) gpu.Close(streams[1], open_gate);
    for (const CUstream stream : streams) {
      gpu.Fill(stream, *tensor, 1);
      EXPECT_THAT(MakeTimeline(gpu, stream, GetParam())->RecordUse(*tensor),
                  IsOk());
    }
    gpu.Synchronize(streams[0]);
    tensor.reset();
    EXPECT_EQ(pool->Use().blocks_in_use, is_late ? 1u : 0u);
    absl::SleepFor(absl::Milliseconds(is_late ? 20 : 0));
    EXPECT_EQ(pool->Use().blocks_in_use, is_late ? 1u : 0u);
    open_gate = true;
    EXPECT_TRUE(Becomes([&] { return pool->Use().blocks_in_use == 0; }));
  });
}

TEST_P(EveryFenceTest, AStreamUnderCaptureIsRefusedAndItsCaptureStaysValid) {
  RunAlone([] {
    const TestDevice gpu;
    const CUstream writer = gpu.MakeStream();
    const CUstream reader = gpu.MakeStream();
    const auto timeline = MakeTimeline(gpu, writer, GetParam());
    gpu.Capture(writer, [&] {
      EXPECT_THAT(timeline->Record(),
                  StatusIs(absl::StatusCode::kFailedPrecondition,
                           AllOf(HasSubstr("StreamTimeline::Record(): stream"),
                                 HasSubstr("is under capture by a CUDA graph"),
                                 HasSubstr("end the capture first"))));
    });
    gpu.Close(writer, open_gate);
    if (GetParam() == FenceBackend::kHost) open_gate = true;
    TENON_ASSERT_OK_AND_ASSIGN(const Fence fence, timeline->Record());
    // The refused call has taken no value.
    EXPECT_EQ(fence.value(), GetParam() == FenceBackend::kHost ? 0 : 1);
    gpu.Capture(reader, [&] {
      EXPECT_THAT(fence.WaitOn(gpu.context(), reader),
                  GetParam() == FenceBackend::kHost
                      ? StatusIs(absl::StatusCode::kOk)
                      : StatusIs(absl::StatusCode::kFailedPrecondition,
                                 HasSubstr("Fence::WaitOn(): stream")));
    });
    ASSERT_THAT(fence.WaitOn(gpu.context(), reader), IsOk());
    EXPECT_EQ(gpu.IsIdle(reader), GetParam() == FenceBackend::kHost);
    open_gate = true;
    EXPECT_TRUE(gpu.BecomesIdle(reader));
    // A fence that is reached needs no driver call.
    gpu.Capture(reader, [&] {
      EXPECT_THAT(fence.WaitOn(gpu.context(), reader), IsOk());
    });
  });
}

// Which invalidates the capture, by CUDA's rules, and must end nothing else.
TEST_P(EveryFenceTest, ACaptureOfAnotherThreadEndsNoFenceAndNoUse) {
  if (!has_fake()) GTEST_SKIP() << "needs calls that fail";
  RunAlone([this] {
    const TestDevice gpu;
    const auto pool = DevicePool::Create(0).value();
    const CUstream stream = gpu.MakeStream();
    const auto timeline = MakeTimeline(gpu, stream, GetParam());
    std::optional<Tensor> tensor = MakeTensor(*pool);
    if (GetParam() == FenceBackend::kHost) open_gate = true;
    gpu.Close(stream, open_gate);
    // As in the mode GLOBAL.
    fake_.Fail("cuEventQuery", 0, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    TENON_ASSERT_OK_AND_ASSIGN(const Fence fence, timeline->Record());
    ASSERT_THAT(RetainUntil(fence, *tensor), IsOk());
    tensor.reset();
    absl::SleepFor(absl::Milliseconds(20));
    if (GetParam() != FenceBackend::kHost) {
      EXPECT_THAT(fence.Check(), StatusIs(absl::StatusCode::kUnavailable));
      EXPECT_EQ(pool->Use().blocks_in_use, 1u);
    }
    fake_.StopFailing("cuEventQuery");
    open_gate = true;
    EXPECT_THAT(fence.Wait(Soon()), IsOk());
    EXPECT_TRUE(Becomes([&] { return pool->Use().blocks_in_use == 0; }));
  });
}

TEST_P(EveryFenceTest, AFailedCallIsAnErrorAndTheNextOneWorks) {
  if (!has_fake()) GTEST_SKIP() << "needs calls that fail";
  RunAlone([this] {
    const TestDevice gpu;
    const CUstream stream = gpu.MakeStream();
    const CUstream other = gpu.MakeStream();
    const auto timeline = MakeTimeline(gpu, stream, GetParam());
    for (const char* const entry :
         {"cuStreamWriteValue32_v2", "cuEventCreate", "cuEventRecord",
          "cuStreamSynchronize", "cuStreamWaitValue32_v2",
          "cuStreamIsCapturing"}) {
      for (const CUresult error : fake_.DocumentedErrors(entry)) {
        SCOPED_TRACE(absl::StrCat(entry, " fails with ", error));
        std::atomic<bool>& gate = *new std::atomic<bool>(false);
        const uint64_t before = fake_.Calls(entry);
        fake_.Fail(entry, 1, error);
        if (GetParam() != FenceBackend::kHost) gpu.Close(stream, gate);
        absl::StatusOr<Fence> fence = timeline->Record();
        absl::Status waited;
        if (fence.ok()) waited = fence->WaitOn(gpu.context(), other);
        const bool is_called = fake_.Calls(entry) != before;
        fake_.StopFailing(entry);
        EXPECT_EQ(fence.ok() && waited.ok(), !is_called);
        gate = true;
        fence = timeline->Record();
        ASSERT_THAT(fence, IsOk());
        EXPECT_THAT(fence->WaitOn(gpu.context(), other), IsOk());
        EXPECT_TRUE(gpu.BecomesIdle(other));
      }
    }
  });
}

// The value was enqueued, and then the call failed.
TEST_F(FenceTest, AValueOfAFailedRecordIsNotUsedAgain) {
  if (!has_fake()) GTEST_SKIP() << "needs calls that fail";
  RunAlone([this] {
    const TestDevice gpu;
    const CUstream stream = gpu.MakeStream();
    const auto timeline = MakeTimeline(gpu, stream, FenceBackend::kWords);
    fake_.Fail("cuCtxPopCurrent_v2", 1, CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_THAT(timeline->Record(),
                StatusIs(absl::StatusCode::kFailedPrecondition));
    fake_.StopFailing("cuCtxPopCurrent_v2");
    gpu.Synchronize(stream);
    gpu.Close(stream, open_gate);
    TENON_ASSERT_OK_AND_ASSIGN(const Fence fence, timeline->Record());
    EXPECT_FALSE(fence.IsReached());
    open_gate = true;
    EXPECT_THAT(fence.Wait(Soon()), IsOk());
  });
}

TEST_F(FenceTest, TheBackendIsWhatDeviceAndDriverCanDo) {
  if (!has_fake()) GTEST_SKIP() << "needs other devices";
  RunAlone([] {
    const TestDevice gpu;
    EXPECT_EQ(MakeTimeline(gpu, gpu.MakeStream())->backend(),
              FenceBackend::kWords);
  });
  RunAlone(
      [] {
        const TestDevice gpu;
        const CUstream stream = gpu.MakeStream();
        EXPECT_EQ(MakeTimeline(gpu, stream)->backend(), FenceBackend::kEvents);
        EXPECT_THAT(StreamTimeline::Create(gpu.context(), stream,
                                           {.backend = FenceBackend::kWords}),
                    StatusIs(absl::StatusCode::kUnimplemented,
                             HasSubstr("attribute 99")));
      },
      "attribute=99:0");
}

TEST_F(FenceTest, ADeviceThatCannotAwaitWordsWaitsOnTheHost) {
  if (!has_fake()) GTEST_SKIP() << "needs other devices";
  RunAlone(
      [] {
        const TestDevice gpu;
        const auto pool = DevicePool::Create(0).value();
        const CUstream writer = gpu.MakeStream();
        const CUstream reader = gpu.MakeStream();
        const auto timeline = MakeTimeline(gpu, writer);
        const Tensor from = MakeTensor(*pool);
        for (int i = 1; i < 20; ++i) {
          gpu.Fill(writer, from, i);
          TENON_ASSERT_OK_AND_ASSIGN(const Fence fence, timeline->Record());
          ASSERT_THAT(fence.WaitOn(gpu.context(), reader), IsOk());
          ASSERT_TRUE(gpu.Has(from, i)) << i;
        }
      },
      "attribute=99:0 delay_us=2000");
}

TEST_F(FenceTest, AnAbandonedTimelineFailsWhatIsNotReachedAndFreesStreams) {
  RunAlone([] {
    const TestDevice gpu;
    const CUstream writer = gpu.MakeStream();
    const CUstream reader = gpu.MakeStream();
    const auto timeline = MakeTimeline(gpu, writer);
    TENON_ASSERT_OK_AND_ASSIGN(const Fence good, timeline->Record());
    ASSERT_THAT(good.Wait(Soon()), IsOk());
    gpu.Close(writer, open_gate);
    TENON_ASSERT_OK_AND_ASSIGN(const Fence lost, timeline->Record());
    EXPECT_THAT(lost.Check(), StatusIs(absl::StatusCode::kUnavailable,
                                       HasSubstr("not reached yet")));
    EXPECT_THAT(lost.Wait(Deadline::Passed()),
                StatusIs(absl::StatusCode::kDeadlineExceeded));
    EXPECT_THAT(lost.WaitOn(gpu.context(), reader), IsOk());
    EXPECT_FALSE(gpu.IsIdle(reader));
    timeline->Abandon();
    EXPECT_TRUE(gpu.BecomesIdle(reader));
    EXPECT_THAT(good.Check(), IsOk());
    EXPECT_THAT(lost.Check(), StatusIs(absl::StatusCode::kDataLoss));
    EXPECT_THAT(lost.WaitOn(gpu.context(), reader),
                StatusIs(absl::StatusCode::kDataLoss));
    EXPECT_THAT(timeline->Record(),
                StatusIs(absl::StatusCode::kFailedPrecondition));
    // Also once the stream has gone on: the decision stays.
    open_gate = true;
    EXPECT_TRUE(gpu.BecomesIdle(writer));
    EXPECT_THAT(lost.Check(), StatusIs(absl::StatusCode::kDataLoss));
  });
}

TEST_F(FenceTest, ALateWriteOfADeadDeviceHoldsNoStream) {
  // The late write is repaired if it comes within 1 s: tried again on a machine
  // that stalls this thread for so long.
  const auto try_once = [](bool& is_late) {
    const TestDevice gpu;
    const CUstream writer = gpu.MakeStream();
    const CUstream busy = gpu.MakeStream();
    const auto timeline = MakeTimeline(gpu, writer);
    gpu.Close(writer, open_gate);
    TENON_ASSERT_OK_AND_ASSIGN(const Fence first, timeline->Record());
    TENON_ASSERT_OK_AND_ASSIGN(const Fence last, timeline->Record());
    // A stream that comes to its wait only after the late write.
    std::atomic<bool>& busy_gate = *new std::atomic<bool>(false);
    gpu.Close(busy, busy_gate);
    EXPECT_THAT(last.WaitOn(gpu.context(), busy), IsOk());
    // However long the stream has been waiting.
    absl::SleepFor(absl::Milliseconds(1'200));
    const Deadline in_time = Deadline::After(absl::Seconds(1));
    timeline->Abandon();
    absl::SleepFor(absl::Milliseconds(20));
    Timeline& words = TimelineOf(last);
    EXPECT_EQ(words.Reached(), static_cast<uint64_t>(last.value()));
    StdAtomics::Store(words.word, static_cast<uint32_t>(first.value()),
                      std::memory_order_release);
    is_late = in_time.has_passed();
    EXPECT_THAT(first.Check(), StatusIs(absl::StatusCode::kDataLoss));
    busy_gate = true;
    if (!is_late) {
      EXPECT_TRUE(gpu.BecomesIdle(busy));
    }
  };
  RunAlone([&] {
    bool is_late = true;
    for (int i = 0; i < 10 && is_late; ++i) try_once(is_late);
    EXPECT_FALSE(is_late) << "this thread stalled for 1 s each time";
    open_gate = true;
  });
}

// The wait is enqueued, and may last for longer than anything that this process
// knows of.
TEST_F(FenceTest, AWaitThatCouldNotBeNotedKeepsThePageRegistered) {
  if (!has_fake()) GTEST_SKIP() << "needs calls that fail";
  for (const bool fails : {false, true}) {
    RunAlone([&] {
      const TestDevice gpu;
      const CUstream writer = gpu.MakeStream();
      const CUstream reader = gpu.MakeStream();
      const auto timeline = MakeTimeline(gpu, writer, FenceBackend::kWords);
      gpu.Close(writer, open_gate);
      TENON_ASSERT_OK_AND_ASSIGN(const Fence fence, timeline->Record());
      TENON_ASSERT_OK_AND_ASSIGN(
          const TimelineRef at,
          TimelinePages::OfProcess().Find(fence.timeline()));
      if (fails) fake_.Fail("cuEventRecord", 1, CUDA_ERROR_INVALID_HANDLE);
      EXPECT_EQ(fence.WaitOn(gpu.context(), reader).ok(), !fails);
      EXPECT_FALSE(gpu.IsIdle(reader));
      EXPECT_FALSE(at.page->IsUnused());
      open_gate = true;
      EXPECT_TRUE(gpu.BecomesIdle(reader));
      EXPECT_EQ(at.page->IsUnused(), !fails);
    });
  }
}

TEST_F(FenceTest, ValuesPassTheEndOf32Bits) {
  RunAlone([] {
    const TestDevice gpu;
    const CUstream writer = gpu.MakeStream();
    const CUstream reader = gpu.MakeStream();
    auto timeline = MakeTimeline(gpu, writer);
    TENON_ASSERT_OK_AND_ASSIGN(const Fence old, timeline->Record());
    ASSERT_THAT(old.Wait(Soon()), IsOk());
    Timeline& words = TimelineOf(old);
    timeline = nullptr;
    const uint64_t start = (uint64_t{7} << 32) - 3;
    StdAtomics::Store(words.published, start, std::memory_order_release);
    StdAtomics::Store(words.word, static_cast<uint32_t>(start),
                      std::memory_order_release);
    // The same one, and a fence of more than 2^31 values ago is reached.
    timeline = MakeTimeline(gpu, writer);
    EXPECT_TRUE(old.IsReached());
    for (uint64_t i = 1; i < 10; ++i) {
      std::atomic<bool>& gate = *new std::atomic<bool>(false);
      gpu.Close(writer, gate);
      TENON_ASSERT_OK_AND_ASSIGN(const Fence fence, timeline->Record());
      ASSERT_EQ(fence.value(), static_cast<int64_t>(start + i));
      EXPECT_FALSE(fence.IsReached());
      EXPECT_THAT(fence.WaitOn(gpu.context(), reader), IsOk());
      EXPECT_FALSE(gpu.IsIdle(reader));
      gate = true;
      EXPECT_TRUE(gpu.BecomesIdle(reader));
      EXPECT_TRUE(fence.IsReached());
      EXPECT_TRUE(old.IsReached());
    }
  });
}

TEST_F(FenceTest, TimelinesAreUsedAgain) {
  RunAlone([] {
    const TestDevice gpu;
    const CUstream stream = gpu.MakeStream();
    for (int i = 0; i < 5'000; ++i) {
      const auto timeline = MakeTimeline(gpu, stream);
      TENON_ASSERT_OK_AND_ASSIGN(const Fence fence, timeline->Record());
      ASSERT_THAT(fence.Wait(Soon()), IsOk());
    }
    EXPECT_EQ(TimelinePages::OfProcess().CountPages(), 1u);
    // And more at a time than a page has.
    std::vector<std::unique_ptr<StreamTimeline>> timelines;
    for (int i = 0; i < TimelinePage::kTimelines + 1; ++i) {
      timelines.push_back(MakeTimeline(gpu, stream));
    }
    EXPECT_EQ(TimelinePages::OfProcess().CountPages(), 2u);
  });
}

TEST_F(FenceTest, PartsThatAreNoFenceAreRefused) {
  RunAlone([] {
    const TestDevice gpu;
    const auto timeline = MakeTimeline(gpu, gpu.MakeStream());
    TENON_ASSERT_OK_AND_ASSIGN(const Fence fence, timeline->Record());
    const auto refused = StatusIs(absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Fence::FromParts(fence.timeline(), fence.value()), IsOk());
    EXPECT_THAT(Fence::FromParts(fence.timeline(), fence.value() + 1), refused);
    EXPECT_THAT(Fence::FromParts(fence.timeline(), -1), refused);
    EXPECT_THAT(Fence::FromParts(Tensor(), 1), refused);
    EXPECT_THAT(
        Fence::FromParts(Tensor::Create(kDtypeOf<uint8_t>, {128}).value(), 1),
        refused);
    const auto pool = DevicePool::Create(0).value();
    EXPECT_THAT(
        Fence::FromParts(
            pool->CreateTensor(kDtypeOf<uint8_t>, {128}, Soon()).value(), 1),
        refused);
    const Tensor row = fence.timeline();
    EXPECT_THAT(Fence::FromParts(row.Slice(0, {.stop = 64}).value(), 1),
                refused);
    EXPECT_THAT(Fence::FromParts(Tensor(), 0), IsOk());
    EXPECT_TRUE(Fence().IsReached());
  });
}

}  // namespace
}  // namespace tenon::cuda_ipc

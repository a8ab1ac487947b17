// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Ranges of NVTX, as a tool sees them: a library that NVTX loads counts them.

#include "tenon/cuda_ipc/internal/trace_range.h"

#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/device_loan_testing.h"
#include "tenon/cuda_ipc/device_pool.h"
#include "tenon/cuda_ipc/device_process_testing.h"
#include "tenon/cuda_ipc/fence.h"
#include "tenon/cuda_ipc/fence_testing.h"
#include "tenon/cuda_ipc/fenced_tensor.h"
#include "tenon/cuda_ipc/torch_exporter.h"
#include "tenon/cuda_ipc/torch_tensor.h"
#include "tenon/cuda_ipc/trace_testing.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::cuda_ipc {
namespace {

std::atomic<bool> open_stream = false;

// All ranges are made in children.
class TraceRangeTest : public DeviceProcessTest {
 protected:
  void SetUp() override {
    if (!TraceTool::Missing().empty()) GTEST_SKIP() << TraceTool::Missing();
    DeviceProcessTest::SetUp();
  }

  uint64_t Ended(const char* name) const { return tool_.Ended(name); }

  const TraceTool tool_;
};

TEST_F(TraceRangeTest, RangesNest) {
  RunAlone([this] {
    {
      const TraceRange outer("outer");
      { const TraceRange inner("inner"); }
      { const TraceRange inner("inner"); }
    }
    EXPECT_EQ(Ended("outer"), 1u);
    EXPECT_EQ(Ended("inner"), 2u);
  });
}

TEST_F(TraceRangeTest, CopiesAreRanges) {
  RunAlone([this] {
    const auto pool = DevicePool::Create(0).value();
    const Tensor there =
        pool->CreateTensor(kDtypeOf<int64_t>, {100}, Soon()).value();
    ASSERT_THAT(there.CopyFrom(Numbers(100, 1)), IsOk());
    EXPECT_EQ(Ended("CopyToDevice"), 1u);
    EXPECT_EQ(Ended("CopyToHost"), 0u);
    EXPECT_TRUE(HasNumbers(there, 1));
    EXPECT_EQ(Ended("CopyToHost"), 1u);
    ASSERT_THAT(there.Clone(), IsOk());
    EXPECT_EQ(Ended("CopyBetweenDevices"), 1u);
  });
}

TEST_F(TraceRangeTest, AWaitOfTheHostIsARangeOnlyIfItBlocks) {
  RunAlone([this] {
    const TestDevice gpu;
    const CUstream stream = gpu.MakeStream();
    gpu.Close(stream, open_stream);
    const auto timeline = StreamTimeline::Create(gpu.context(), stream).value();
    TENON_ASSERT_OK_AND_ASSIGN(const Fence fence, timeline->Record());
    EXPECT_THAT(fence.Wait(Deadline::After(absl::Milliseconds(1))),
                StatusIs(absl::StatusCode::kDeadlineExceeded));
    EXPECT_EQ(Ended("Fence::Wait"), 1u);
    open_stream = true;
    gpu.Synchronize(stream);
    EXPECT_THAT(fence.Wait(Soon()), IsOk());
    EXPECT_THAT(fence.Wait(Soon()), IsOk());
    EXPECT_EQ(Ended("Fence::Wait"), 1u);
    const auto by_host =
        StreamTimeline::Create(gpu.context(), stream,
                               {.backend = FenceBackend::kHost})
            .value();
    ASSERT_THAT(by_host->Record(), IsOk());
    EXPECT_EQ(Ended("StreamTimeline::Record"), 1u);
  });
}

TEST_F(TraceRangeTest, MessagesOfTorchAreRanges) {
  RunAlone([this] {
    TENON_ASSERT_OK_AND_ASSIGN(const auto exporter, TorchExporter::Create());
    {
      const auto lent = LibraryMemory::Create(100 * sizeof(int64_t)).value();
      TENON_ASSERT_OK_AND_ASSIGN(
          const TorchTensor message,
          exporter->Export(lent.Numbers(0, 100).value()));
      EXPECT_EQ(Ended("TorchExporter::Export"), 1u);
      EXPECT_EQ(Ended("FromTorch"), 0u);
      EXPECT_THAT(FromTorch(message, Soon()), IsOk());
      EXPECT_EQ(Ended("FromTorch"), 1u);
    }
    EXPECT_THAT(exporter->Close(Soon()), IsOk());
  });
}

TEST_F(TraceRangeTest, SendsAndReceivesAreRanges) {
  const auto there = TensorQueue::Create().value();
  const auto back = TensorQueue::Create().value();
  QueueHandle handles[] = {there->Share().value(), back->Share().value(),
                           there->Share().value(), back->Share().value()};
  ForkedChild sender = Run("sender", [&] {
    const auto to = TensorQueue::Open(std::move(handles[0])).value();
    const auto from = TensorQueue::Open(std::move(handles[1])).value();
    const auto pool = DevicePool::Create(0).value();
    const Tensor tensor =
        pool->CreateTensor(kDtypeOf<int64_t>, {100}, Soon()).value();
    ASSERT_THAT(tensor.CopyFrom(Numbers(100, 7)), IsOk());
    TensorMessage message;
    AddFenced(message, {tensor, Fence()});
    EXPECT_EQ(Ended("AddFenced"), 1u);
    const auto lent = LibraryMemory::Create(100 * sizeof(int64_t)).value();
    message.Add(lent.Numbers(0, 100).value());
    ASSERT_THAT(to->Put(message, Soon()), IsOk());
    EXPECT_EQ(Ended("Lend"), 1u);
    EXPECT_THAT(from->Get(Soon()), IsOk());  // The receiver has it.
  });
  ForkedChild receiver = Run("receiver", [&] {
    const auto from = TensorQueue::Open(std::move(handles[2])).value();
    const auto to = TensorQueue::Open(std::move(handles[3])).value();
    TENON_ASSERT_OK_AND_ASSIGN(const TensorMessage message, from->Get(Soon()));
    TENON_ASSERT_OK_AND_ASSIGN(const FencedTensor got, GetFenced(message, 0));
    EXPECT_EQ(Ended("GetFenced"), 1u);
    EXPECT_EQ(Ended("Borrow"), 1u);
    EXPECT_TRUE(HasNumbers(got.tensor, 7));
    EXPECT_EQ(Ended("DeviceSegment::Map"), 1u);
    ASSERT_THAT(to->Put(TensorMessage().Add(int64_t{1}), Soon()), IsOk());
  });
  EXPECT_TRUE(receiver.EndsWell());
  EXPECT_TRUE(sender.EndsWell());
}

}  // namespace
}  // namespace tenon::cuda_ipc

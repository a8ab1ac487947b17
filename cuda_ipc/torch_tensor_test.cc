// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Tensors from a process that shares them as torch does: a legacy handle, a
// counter in a file, and an event. The sender here is not torch, which needs a
// GPU for that; torch_test.cc has what can be tested with torch on the CPU.

#include "tenon/cuda_ipc/torch_tensor.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/device_context.h"
#include "tenon/cuda_ipc/device_loan_testing.h"
#include "tenon/cuda_ipc/device_process_testing.h"
#include "tenon/cuda_ipc/device_tensor.h"
#include "tenon/cuda_ipc/fence_testing.h"
#include "tenon/cuda_ipc/torch_counter_testing.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::cuda_ipc {
namespace {

using ::testing::HasSubstr;

// An allocation of 4000 numbers; the storage is its second quarter.
constexpr int64_t kCount = 1000;
constexpr size_t kStorageBytes = kCount * sizeof(int64_t);
constexpr size_t kBytes = 4 * kStorageBytes;
constexpr uint8_t kFilled = 0x5a;
constexpr int kCounter = 42;
// More than one, so that a second release shows.
constexpr int64_t kMany = 5;

// What the sender sends, and how far both are.
struct Exchange {
  CUipcMemHandle handle;
  CUipcEventHandle event;
  std::array<uint8_t, 16> uuid;
  std::array<uint8_t, 16> other_uuid;  // Of the second device, if there is one.
  std::atomic<bool> is_sent = false;
  std::atomic<bool> is_open = false;  // The sender's stream goes on.
  std::atomic<bool> is_received = false;
  std::atomic<bool> is_freed = false;
};

class TorchTensorTest : public DeviceProcessTest {
 protected:
  void SetUp() override {
    DeviceProcessTest::SetUp();
    auto queue = TensorQueue::Create({.capacity = 8});
    ASSERT_THAT(queue, IsOk());
    queue_ = *std::move(queue);
    for (auto& handle : queues_) handle = queue_->Share().value();
    counters_.Set(kCounter, kMany);
  }

  std::unique_ptr<TensorQueue> Open(int number) {
    return TensorQueue::Open(*std::move(queues_[number])).value();
  }

  static bool Await(const std::atomic<bool>& flag) {
    return Becomes([&flag] { return flag.load(); });
  }
  // Of kCounter.
  int64_t Count() const { return counters_.Get(kCounter); }
  bool Falls() const {
    return Becomes([this] { return Count() < kMany; });
  }

  // ---- The sender ----

  // Shares memory with 0, 1, ..., 3999 as torch does, and keeps it until the
  // counter has fallen.
  void Send(const std::function<void()>& then) const {
    const TestDevice gpu;
    const auto& devices = DeviceContexts::OfProcess().value()->devices();
    exchange_->uuid = devices[0].uuid;
    exchange_->other_uuid = devices.back().uuid;
    const LibraryMemory memory = LibraryMemory::Create(kBytes, [this] {
                                   exchange_->is_freed = true;
                                 }).value();
    const Tensor all = memory.Numbers(0, 4 * kCount).value();
    ASSERT_THAT(all.CopyFrom(Numbers(4 * kCount, 0)), IsOk());
    gpu.Call([&](const DriverTable& d) {
      return d.cuIpcGetMemHandle(&exchange_->handle, memory.address());
    });
    exchange_->is_sent = true;
    then();
    EXPECT_TRUE(Falls());
  }

  ForkedChild Sender(const std::function<void()>& then = [] {}) {
    return Run("sender", [this, then] { Send(then); });
  }

  // The same with an event, after which the memory is filled with kFilled; the
  // stream waits for is_open.
  ForkedChild SenderWithEvent() {
    return Run("sender", [this] {
      const TestDevice gpu;
      exchange_->uuid = gpu.context().device().uuid;
      const LibraryMemory memory = LibraryMemory::Create(kBytes).value();
      const CUstream stream = gpu.MakeStream();
      CUevent event = nullptr;
      gpu.Close(stream, exchange_->is_open);
      gpu.Call([&](const DriverTable& d) {
        return d.cuMemsetD8Async(memory.address(), kFilled, kBytes, stream);
      });
      gpu.Call([&](const DriverTable& d) {
        return d.cuEventCreate(&event,
                               kCuEventInterprocess | kCuEventDisableTiming);
      });
      gpu.Call(
          [&](const DriverTable& d) { return d.cuEventRecord(event, stream); });
      gpu.Call([&](const DriverTable& d) {
        return d.cuIpcGetEventHandle(&exchange_->event, event);
      });
      gpu.Call([&](const DriverTable& d) {
        return d.cuIpcGetMemHandle(&exchange_->handle, memory.address());
      });
      exchange_->is_sent = true;
      EXPECT_TRUE(Falls());
      gpu.Synchronize(stream);
      gpu.Call(
          [&](const DriverTable& d) { return d.cuEventDestroy_v2(event); });
    });
  }

  // ---- The receiver ----

  TorchTensor Message() const {
    TorchTensor message;
    message.tensor_size = {kCount};
    message.tensor_stride = {1};
    message.dtype = kDtypeOf<int64_t>;
    message.storage_handle =
        "\x02"
        "c" +
        std::string(exchange_->handle.reserved,
                    sizeof(exchange_->handle.reserved));
    message.storage_size_bytes = kStorageBytes;
    message.storage_offset_bytes = kStorageBytes;
    message.ref_counter_handle = counters_.name();
    message.ref_counter_offset = kCounter;
    message.device_uuid = exchange_->uuid;
    return message;
  }

  // Bytes, and the event.
  TorchTensor MessageWithEvent() const {
    TorchTensor message = Message();
    message.tensor_size = {kStorageBytes};
    message.dtype = kDtypeOf<uint8_t>;
    message.event_sync_required = true;
    message.event_handle.assign(exchange_->event.reserved,
                                sizeof(exchange_->event.reserved));
    return message;
  }

  // Lets the thread that closes allocations come by, once more than needed.
  void ExpectCount(int64_t count) const {
    EXPECT_THAT(TrimDeviceTensors(), IsOk());
    EXPECT_EQ(Count(), count);
  }

  void RunReceiver(const std::function<void()>& body) {
    RunAlone([this, &body] {
      EXPECT_TRUE(Await(exchange_->is_sent));
      body();
      EXPECT_THAT(TrimDeviceTensors(), IsOk());
    });
  }

  // In the second process of a chain: the third one has the tensor then.
  void SendOn() {
    EXPECT_TRUE(Await(exchange_->is_sent));
    const auto queue = Open(0);
    ASSERT_THAT(queue->Put(FromTorch(Message(), Soon()).value(), Soon()),
                IsOk());
    EXPECT_THAT(queue->AwaitTaken(Soon()), IsOk());
  }

  SharedObject<Exchange> exchange_;
  TorchCounters counters_;

 private:
  std::unique_ptr<TensorQueue> queue_;
  std::array<std::optional<QueueHandle>, 2> queues_;
};

TEST_F(TorchTensorTest, HasTheContentsAtTheOffset) {
  ForkedChild sender = Sender();
  RunReceiver([&] {
    counters_.Set(kCounter + 1, 1);
    counters_.Set(kCounter + 2, 1);
    TorchTensor message = Message();
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor all, FromTorch(message, Soon()));
    EXPECT_EQ(all.device().device_type, kDLCUDA);
    EXPECT_TRUE(HasNumbers(all, kCount));

    // In the storage, with strides, by a handle without a prefix, and without
    // a UUID.
    message.ref_counter_offset = kCounter + 1;
    message.storage_handle.erase(0, 2);
    message.device_uuid.reset();
    message.tensor_size = {3, 2};
    message.tensor_stride = {2, 1};
    message.tensor_offset = 10;
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor part, FromTorch(message, Soon()));
    EXPECT_TRUE(HasNumbers(part, kCount + 10));
    message.ref_counter_offset = kCounter + 2;
    message.tensor_stride = {1, 3};
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor transposed,
                               FromTorch(message, Soon()));
    EXPECT_TRUE(HasNumbers(transposed.Transpose(0, 1).value(), kCount + 10));
    // It is the sender's memory.
    EXPECT_THAT(part.CopyFrom(Numbers(6, 77).Reshape({3, 2}).value()), IsOk());
    EXPECT_TRUE(HasNumbers(transposed.Transpose(0, 1).value(), 77));
  });
  EXPECT_TRUE(sender.EndsWell());
  EXPECT_TRUE(exchange_->is_freed);
}

TEST_F(TorchTensorTest, TheCounterFallsOnceAfterTheLastView) {
  ForkedChild sender = Sender();
  RunReceiver([&] {
    std::optional<Tensor> tensor = FromTorch(Message(), Soon()).value();
    std::optional<Tensor> view =
        tensor->Slice(0, {.start = 100, .stop = 200}).value();
    tensor.reset();
    ExpectCount(kMany);
    EXPECT_TRUE(HasNumbers(*view, kCount + 100));
    view.reset();
    ExpectCount(kMany - 1);
    ExpectCount(kMany - 1);
  });
  EXPECT_TRUE(sender.EndsWell());
}

TEST_F(TorchTensorTest, TheCounterFallsOnceAfterTheLastThread) {
  ForkedChild sender = Sender();
  RunReceiver([&] {
    Tensor tensor = FromTorch(Message(), Soon()).value();
    std::atomic<bool> goes_on = false;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&goes_on, view = tensor.Select(0, i).value()] {
        EXPECT_TRUE(Await(goes_on));
      });
    }
    threads.emplace_back([moved = std::move(tensor), &goes_on]() mutable {
      EXPECT_TRUE(Await(goes_on));
      const Tensor last = std::move(moved);
    });
    ExpectCount(kMany);
    goes_on = true;
    for (std::thread& thread : threads) thread.join();
    threads.clear();
    EXPECT_TRUE(Falls());  // By itself.
    ExpectCount(kMany - 1);
  });
  EXPECT_TRUE(sender.EndsWell());
}

TEST_F(TorchTensorTest, EachMessageHasItsCounterAndTheAllocationIsOpenedOnce) {
  ForkedChild sender = Sender();
  RunReceiver([&] {
    std::optional<Tensor> first = FromTorch(Message(), Soon()).value();
    TorchTensor message = Message();
    message.ref_counter_offset = kCounter + 1;
    message.storage_offset_bytes = 0;
    counters_.Set(kCounter + 1, kMany);
    std::optional<Tensor> second = FromTorch(message, Soon()).value();
    EXPECT_TRUE(HasNumbers(*second, 0));
    if (has_fake()) {
      EXPECT_EQ(fake_.Calls("cuIpcOpenMemHandle_v2"), 1u);
    }
    second.reset();
    EXPECT_TRUE(
        Becomes([&] { return counters_.Get(kCounter + 1) == kMany - 1; }));
    ExpectCount(kMany);
    EXPECT_TRUE(HasNumbers(*first, kCount));
    first.reset();
    ExpectCount(kMany - 1);
    if (has_fake()) {
      EXPECT_EQ(fake_.Calls("cuIpcCloseMemHandle"), 1u);
    }
  });
  EXPECT_TRUE(sender.EndsWell());
}

TEST_F(TorchTensorTest, TheCounterFallsAfterTheLastProcessOfAChain) {
  ForkedChild sender = Sender();
  ForkedChild second = Run("second", [&] {
    SendOn();
    EXPECT_THAT(TrimDeviceTensors(), IsOk());
    EXPECT_EQ(Count(), kMany);
    exchange_->is_received = true;
    EXPECT_TRUE(Falls());
    ExpectCount(kMany - 1);
  });
  RunAlone([&] {
    const auto queue = Open(1);
    TENON_ASSERT_OK_AND_ASSIGN(std::optional<Tensor> tensor,
                               queue->GetTensor(Soon()));
    EXPECT_TRUE(Await(exchange_->is_received));
    EXPECT_TRUE(HasNumbers(*tensor, kCount));
    EXPECT_EQ(Count(), kMany);
    tensor.reset();
    EXPECT_TRUE(Falls());
  });
  EXPECT_TRUE(second.EndsWell());
  EXPECT_TRUE(sender.EndsWell());
}

TEST_F(TorchTensorTest, OneTrimReleasesWhatWasSentOn) {
  ForkedChild sender = Sender();
  ForkedChild second = Run("second", [&] {
    SendOn();
    EXPECT_TRUE(Await(exchange_->is_open));
    EXPECT_THAT(TrimDeviceTensors(), IsOk());
    EXPECT_EQ(Count(), kMany - 1);
  });
  RunAlone([&] {
    const auto queue = Open(1);
    EXPECT_TRUE(HasNumbers(queue->GetTensor(Soon()).value(), kCount));
    EXPECT_THAT(TrimDeviceTensors(), IsOk());
    exchange_->is_open = true;
  });
  EXPECT_TRUE(second.EndsWell());
  EXPECT_TRUE(sender.EndsWell());
}

TEST_F(TorchTensorTest, AKilledProcessOfAChainKeepsNothing) {
  ForkedChild sender = Sender();
  ForkedChild second = Run("second", [&] {
    SendOn();
    ExpectCount(kMany);
    exchange_->is_received = true;
    EXPECT_TRUE(Falls());
    ExpectCount(kMany - 1);
  });
  ForkedChild third = Run("third", [&] {
    const auto queue = Open(1);
    const Tensor tensor = queue->GetTensor(Soon()).value();
    pause();
  });
  EXPECT_TRUE(Await(exchange_->is_received));
  third.Kill();
  EXPECT_TRUE(second.EndsWell());
  EXPECT_TRUE(sender.EndsWell());
}

TEST_F(TorchTensorTest, TheContentsAreThoseOfTheSendersEvent) {
  ForkedChild sender = SenderWithEvent();
  RunReceiver([&] {
    const TorchTensor message = MessageWithEvent();
    EXPECT_THAT(FromTorch(message, Deadline::After(absl::Milliseconds(20))),
                StatusIs(absl::StatusCode::kDeadlineExceeded,
                         HasSubstr("has not fired in time")));
    EXPECT_EQ(Count(), kMany);
    // FromTorch() waits, and another thread lets the stream go on.
    std::thread opener([&] {
      absl::SleepFor(absl::Milliseconds(50));
      exchange_->is_open = true;
    });
    absl::StatusOr<Tensor> tensor = FromTorch(message, Soon());
    opener.join();
    ASSERT_THAT(tensor, IsOk());
    EXPECT_TRUE(TestDevice::Has(*tensor, kFilled));
    tensor = absl::CancelledError();
    ExpectCount(kMany - 1);
    TorchTensor other = message;
    other.event_handle[0] ^= 0x55;
    EXPECT_FALSE(FromTorch(other, Soon()).ok());
    ExpectCount(kMany - 1);
  });
  EXPECT_TRUE(sender.EndsWell());
}

TEST_F(TorchTensorTest, TheEventOfAKilledSenderEndsByTheDeadline) {
  if (!has_fake()) GTEST_SKIP() << "CUDA does not document an exporter's end";
  ForkedChild sender = SenderWithEvent();
  ForkedChild receiver = Run("receiver", [&] {
    EXPECT_TRUE(Await(exchange_->is_sent));
    std::thread watcher([&] {
      EXPECT_TRUE(Becomes([&] { return fake_.Calls("cuEventQuery") > 0; }));
      exchange_->is_received = true;  // The event is open.
    });
    EXPECT_THAT(
        FromTorch(MessageWithEvent(), Deadline::After(absl::Milliseconds(500))),
        StatusIs(absl::StatusCode::kDeadlineExceeded));
    watcher.join();
    EXPECT_EQ(Count(), kMany);
  });
  EXPECT_TRUE(Await(exchange_->is_received));
  sender.Kill();
  EXPECT_TRUE(receiver.EndsWell());
}

TEST_F(TorchTensorTest, AFailedCallLeavesTheMessageAsItIs) {
  if (!has_fake()) GTEST_SKIP() << "only the fake driver fails on demand";
  ForkedChild sender = SenderWithEvent();
  RunReceiver([&] {
    exchange_->is_open = true;
    for (const char* const call :
         {"cuIpcOpenEventHandle", "cuEventQuery", "cuEventDestroy_v2",
          "cuIpcOpenMemHandle_v2", "cuMemGetAddressRange_v2",
          "cuPointerGetAttribute"}) {
      SCOPED_TRACE(call);
      fake_.Fail(call, 1, CUDA_ERROR_OUT_OF_MEMORY);
      EXPECT_THAT(FromTorch(MessageWithEvent(), Soon()),
                  StatusIs(absl::StatusCode::kResourceExhausted));
      ExpectCount(kMany);
    }
    EXPECT_THAT(FromTorch(MessageWithEvent(), Soon()), IsOk());
    ExpectCount(kMany - 1);
    EXPECT_EQ(fake_.Calls("cuIpcOpenEventHandle") - 1,
              fake_.Calls("cuEventDestroy_v2"));
  });
  EXPECT_TRUE(sender.EndsWell());
}

// CUDA documents nothing of a sender's end: under the fake driver alone.
TEST_F(TorchTensorTest, AKilledSenderIsAnError) {
  if (!has_fake()) GTEST_SKIP() << "CUDA does not document an exporter's end";
  ForkedChild sender = Sender();
  ForkedChild receiver = Run("receiver", [&] {
    EXPECT_TRUE(Await(exchange_->is_sent));
    std::optional<Tensor> tensor = FromTorch(Message(), Soon()).value();
    TorchTensor late = Message();
    late.ref_counter_offset = kCounter + 1;
    counters_.Set(kCounter + 1, 1);
    exchange_->is_received = true;
    EXPECT_TRUE(Await(exchange_->is_open));
    EXPECT_FALSE(tensor->ToCpu().ok());
    tensor.reset();
    static_cast<void>(TrimDeviceTensors());
    EXPECT_FALSE(FromTorch(late, Soon()).ok());
    EXPECT_EQ(counters_.Get(kCounter + 1), 1);
  });
  ForkedChild late = Run("late", [&] {
    EXPECT_TRUE(Await(exchange_->is_open));
    EXPECT_THAT(FromTorch(Message(), Soon()),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("INVALID_HANDLE")));
    // The end of a torch that was not killed removes its file.
    counters_.Remove();
    EXPECT_THAT(FromTorch(Message(), Soon()),
                StatusIs(absl::StatusCode::kNotFound));
  });
  EXPECT_TRUE(Await(exchange_->is_received));
  sender.Kill();
  exchange_->is_open = true;
  EXPECT_TRUE(receiver.EndsWell());
  EXPECT_TRUE(late.EndsWell());
}

TEST_F(TorchTensorTest, AMessageIsReleasedOnceWithoutReceivingIt) {
  RunAlone([&] {
    counters_.Set(kCounter, 1);
    EXPECT_THAT(ReleaseTorch(Message()), IsOk());
    EXPECT_EQ(Count(), 0);
    EXPECT_THAT(ReleaseTorch(Message()),
                StatusIs(absl::StatusCode::kFailedPrecondition));
    EXPECT_EQ(Count(), 0);
    counters_.Set(kCounter, 1);
  });
}

TEST_F(TorchTensorTest, AFileThatIsTruncatedMeanwhileIsNoError) {
  ForkedChild sender = Sender();
  RunReceiver([&] {
    const TorchCounters cut;
    cut.Set(kCounter, 1);
    TorchTensor message = Message();
    message.ref_counter_handle = cut.name();
    std::optional<Tensor> tensor = FromTorch(message, Soon()).value();
    ASSERT_EQ(ftruncate(cut.fd(), 0), 0);
    tensor.reset();
    EXPECT_THAT(TrimDeviceTensors(), IsOk());
    struct stat file;
    ASSERT_EQ(fstat(cut.fd(), &file), 0);
    EXPECT_EQ(file.st_size, 0);
    if (has_fake()) {
      EXPECT_EQ(fake_.Calls("cuIpcCloseMemHandle"), 1u);
    }
    EXPECT_THAT(ReleaseTorch(Message()), IsOk());
  });
  EXPECT_TRUE(sender.EndsWell());
}

TEST_F(TorchTensorTest, FalseMessagesAreRefusedAndLeaveTheCounter) {
  ForkedChild sender = Sender();
  RunReceiver([&] {
    constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
    const auto expect = [&](const std::function<void(TorchTensor&)>& change,
                            absl::StatusCode code, const char* text) {
      TorchTensor message = Message();
      change(message);
      EXPECT_THAT(FromTorch(message, Soon()), StatusIs(code, HasSubstr(text)));
      EXPECT_EQ(Count(), kMany);
    };
    constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
    expect([](TorchTensor& m) { m.storage_handle.clear(); }, kInvalid,
           "storage_handle is empty");
    expect([](TorchTensor& m) { m.storage_handle.pop_back(); }, kInvalid,
           "storage_handle has 65 bytes; want 64 or 66");
    expect([](TorchTensor& m) { m.storage_handle += "x"; }, kInvalid,
           "storage_handle has 67 bytes");
    expect([](TorchTensor& m) { m.storage_handle[1] = 'x'; }, kInvalid,
           "storage_handle has kind 120");
    expect([](TorchTensor& m) { m.storage_handle[1] = 'e'; },
           absl::StatusCode::kUnimplemented, "expandable segment");
    expect([](TorchTensor& m) { m.storage_handle[0] = 4; },
           absl::StatusCode::kUnimplemented, "version 4");
    expect([](TorchTensor& m) { m.storage_size_bytes = 0; }, kInvalid,
           "storage_size_bytes is 0");
    expect([](TorchTensor& m) { m.storage_offset_bytes = -8; }, kInvalid,
           "at -8");
    expect([](TorchTensor& m) { m.storage_offset_bytes = 4 << 20; }, kInvalid,
           "exceeds its allocation");
    expect([](TorchTensor& m) { m.storage_size_bytes = kMax; }, kInvalid,
           "exceeds its allocation");
    expect([](TorchTensor& m) { m.tensor_offset = -1; }, kInvalid,
           "tensor_offset is -1");
    expect([](TorchTensor& m) { m.tensor_offset = kMax; }, kInvalid,
           "tensor_offset is");
    expect([](TorchTensor& m) { m.tensor_offset = 1; }, kInvalid, "");
    expect([](TorchTensor& m) { m.tensor_size = {kCount + 1}; }, kInvalid, "");
    expect([](TorchTensor& m) { m.tensor_size = {-1}; }, kInvalid, "");
    expect([](TorchTensor& m) { m.tensor_stride = {}; }, kInvalid, "");
    expect([](TorchTensor& m) { m.tensor_stride = {-1}; }, kInvalid, "");
    expect([](TorchTensor& m) { m.event_sync_required = true; }, kInvalid,
           "event_handle has 0 bytes; want 64");
    expect([](TorchTensor& m) { m.device_uuid->fill(0x77); },
           absl::StatusCode::kNotFound, "");
    expect(
        [](TorchTensor& m) {
          m.device_uuid.reset();
          m.storage_device = 99;
        },
        absl::StatusCode::kNotFound, "");
    if (exchange_->other_uuid != exchange_->uuid) {
      expect([&](TorchTensor& m) { m.device_uuid = exchange_->other_uuid; },
             kInvalid, "names cuda:1, but");
    }
    const TorchCounters small(70);
    const TorchCounters readable(kTorchFileBytes, 0644);
    expect([&](TorchTensor& m) { m.ref_counter_handle = small.name(); },
           kInvalid, "has 70 bytes");
    expect([&](TorchTensor& m) { m.ref_counter_handle = readable.name(); },
           absl::StatusCode::kPermissionDenied, "mode 0644");
    expect([](TorchTensor& m) { m.ref_counter_handle = "/torch_1/../passwd"; },
           kInvalid, "want a name");
    expect([](TorchTensor& m) { m.ref_counter_handle += "_gone"; },
           absl::StatusCode::kNotFound, "");
    expect([](TorchTensor& m) { m.ref_counter_offset = -1; }, kInvalid, "");
    expect([](TorchTensor& m) { m.ref_counter_offset = 10'000; }, kInvalid, "");
    expect([](TorchTensor& m) { m.ref_counter_offset = kCounter + 1; },
           absl::StatusCode::kFailedPrecondition, "released before");
    // The message itself is good.
    EXPECT_THAT(FromTorch(Message(), Soon()), IsOk());
    EXPECT_TRUE(Falls());
    ExpectCount(kMany - 1);
  });
  EXPECT_TRUE(sender.EndsWell());
}

}  // namespace
}  // namespace tenon::cuda_ipc

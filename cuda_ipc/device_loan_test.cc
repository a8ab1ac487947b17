// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Tensors in memory of cuMemAlloc that Tenon has not allocated, between
// processes.

#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/device_allocation.h"
#include "tenon/cuda_ipc/device_context.h"
#include "tenon/cuda_ipc/device_loan_testing.h"
#include "tenon/cuda_ipc/device_process_testing.h"
#include "tenon/cuda_ipc/device_tensor.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/ring/ring_channel.h"
#include "tenon/ipc/ring/ring_producer.h"
#include "tenon/ipc/ring/ring_reader.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/base/message.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_loan.h"
#include "tenon/shm/tensor/tensor_spec.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::cuda_ipc {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kCount = 1000;
constexpr size_t kBytes = 4 * kCount * sizeof(int64_t);

// "The other process has come so far."
class Step {
 public:
  Step() { EXPECT_EQ(pipe(ends_.data()), 0); }
  ~Step() {
    for (const int end : ends_) close(end);
  }
  void Reach() const { EXPECT_EQ(write(ends_[1], "s", 1), 1); }
  void Await() const {
    pollfd readable = {.fd = ends_[0], .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&readable, 1, 60'000), 1);
  }

 private:
  std::array<int, 2> ends_ = {};
};

class SharedQueue {
 public:
  SharedQueue() : own_(TensorQueue::Create({.capacity = 8}).value()) {
    for (auto& handle : handles_) handle = own_->Share().value();
  }
  std::unique_ptr<TensorQueue> Open(int number) {
    return TensorQueue::Open(*std::move(handles_[number])).value();
  }

 private:
  std::unique_ptr<TensorQueue> own_;
  std::array<std::optional<QueueHandle>, 2> handles_;
};

class DeviceLoanTest : public DeviceProcessTest {
 protected:
  LibraryMemory Memory(size_t bytes = kBytes) {
    return LibraryMemory::Create(bytes, [this] { freed_->store(true); })
        .value();
  }
  // With first, first + 1, ..., at an offset in the allocation.
  static Tensor Make(const LibraryMemory& memory, int64_t first) {
    Tensor tensor = memory.Numbers(kCount, kCount).value();
    EXPECT_THAT(tensor.CopyFrom(Numbers(kCount, first)), IsOk());
    return tensor;
  }
  Tensor Make(int64_t first) { return Make(Memory(), first); }
  static Tensor Get(TensorQueue& queue) {
    absl::StatusOr<Tensor> tensor = queue.GetTensor(Soon());
    EXPECT_THAT(tensor, IsOk());
    return *std::move(tensor);
  }
  uint64_t Opened() const {
    return has_fake() ? fake_.Calls("cuIpcOpenMemHandle_v2") : 1;
  }

  SharedObject<std::atomic<bool>> freed_;
  SharedQueue queue_, back_;
  Step first_, second_, third_;
};

TEST_F(DeviceLoanTest, AReceiverReadsAndWritesTheSameMemory) {
  ForkedChild a = Run("a", [&] {
    const auto queue = queue_.Open(0);
    const Tensor tensor = Make(7);
    TensorMessage message(tensor);
    message.Add(Numbers(10, 2));
    message.Add(tensor.Slice(0, {.start = 100, .stop = 200}).value());
    ASSERT_THAT(queue->Put(message, Soon()), IsOk());
    first_.Await();
    EXPECT_TRUE(HasNumbers(tensor, 50));
  });
  ForkedChild b = Run("b", [&] {
    const auto queue = queue_.Open(1);
    TENON_ASSERT_OK_AND_ASSIGN(const TensorMessage message, queue->Get(Soon()));
    const Tensor tensor = message.tensor(0).value();
    const Tensor view = message.tensor(2).value();
    EXPECT_EQ(tensor.device().device_type, kDLCUDA);
    EXPECT_EQ(tensor.storage(), view.storage());
    EXPECT_TRUE(HasNumbers(tensor, 7));
    EXPECT_TRUE(HasNumbers(message.tensor(1).value(), 2));
    EXPECT_TRUE(HasNumbers(view, 107));
    ASSERT_THAT(tensor.CopyFrom(Numbers(kCount, 50)), IsOk());
    first_.Reach();
  });
  EXPECT_TRUE(a.EndsWell());
  EXPECT_TRUE(b.EndsWell());
}

TEST_F(DeviceLoanTest, PutAndGotInOneProcess) {
  RunAlone([&] {
    const auto in = queue_.Open(0);
    const auto out = queue_.Open(1);
    std::optional<Tensor> tensor = Make(7);
    const int64_t* const address = *tensor->device_data<const int64_t>();
    ASSERT_THAT(in->Put(*tensor, Soon()), IsOk());
    std::optional<Tensor> got = Get(*out);
    EXPECT_THAT(in->AwaitTaken(Soon()), IsOk());
    EXPECT_EQ(*got->device_data<const int64_t>(), address);
    tensor.reset();
    EXPECT_TRUE(HasNumbers(*got, 7));
    EXPECT_FALSE(freed_->load());
    got.reset();
    EXPECT_TRUE(Becomes([&] { return freed_->load(); }));
  });
}

TEST_F(DeviceLoanTest, AnAllocationIsOpenedOnceAndTheSteadyStateMakesNoCall) {
  constexpr int kSends = 2'000;
  constexpr int kWarm = 100;
  ForkedChild a = Run("a", [&] {
    const auto queue = queue_.Open(0);
    const LibraryMemory memory = Memory();
    const Tensor one = Make(memory, 7);
    const Tensor other = memory.Numbers(0, 10).value();
    ASSERT_THAT(queue->Put(one, Soon()), IsOk());
    uint64_t before = 0;
    for (int i = 0; i < kSends; ++i) {
      if (i == kWarm) before = Calls();
      ASSERT_THAT(queue->Put(i % 2 == 0 ? one : other, Soon()), IsOk());
    }
    EXPECT_EQ(Calls(), before);
    EXPECT_THAT(queue->AwaitTaken(Soon()), IsOk());
    first_.Await();
  });
  ForkedChild b = Run("b", [&] {
    const auto queue = queue_.Open(1);
    const Tensor kept = Get(*queue);
    uint64_t before = 0;
    for (int i = 0; i < kSends; ++i) {
      if (i == kWarm) before = Calls();
      const Tensor tensor = Get(*queue);
      EXPECT_EQ(tensor.storage() == kept.storage(), i % 2 == 0);
    }
    EXPECT_EQ(Calls(), before);
    EXPECT_EQ(Opened(), 1u);
    EXPECT_TRUE(HasNumbers(kept, 7));
    first_.Reach();
  });
  EXPECT_TRUE(a.EndsWell());
  EXPECT_TRUE(b.EndsWell());
}

// The driver demands that importers close an allocation before it is freed.
TEST_F(DeviceLoanTest, TheMemoryIsKeptUntilTheReceiverHasClosedIt) {
  ForkedChild a = Run("a", [&] {
    const auto queue = queue_.Open(0);
    ASSERT_THAT(queue->Put(Make(7), Soon()), IsOk());
    EXPECT_THAT(queue->AwaitTaken(Soon()), IsOk());
    first_.Await();
    // The loan has been given up here, and waits for the receiver.
    EXPECT_THAT(TrimDeviceTensors(), IsOk());
    EXPECT_FALSE(freed_->load());
    second_.Reach();
    EXPECT_TRUE(Becomes([&] { return freed_->load(); }));
    if (has_fake()) {
      EXPECT_EQ(fake_.HeldBytes(0), 0u);
    }
  });
  ForkedChild b = Run("b", [&] {
    const auto queue = queue_.Open(1);
    std::optional<Tensor> tensor = Get(*queue);
    first_.Reach();
    second_.Await();
    EXPECT_TRUE(HasNumbers(*tensor, 7));
    const auto closed = [&] {
      return !has_fake() || fake_.Calls("cuIpcCloseMemHandle") == 1;
    };
    const uint64_t before = Calls();
    tensor.reset();
    EXPECT_TRUE(!has_fake() || Calls() == before || closed());
    EXPECT_TRUE(Becomes([&] {
      if (!freed_->load()) return false;
      EXPECT_TRUE(closed());
      return true;
    }));
  });
  EXPECT_TRUE(a.EndsWell());
  EXPECT_TRUE(b.EndsWell());
}

TEST_F(DeviceLoanTest, AForwardedTensorKeepsTheMemoryOfItsLender) {
  ForkedChild a = Run("a", [&] {
    const auto queue = queue_.Open(0);
    ASSERT_THAT(queue->Put(Make(7), Soon()), IsOk());
    EXPECT_THAT(queue->AwaitTaken(Soon()), IsOk());
    EXPECT_TRUE(Becomes([&] { return freed_->load(); }));
  });
  ForkedChild b = Run("b", [&] {
    const auto queue = queue_.Open(1);
    const auto back = back_.Open(0);
    const Tensor tensor = Get(*queue);
    ASSERT_THAT(back->Put(tensor, Soon()), IsOk());
    EXPECT_THAT(back->AwaitTaken(Soon()), IsOk());
  });
  ForkedChild c = Run("c", [&] {
    const auto back = back_.Open(1);
    const Tensor tensor = Get(*back);
    first_.Await();
    EXPECT_THAT(tensor.CopyFrom(Numbers(kCount, 9)), IsOk());
    EXPECT_TRUE(HasNumbers(tensor, 9));
    EXPECT_FALSE(freed_->load());
  });
  EXPECT_TRUE(b.EndsWell());
  first_.Reach();
  EXPECT_TRUE(c.EndsWell());
  EXPECT_TRUE(a.EndsWell());
}

TEST_F(DeviceLoanTest, ATensorIsSentBackAndIsTheSame) {
  ForkedChild a = Run("a", [&] {
    const auto queue = queue_.Open(0);
    const auto back = back_.Open(0);
    const Tensor tensor = Make(7);
    ASSERT_THAT(queue->Put(tensor, Soon()), IsOk());
    const Tensor returned = Get(*back);
    EXPECT_EQ(*returned.device_data<const int64_t>(),
              *tensor.device_data<const int64_t>());
    EXPECT_TRUE(HasNumbers(returned, 8));
  });
  ForkedChild b = Run("b", [&] {
    const auto queue = queue_.Open(1);
    const auto back = back_.Open(1);
    const Tensor tensor = Get(*queue);
    ASSERT_THAT(tensor.CopyFrom(Numbers(kCount, 8)), IsOk());
    ASSERT_THAT(back->Put(tensor, Soon()), IsOk());
    EXPECT_THAT(back->AwaitTaken(Soon()), IsOk());
  });
  EXPECT_TRUE(a.EndsWell());
  EXPECT_TRUE(b.EndsWell());
}

TEST_F(DeviceLoanTest, AKilledReceiverKeepsNothing) {
  ForkedChild a = Run("a", [&] {
    const auto queue = queue_.Open(0);
    ASSERT_THAT(queue->Put(Make(7), Soon()), IsOk());
    EXPECT_THAT(queue->AwaitTaken(Soon()), IsOk());
    EXPECT_FALSE(freed_->load());
    first_.Reach();
    EXPECT_TRUE(Becomes([&] { return freed_->load(); }));
  });
  ForkedChild b = Run("b", [&] {
    const auto queue = queue_.Open(1);
    const Tensor tensor = Get(*queue);
    pause();
  });
  first_.Await();
  b.Kill();
  EXPECT_TRUE(a.EndsWell());
}

// What a tensor that was received before has then is not documented, so only
// the fake driver's answer is tested: it says so at the access.
TEST_F(DeviceLoanTest, AMessageOfAKilledLenderIsLost) {
  if (!has_fake()) GTEST_SKIP() << "CUDA does not document an exporter's end";
  ForkedChild a = Run("a", [&] {
    const auto queue = queue_.Open(0);
    const Tensor one = Make(7), other = Make(8);
    ASSERT_THAT(queue->Put(one, Soon()), IsOk());
    first_.Await();
    ASSERT_THAT(queue->Put(other, Soon()), IsOk());
    second_.Reach();
    pause();
  });
  ForkedChild b = Run("b", [&] {
    const auto queue = queue_.Open(1);
    std::optional<Tensor> tensor = Get(*queue);
    EXPECT_TRUE(HasNumbers(*tensor, 7));
    first_.Reach();
    third_.Await();
    EXPECT_THAT(
        queue->GetTensor(Soon()).status(),
        StatusIs(absl::StatusCode::kDataLoss, HasSubstr("INVALID_HANDLE")));
    tensor.reset();  // Is nothing's error.
    EXPECT_THAT(TrimDeviceTensors(), IsOk());
  });
  second_.Await();
  a.Kill();
  third_.Reach();
  EXPECT_TRUE(b.EndsWell());
}

// Rings and channels carry the handle of the loan, and the spec.
struct LoanHandle {
  ArenaTensorHandle loan;
  TensorSpec spec;
};

TEST_F(DeviceLoanTest, RingsAndChannelsCarryHandlesOfLoans) {
  auto ends = Channel::CreatePair().value();
  std::array<UniqueFd, 2> fds = {ends.first.Release(), ends.second.Release()};
  const auto channel_of = [&](size_t end) {
    return Channel::AdoptReleased(std::move(fds[end]), {.allow_sockets = true});
  };
  ForkedChild a = Run("a", [&] {
    Channel channel = channel_of(0);
    const Tensor tensor = Make(7);
    TENON_ASSERT_OK_AND_ASSIGN(
        const auto ring,
        RingProducer::Create({.record_bytes = sizeof(LoanHandle)}));
    ASSERT_THAT(AddRingReader(*ring, channel, Soon()), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor loan, LoanOf(tensor));
    TENON_ASSERT_OK_AND_ASSIGN(const ArenaOffer offer, Offer(loan));
    ASSERT_THAT(channel.Send(offer.bytes, offer.fds, Soon()), IsOk());
    const LoanHandle handle = {.loan = Describe(loan).value(),
                               .spec = tensor.spec()};
    ASSERT_THAT(ring->Put(std::as_bytes(std::span(&handle, 1)), Soon()),
                IsOk());
    const absl::string_view bytes(reinterpret_cast<const char*>(&handle),
                                  sizeof(handle));
    ASSERT_THAT(channel.Send(bytes, {}, Soon()), IsOk());
    EXPECT_THAT(channel.Receive(Soon()), IsOk());
    EXPECT_TRUE(HasNumbers(tensor, 8));
  });
  ForkedChild b = Run("b", [&] {
    Channel channel = channel_of(1);
    TENON_ASSERT_OK_AND_ASSIGN(const auto ring, JoinRing(channel, Soon()));
    ArenaTensorImporter importer;
    TENON_ASSERT_OK_AND_ASSIGN(Message offer, channel.Receive(Soon()));
    ASSERT_THAT(importer.Accept(offer.bytes, std::move(offer.fds)), IsOk());
    const auto borrow = [&](const void* bytes) {
      LoanHandle handle;
      std::memcpy(&handle, bytes, sizeof(handle));
      return FromLoan(importer.Claim(handle.loan).value(), kDLCUDA,
                      handle.spec);
    };
    std::array<std::byte, sizeof(LoanHandle)> record;
    ASSERT_THAT(ring->Peek(record, Soon()), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor by_ring, borrow(record.data()));
    ASSERT_THAT(ring->Advance(1), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(const Message sent, channel.Receive(Soon()));
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor by_channel,
                               borrow(sent.bytes.data()));
    EXPECT_EQ(by_ring.storage(), by_channel.storage());
    EXPECT_TRUE(HasNumbers(by_ring, 7));
    EXPECT_THAT(by_channel.CopyFrom(Numbers(kCount, 8)), IsOk());
    ASSERT_THAT(channel.Send("written", {}, Soon()), IsOk());
  });
  EXPECT_TRUE(b.EndsWell());
  EXPECT_TRUE(a.EndsWell());
}

TEST_F(DeviceLoanTest, OtherMemoryOfALibraryIsRefused) {
  RunAlone([&] {
    const auto queue = queue_.Open(0);
    const DeviceContext* const gpu =
        DeviceContexts::OfProcess().value()->Get(0).value();
    TENON_ASSERT_OK_AND_ASSIGN(const DeviceAllocation memory,
                               DeviceAllocation::Create(*gpu, kPage));
    TENON_ASSERT_OK_AND_ASSIGN(
        const Tensor tensor,
        Tensor::FromSpec(
            TensorSpec::Contiguous(kDtypeOf<uint8_t>, {100}).value(),
            Storage::FromLent(
                {.data = reinterpret_cast<std::byte*>(memory.address()),
                 .size_bytes = 100,
                 .writable = true,
                 .device = {kDLCUDA, 0}})));
    EXPECT_THAT(queue->Put(tensor, Soon()),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("allocate from a DevicePool")));
    // The next message is sent.
    EXPECT_THAT(queue->Put(Make(7), Soon()), IsOk());
    const auto other = queue_.Open(1);
    EXPECT_TRUE(HasNumbers(Get(*other), 7));
  });
}

// A hostile lender may write anything.
TEST_F(DeviceLoanTest, FalseLoansAreRefused) {
  RunAlone([&] {
    const Tensor tensor = Make(7);
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor loan, LoanOf(tensor));
    const TensorSpec& spec = tensor.spec();
    TENON_ASSERT_OK_AND_ASSIGN(const auto good, loan.data<const uint8_t>());
    const auto open = [&](const std::vector<uint8_t>& bytes) {
      const Tensor copy = Tensor::Create(kDtypeOf<uint8_t>,
                                         {static_cast<int64_t>(bytes.size())})
                              .value();
      std::memcpy(copy.data<uint8_t>()->data(), bytes.data(), bytes.size());
      return FromLoan(copy, kDLCUDA, spec).status();
    };
    const std::vector<uint8_t> bytes(good.begin(), good.end());
    EXPECT_THAT(open(bytes), IsOk());
    EXPECT_THAT(open({bytes.begin(), bytes.begin() + 100}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("a loan of 100 bytes")));
    for (size_t i = 0; i < bytes.size(); ++i) {
      std::vector<uint8_t> changed = bytes;
      changed[i] ^= 0x80;
      // Another range is checked against the driver's allocation.
      const absl::Status status = open(changed);
      const bool is_magic = i < 8;
      const bool is_device = i >= 96 && i < 112;
      if (is_magic || is_device) {
        EXPECT_FALSE(status.ok()) << i;
      }
    }
    EXPECT_THAT(FromLoan(loan, kDLROCM, spec),
                StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(
        FromLoan(
            loan, kDLCUDA,
            TensorSpec::Contiguous(kDtypeOf<int64_t>, {kCount + 1}).value()),
        StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(FromLoan(Tensor(), kDLCUDA, spec),
                StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(LoanOf(Numbers(1, 1)),
                StatusIs(absl::StatusCode::kFailedPrecondition));
  });
}

TEST_F(DeviceLoanTest, EachCallThatFailsLosesNothing) {
  if (!has_fake()) GTEST_SKIP() << "only the fake driver fails on demand";
  constexpr std::array<const char*, 4> kOfLender = {
      "cuIpcGetMemHandle", "cuMemGetAddressRange_v2", "cuCtxPushCurrent_v2",
      "cuCtxPopCurrent_v2"};
  constexpr std::array<const char*, 4> kOfReceiver = {
      "cuIpcOpenMemHandle_v2", "cuMemGetAddressRange_v2", "cuCtxPushCurrent_v2",
      "cuCtxPopCurrent_v2"};
  ForkedChild a = Run("a", [&] {
    const auto queue = queue_.Open(0);
    for (const char* const entry : kOfLender) {
      for (const CUresult error : fake_.DocumentedErrors(entry)) {
        const Tensor tensor = Make(7);
        fake_.Fail(entry, 1, error);
        EXPECT_THAT(LoanOf(tensor), ::testing::Not(IsOk())) << entry;
        fake_.StopFailing(entry);
        EXPECT_THAT(LoanOf(tensor), IsOk()) << entry;
      }
    }
    for (size_t i = 0; i < kOfReceiver.size(); ++i) {
      const Tensor tensor = Make(static_cast<int64_t>(i));
      ASSERT_THAT(queue->Put(tensor, Soon()), IsOk());
      ASSERT_THAT(queue->Put(tensor, Soon()), IsOk());
    }
    EXPECT_THAT(queue->AwaitTaken(Soon()), IsOk());
    EXPECT_TRUE(Becomes([&] { return fake_.HeldBytes(0) == 0; }));
  });
  ForkedChild b = Run("b", [&] {
    const auto queue = queue_.Open(1);
    for (size_t i = 0; i < kOfReceiver.size(); ++i) {
      // Before its thread closes another one.
      EXPECT_THAT(TrimDeviceTensors(), IsOk());
      fake_.Fail(kOfReceiver[i], 1, CUDA_ERROR_INVALID_VALUE);
      EXPECT_THAT(queue->GetTensor(Soon()),
                  StatusIs(absl::StatusCode::kDataLoss))
          << kOfReceiver[i];
      fake_.StopFailing(kOfReceiver[i]);
      EXPECT_TRUE(HasNumbers(Get(*queue), static_cast<int64_t>(i)));
    }
    // A handle that the driver does not close is closed later.
    fake_.Fail("cuIpcCloseMemHandle", 1, CUDA_ERROR_INVALID_VALUE);
    EXPECT_THAT(TrimDeviceTensors(), IsOk());
    fake_.StopFailing("cuIpcCloseMemHandle");
  });
  EXPECT_TRUE(a.EndsWell());
  EXPECT_TRUE(b.EndsWell());
}

}  // namespace
}  // namespace tenon::cuda_ipc

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Tensors of device pools between processes, through the queue that carries
// those of the CPU.

#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
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
#include "tenon/cuda_ipc/device_pool.h"
#include "tenon/cuda_ipc/device_process_testing.h"
#include "tenon/cuda_ipc/device_tensor.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/tensor/device.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::cuda_ipc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

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
    char step = 0;
    EXPECT_EQ(poll(&readable, 1, 60'000), 1);
    EXPECT_EQ(read(ends_[0], &step, 1), 1);
  }

 private:
  std::array<int, 2> ends_ = {};
};

// A queue for the test's children. The test takes part in it, so that it stays
// open whatever they do.
class SharedQueue {
 public:
  SharedQueue() : own_(TensorQueue::Create({.capacity = 8}).value()) {
    for (auto& handle : handles_) handle = own_->Share().value();
  }
  // In a child, as its `number`th participant of 3.
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

class DeviceSharingTest : public DeviceProcessTest {
 protected:
  static std::shared_ptr<DevicePool> MakePool(
      const DevicePoolOptions& options = {}) {
    absl::StatusOr<std::shared_ptr<DevicePool>> pool =
        DevicePool::Create(0, options);
    EXPECT_THAT(pool, IsOk());
    return *std::move(pool);
  }
  // With first, first + 1, ...
  static Tensor Make(DevicePool& pool, int64_t count, int64_t first) {
    absl::StatusOr<Tensor> tensor =
        pool.CreateTensor(kDtypeOf<int64_t>, {count}, Soon());
    EXPECT_THAT(tensor, IsOk());
    EXPECT_THAT(tensor->CopyFrom(Numbers(count, first)), IsOk());
    return *std::move(tensor);
  }
  static Tensor Get(TensorQueue& queue) {
    absl::StatusOr<Tensor> tensor = queue.GetTensor(Soon());
    EXPECT_THAT(tensor, IsOk());
    return *std::move(tensor);
  }

  SharedQueue queue_, back_;
  Step first_, second_;
};

TEST_F(DeviceSharingTest, AReceiverReadsAndWritesTheSameMemory) {
  ForkedChild a = Run("a", [&] {
    const auto pool = MakePool();
    const auto queue = queue_.Open(0);
    const Tensor tensor = Make(*pool, 1000, 7);
    ASSERT_THAT(queue->Put(tensor, Soon()), IsOk());
    first_.Await();
    EXPECT_TRUE(HasNumbers(tensor, 50));
    if (has_fake()) {
      EXPECT_EQ(fake_.HeldBytes(0), kPage);
    }
  });
  ForkedChild b = Run("b", [&] {
    const auto queue = queue_.Open(1);
    const Tensor tensor = Get(*queue);
    EXPECT_EQ(tensor.device().device_type, kDLCUDA);
    EXPECT_EQ(tensor.device().device_id, 0);
    EXPECT_TRUE(tensor.writable());
    EXPECT_TRUE(HasNumbers(tensor, 7));
    EXPECT_THAT(tensor.data<const int64_t>(),
                StatusIs(absl::StatusCode::kFailedPrecondition));
    ASSERT_THAT(tensor.CopyFrom(Numbers(1000, 50)), IsOk());
    first_.Reach();
  });
  EXPECT_TRUE(a.EndsWell());
  EXPECT_TRUE(b.EndsWell());
}

TEST_F(DeviceSharingTest, AReadOnlyPoolIsReadOnlyForReceivers) {
  ForkedChild a = Run("a", [&] {
    const auto pool = MakePool({.read_only_for_receivers = true});
    const auto queue = queue_.Open(0);
    ASSERT_THAT(queue->Put(Make(*pool, 10, 7), Soon()), IsOk());
    EXPECT_THAT(queue->AwaitTaken(Soon()), IsOk());
  });
  ForkedChild b = Run("b", [&] {
    const auto queue = queue_.Open(1);
    const Tensor tensor = Get(*queue);
    EXPECT_FALSE(tensor.writable());
    EXPECT_TRUE(HasNumbers(tensor, 7));
    EXPECT_THAT(tensor.CopyFrom(Numbers(10, 50)),
                StatusIs(absl::StatusCode::kFailedPrecondition));
    EXPECT_THAT(tensor.device_data<int64_t>(), Not(IsOk()));
  });
  EXPECT_TRUE(a.EndsWell());
  EXPECT_TRUE(b.EndsWell());
}

TEST_F(DeviceSharingTest, AHundredThousandSendsMakeNoDriverCall) {
  constexpr int kSends = 100'000;
  constexpr int kWarm = 5'000;
  ForkedChild a = Run("a", [&] {
    const auto pool = MakePool();
    const auto queue = queue_.Open(0);
    uint64_t before = 0;
    for (int i = 0; i < kSends; ++i) {
      if (i == kWarm) before = Calls();
      absl::StatusOr<Tensor> tensor =
          pool->CreateTensor(kDtypeOf<float>, {100}, Soon());
      ASSERT_THAT(tensor, IsOk());
      ASSERT_THAT(queue->Put(*tensor, Soon()), IsOk());
    }
    EXPECT_EQ(Calls(), before);
    EXPECT_THAT(queue->AwaitTaken(Soon()), IsOk());
    EXPECT_THAT(pool->Close(Soon()), IsOk());
  });
  ForkedChild b = Run("b", [&] {
    const auto queue = queue_.Open(1);
    uint64_t before = 0;
    for (int i = 0; i < kSends; ++i) {
      if (i == kWarm) before = Calls();
      ASSERT_THAT(queue->GetTensor(Soon()), IsOk());
    }
    EXPECT_EQ(Calls(), before);
  });
  EXPECT_TRUE(a.EndsWell());
  EXPECT_TRUE(b.EndsWell());
}

// From A over B, which clones, to C, which adds them up.
TEST_F(DeviceSharingTest, ManyTensorsPassAnotherProcess) {
  constexpr int64_t kSends = 2'000;
  ForkedChild a = Run("a", [&] {
    const auto pool = MakePool();
    const auto queue = queue_.Open(0);
    for (int64_t i = 0; i < kSends; ++i) {
      ASSERT_THAT(queue->Put(Make(*pool, 5, i), Soon()), IsOk());
    }
    EXPECT_THAT(queue->AwaitTaken(Soon()), IsOk());
  });
  ForkedChild b = Run("b", [&] {
    const auto pool = MakePool();
    const auto queue = queue_.Open(1);
    const auto back = back_.Open(1);
    for (int64_t i = 0; i < kSends; ++i) {
      absl::StatusOr<Tensor> copy =
          pool->CreateTensor(kDtypeOf<int64_t>, {5}, Soon());
      ASSERT_THAT(copy, IsOk());
      ASSERT_THAT(copy->CopyFrom(Get(*queue)), IsOk());
      ASSERT_THAT(back->Put(*copy, Soon()), IsOk());
    }
    EXPECT_THAT(back->AwaitTaken(Soon()), IsOk());
  });
  ForkedChild c = Run("c", [&] {
    const auto back = back_.Open(2);
    int64_t sum = 0;
    for (int64_t i = 0; i < kSends; ++i) {
      const absl::StatusOr<Tensor> here = Get(*back).ToCpu();
      ASSERT_THAT(here, IsOk());
      sum += here->data<const int64_t>()->front();
    }
    EXPECT_EQ(sum, kSends * (kSends - 1) / 2);
  });
  EXPECT_TRUE(a.EndsWell());
  EXPECT_TRUE(b.EndsWell());
  EXPECT_TRUE(c.EndsWell());
}

TEST_F(DeviceSharingTest, ATensorIsSentBackAndIsTheSame) {
  ForkedChild a = Run("a", [&] {
    const auto pool = MakePool();
    const auto queue = queue_.Open(0);
    const auto back = back_.Open(0);
    std::optional<Tensor> tensor = Make(*pool, 1000, 7);
    ASSERT_THAT(queue->Put(*tensor, Soon()), IsOk());
    tensor.reset();
    const Tensor returned = Get(*back);
    EXPECT_TRUE(HasNumbers(returned, 8));
    EXPECT_EQ(returned.device().device_type, kDLCUDA);
  });
  ForkedChild b = Run("b", [&] {
    const auto queue = queue_.Open(1);
    const auto back = back_.Open(1);
    {
      const Tensor tensor = Get(*queue);
      ASSERT_THAT(tensor.CopyFrom(Numbers(1000, 8)), IsOk());
      ASSERT_THAT(back->Put(tensor, Soon()), IsOk());
    }
    EXPECT_THAT(back->AwaitTaken(Soon()), IsOk());
  });
  EXPECT_TRUE(a.EndsWell());
  EXPECT_TRUE(b.EndsWell());
}

TEST_F(DeviceSharingTest, AForwardedTensorReachesTheThirdAfterItsOwnersExit) {
  ForkedChild a = Run("a", [&] {
    const auto pool = MakePool();
    const auto queue = queue_.Open(0);
    ASSERT_THAT(queue->Put(Make(*pool, 1000, 7), Soon()), IsOk());
    EXPECT_THAT(queue->AwaitTaken(Soon()), IsOk());
  });
  ForkedChild b = Run("b", [&] {
    const auto queue = queue_.Open(1);
    const auto back = back_.Open(1);
    const Tensor tensor = Get(*queue);
    first_.Await();
    EXPECT_TRUE(HasNumbers(tensor, 7));
    ASSERT_THAT(back->Put(tensor, Soon()), IsOk());
    EXPECT_THAT(back->AwaitTaken(Soon()), IsOk());
  });
  ForkedChild c = Run("c", [&] {
    const auto back = back_.Open(2);
    const Tensor tensor = Get(*back);
    second_.Await();
    EXPECT_TRUE(HasNumbers(tensor, 7));
    if (has_fake()) {
      EXPECT_EQ(fake_.HeldBytes(0), kPage);
    }
  });
  EXPECT_TRUE(a.EndsWell());
  first_.Reach();
  EXPECT_TRUE(b.EndsWell());
  second_.Reach();
  EXPECT_TRUE(c.EndsWell());
}

TEST_F(DeviceSharingTest, OneTensorTwiceAndItsViewsAreOneBlock) {
  ForkedChild a = Run("a", [&] {
    const auto pool = MakePool();
    const auto queue = queue_.Open(0);
    const Tensor tensor = Make(*pool, 1000, 0);
    ASSERT_THAT(queue->Put(tensor, Soon()), IsOk());
    ASSERT_THAT(queue->Put(tensor, Soon()), IsOk());
    const Tensor part = tensor.Slice(0, {.start = 100, .stop = 200}).value();
    ASSERT_THAT(queue->Put(part, Soon()), IsOk());
    TensorMessage both(tensor);
    both.Add(part);
    ASSERT_THAT(queue->Put(both, Soon()), IsOk());
    EXPECT_THAT(queue->AwaitTaken(Soon()), IsOk());
    EXPECT_EQ(pool->Use().blocks_in_use, 1);
  });
  ForkedChild b = Run("b", [&] {
    const auto queue = queue_.Open(1);
    const Tensor one = Get(*queue);
    const Tensor two = Get(*queue);
    EXPECT_EQ(one.device_data<const int64_t>().value(),
              two.device_data<const int64_t>().value());
    const Tensor part = Get(*queue);
    EXPECT_EQ(part.device_data<const int64_t>().value(),
              one.device_data<const int64_t>().value() + 100);
    EXPECT_TRUE(HasNumbers(part, 100));
    absl::StatusOr<TensorMessage> both = queue->Get(Soon());
    ASSERT_THAT(both, IsOk());
    EXPECT_TRUE(HasNumbers(both->tensor(0).value(), 0));
    EXPECT_TRUE(HasNumbers(both->tensor(1).value(), 100));
  });
  EXPECT_TRUE(a.EndsWell());
  EXPECT_TRUE(b.EndsWell());
}

TEST_F(DeviceSharingTest, PutAndGotInOneProcess) {
  RunAlone([&] {
    const auto pool = MakePool();
    const auto in = queue_.Open(0);
    const auto out = queue_.Open(1);
    std::optional<Tensor> tensor = Make(*pool, 1000, 7);
    ASSERT_THAT(in->Put(*tensor, Soon()), IsOk());
    const Tensor got = Get(*out);
    EXPECT_TRUE(HasNumbers(got, 7));
    ASSERT_THAT(got.CopyFrom(Numbers(1000, 9)), IsOk());
    EXPECT_TRUE(HasNumbers(*tensor, 9));
    tensor.reset();
    EXPECT_TRUE(HasNumbers(got, 9));
  });
}

TEST_F(DeviceSharingTest, AMessageMixesMemoriesAndDevices) {
  ForkedChild a = Run("a", [&] {
    const auto pool = MakePool();
    const auto queue = queue_.Open(0);
    TensorMessage message(Make(*pool, 100, 1));
    message.Add(Numbers(100, 2)).Add(int64_t{3}).Add("four");
    message.Add(Make(*pool, 100, 5));
    if (has_fake()) {
      const auto second = DevicePool::Create(1).value();
      message.Add(Make(*second, 100, 6));
    }
    ASSERT_THAT(queue->Put(message, Soon()), IsOk());
    EXPECT_THAT(queue->AwaitTaken(Soon()), IsOk());
  });
  ForkedChild b = Run("b", [&] {
    const auto queue = queue_.Open(1);
    absl::StatusOr<TensorMessage> message = queue->Get(Soon());
    ASSERT_THAT(message, IsOk());
    EXPECT_TRUE(HasNumbers(message->tensor(0).value(), 1));
    EXPECT_TRUE(message->tensor(1)->is_on_cpu());
    EXPECT_TRUE(HasNumbers(message->tensor(1).value(), 2));
    EXPECT_THAT(message->integer(2), IsOkAndHolds(3));
    EXPECT_TRUE(HasNumbers(message->tensor(4).value(), 5));
    if (!has_fake()) return;
    EXPECT_EQ(message->tensor(5)->device().device_id, 1);
    EXPECT_TRUE(HasNumbers(message->tensor(5).value(), 6));
  });
  EXPECT_TRUE(a.EndsWell());
  EXPECT_TRUE(b.EndsWell());
}

// By the addresses that the tensors have.
TEST_F(DeviceSharingTest, KernelsOfAPeerAccessWhatIsOwnedAndReceived) {
  const auto devices = [] {
    return DeviceContexts::OfProcess().value()->devices().size();
  };
  // As its kernels do.
  const auto read_on_peer = [](const Tensor& tensor) {
    const DeviceContext* const peer =
        DeviceContexts::OfProcess().value()->Get(1).value();
    int64_t first = 0;
    EXPECT_THAT(peer->Run([&] {
      return peer->Error(peer->driver().cuMemcpyDtoH_v2(
                             &first,
                             reinterpret_cast<CUdeviceptr>(
                                 tensor.device_data<const int64_t>().value()),
                             sizeof(first)),
                         "cuMemcpyDtoH");
    }),
                IsOk());
    return first;
  };
  const DLDevice zero = {kDLCUDA, 0}, one = {kDLCUDA, 1};
  ForkedChild a = Run("a", [&] {
    EXPECT_THAT(AllowPeerAccess(zero, kCpuDevice),
                StatusIs(absl::StatusCode::kInvalidArgument));
    if (devices() < 2) return;
    const absl::Status allowed = AllowPeerAccess(zero, one);
    if (absl::IsUnimplemented(allowed)) return;
    ASSERT_THAT(allowed, IsOk());
    const auto pool = MakePool();
    const auto queue = queue_.Open(0);
    const Tensor tensor = Make(*pool, 1000, 7);
    EXPECT_EQ(read_on_peer(tensor), 7);
    ASSERT_THAT(queue->Put(tensor, Soon()), IsOk());
    EXPECT_THAT(queue->AwaitTaken(Soon()), IsOk());
  });
  ForkedChild b = Run("b", [&] {
    if (devices() < 2 || !AllowPeerAccess(zero, one).ok()) return;
    const auto queue = queue_.Open(1);
    EXPECT_EQ(read_on_peer(Get(*queue)), 7);
  });
  EXPECT_TRUE(a.EndsWell());
  EXPECT_TRUE(b.EndsWell());
}

TEST_F(DeviceSharingTest, ACloneIsOfTheProcessAndFreesTheSegment) {
  ForkedChild a = Run("a", [&] {
    const auto pool = MakePool();
    const auto queue = queue_.Open(0);
    ASSERT_THAT(queue->Put(Make(*pool, 1000, 7), Soon()), IsOk());
    EXPECT_THAT(queue->AwaitTaken(Soon()), IsOk());
    first_.Await();
    EXPECT_THAT(pool->Close(Soon()), IsOk());
    second_.Reach();
  });
  ForkedChild b = Run("b", [&] {
    const auto queue = queue_.Open(1);
    std::optional<Tensor> tensor = Get(*queue);
    const absl::StatusOr<Tensor> clone = tensor->Clone();
    ASSERT_THAT(clone, IsOk());
    EXPECT_EQ(clone->device().device_type, kDLCUDA);
    const absl::StatusOr<Tensor> here = tensor->ToCpu();
    ASSERT_THAT(here, IsOk());
    tensor.reset();
    first_.Reach();
    second_.Await();
    EXPECT_THAT(queue->Trim(), IsOk());
    EXPECT_TRUE(HasNumbers(*clone, 7));
    EXPECT_TRUE(HasNumbers(*here, 7));
    if (!has_fake()) return;
    // The clone's own segment is left.
    EXPECT_TRUE(Becomes([&] { return fake_.HeldBytes(0) == kPage; }));
    const absl::StatusOr<Tensor> far = clone->To({kDLCUDA, 1});
    ASSERT_THAT(far, IsOk());
    EXPECT_EQ(far->device().device_id, 1);
    EXPECT_TRUE(HasNumbers(*far, 7));
  });
  EXPECT_TRUE(a.EndsWell());
  EXPECT_TRUE(b.EndsWell());
}

TEST_F(DeviceSharingTest, TheMemoryOfAKilledReceiverIsReused) {
  ForkedChild a = Run("a", [&] {
    const auto pool = MakePool({.quota_bytes = kPage});
    const auto queue = queue_.Open(0);
    for (int i = 0; i < 2; ++i) {
      absl::StatusOr<Tensor> half =
          pool->CreateTensor(kDtypeOf<uint8_t>, {int64_t{kPage} / 2}, Soon());
      ASSERT_THAT(half, IsOk());
      ASSERT_THAT(queue->Put(*half, Soon()), IsOk());
    }
    EXPECT_THAT(queue->AwaitTaken(Soon()), IsOk());
    EXPECT_THAT(pool->CreateTensor(kDtypeOf<uint8_t>, {1}, Deadline::Passed()),
                StatusIs(absl::StatusCode::kResourceExhausted,
                         AllOf(HasSubstr("the quota is used up"),
                               HasSubstr("2 blocks"))));
    EXPECT_EQ(pool->Holders()->size(), 1);
    const absl::Time before = absl::Now();
    first_.Reach();
    EXPECT_THAT(pool->CreateTensor(kDtypeOf<uint8_t>, {int64_t{kPage}}, Soon()),
                IsOk());
    // Kernels of the receiver may run on for a moment.
    EXPECT_GE(absl::Now() - before, absl::Milliseconds(100));
  });
  ForkedChild b = Run("b", [&] {
    const auto queue = queue_.Open(1);
    const Tensor one = Get(*queue);
    const Tensor two = Get(*queue);
    pause();
  });
  first_.Await();
  b.Kill();
  EXPECT_TRUE(a.EndsWell());
}

TEST_F(DeviceSharingTest, TheReceiverOfAKilledOwnerKeepsReadingAndForwarding) {
  ForkedChild a = Run("a", [&] {
    const auto pool = MakePool();
    const auto queue = queue_.Open(0);
    ASSERT_THAT(queue->Put(Make(*pool, 1000, 7), Soon()), IsOk());
    pause();
  });
  ForkedChild b = Run("b", [&] {
    const auto queue = queue_.Open(1);
    const auto back = back_.Open(1);
    const Tensor tensor = Get(*queue);
    first_.Reach();
    second_.Await();
    EXPECT_TRUE(HasNumbers(tensor, 7));
    ASSERT_THAT(tensor.CopyFrom(Numbers(1000, 8)), IsOk());
    ASSERT_THAT(back->Put(tensor, Soon()), IsOk());
    EXPECT_THAT(back->AwaitTaken(Soon()), IsOk());
    EXPECT_TRUE(HasNumbers(tensor, 8));
  });
  ForkedChild c = Run("c", [&] {
    const auto back = back_.Open(2);
    EXPECT_TRUE(HasNumbers(Get(*back), 8));
  });
  first_.Await();
  a.Kill();
  second_.Reach();
  EXPECT_TRUE(b.EndsWell());
  EXPECT_TRUE(c.EndsWell());
}

TEST_F(DeviceSharingTest, AReceiverWithoutTheDeviceSaysWhichItIs) {
  if (!has_fake()) GTEST_SKIP() << "selects devices of the fake driver";
  ForkedChild a = Run("a", [&] {
    const auto pool = DevicePool::Create(1).value();
    const auto queue = queue_.Open(0);
    ASSERT_THAT(queue->Put(Make(*pool, 10, 7), Soon()), IsOk());
    first_.Await();
  });
  ForkedChild b = Run(
      "b",
      [&] {
        const auto queue = queue_.Open(1);
        EXPECT_THAT(
            queue->GetTensor(Soon()),
            StatusIs(absl::StatusCode::kDataLoss,
                     AllOf(HasSubstr("fa4e0000-0000-0000-0000-000000000001"),
                           HasSubstr("this process sees 0: "))));
        first_.Reach();
      },
      "devices=1");
  EXPECT_TRUE(b.EndsWell());
  EXPECT_TRUE(a.EndsWell());
}

TEST_F(DeviceSharingTest,
       EachCallOfAnImportThatFailsIsAnErrorAndCanBeRepeated) {
  if (!has_fake()) GTEST_SKIP() << "the fake driver's calls fail";
  ForkedChild a = Run("a", [&] {
    const auto pool = MakePool();
    const auto queue = queue_.Open(0);
    const Tensor tensor = Make(*pool, 1000, 7);
    const ArenaTensorHandle handle = Describe(tensor).value();
    const ArenaOffer offer = Offer(tensor).value();
    // An importer of the same process imports like one of another.
    for (const char* const entry :
         {"cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuMemAddressReserve",
          "cuMemGetAllocationGranularity", "cuMemImportFromShareableHandle",
          "cuMemGetAllocationPropertiesFromHandle", "cuMemMap",
          "cuMemSetAccess", "cuMemRelease"}) {
      for (const CUresult error : fake_.DocumentedErrors(entry)) {
        SCOPED_TRACE(absl::StrCat(entry, " fails with ", error));
        ArenaTensorImporter importer;
        const auto accept = [&] {
          std::vector<UniqueFd> fds;
          for (const int fd : offer.fds) fds.emplace_back(dup(fd));
          return importer.Accept(offer.bytes, std::move(fds));
        };
        // Unmaps the last one's import.
        ASSERT_THAT(pool->Trim(), IsOk());
        const size_t open = CountOpenFds();
        const std::vector<std::string> held = fake_.Leaks();
        fake_.Fail(entry, 1, error);
        EXPECT_THAT(accept(), Not(IsOk()));
        fake_.StopFailing(entry);
        ASSERT_EQ(fake_.Leaks(), held);
        ASSERT_EQ(CountOpenFds(), open);
        ASSERT_THAT(accept(), IsOk());
        EXPECT_TRUE(HasNumbers(importer.Claim(handle).value(), 7));
      }
    }
  });
  EXPECT_TRUE(a.EndsWell());
}

}  // namespace
}  // namespace tenon::cuda_ipc

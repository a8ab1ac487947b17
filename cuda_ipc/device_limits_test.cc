// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Pools of devices at their limits, receivers that die, and hostile offers.

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "dlpack/dlpack.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/device_allocation.h"
#include "tenon/cuda_ipc/device_context.h"
#include "tenon/cuda_ipc/device_pool.h"
#include "tenon/cuda_ipc/device_process_testing.h"
#include "tenon/cuda_ipc/device_tensor.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/arena_options.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/arena/block_store.h"
#include "tenon/shm/arena/memory_kind_id.h"
#include "tenon/shm/arena/stored_segment.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
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

// Between the processes of a test.
class Signal {
 public:
  Signal() { EXPECT_EQ(pipe(ends_.data()), 0); }
  ~Signal() {
    for (const int end : ends_) close(end);
  }
  void Send() const { EXPECT_EQ(write(ends_[1], "s", 1), 1); }
  void Await() const {
    pollfd readable = {.fd = ends_[0], .events = POLLIN, .revents = 0};
    char signal = 0;
    ASSERT_EQ(poll(&readable, 1, 60'000), 1);
    EXPECT_EQ(read(ends_[0], &signal, 1), 1);
  }

 private:
  std::array<int, 2> ends_ = {};
};

class DeviceLimitsTest : public DeviceProcessTest {
 protected:
  static std::shared_ptr<DevicePool> MakePool(
      const DevicePoolOptions& options = {}, int device = 0) {
    absl::StatusOr<std::shared_ptr<DevicePool>> pool =
        DevicePool::Create(device, options);
    EXPECT_THAT(pool, IsOk());
    return *std::move(pool);
  }
  static Tensor Make(DevicePool& pool, int64_t count, int64_t first) {
    absl::StatusOr<Tensor> tensor =
        pool.CreateTensor(kDtypeOf<int64_t>, {count}, Soon());
    EXPECT_THAT(tensor, IsOk());
    EXPECT_THAT(tensor->CopyFrom(Numbers(count, first)), IsOk());
    return *std::move(tensor);
  }
  // For one more child.
  QueueHandle Share() { return queue_->Share().value(); }
  static std::unique_ptr<TensorQueue> Open(QueueHandle& handle) {
    absl::StatusOr<std::unique_ptr<TensorQueue>> queue =
        TensorQueue::Open(std::move(handle));
    EXPECT_THAT(queue, IsOk());
    return *std::move(queue);
  }
  // The test takes part, so that the queue stays open whatever children do.
  std::unique_ptr<TensorQueue> queue_ =
      TensorQueue::Create({.capacity = 8}).value();
};

TEST_F(DeviceLimitsTest, TensorsOfOneBlockAreAlignedAsKernelsExpect) {
  RunAlone([&] {
    const auto pool = MakePool();
    const TensorShape small = {.dtype = kDtypeOf<uint8_t>, .shape = {3}};
    const auto tensors =
        CreateTensors(*pool->arena(), {small, small, small}, Soon());
    ASSERT_THAT(tensors, IsOk());
    for (const Tensor& tensor : *tensors) {
      const auto address = reinterpret_cast<uintptr_t>(
          tensor.device_data<const uint8_t>().value());
      EXPECT_EQ(address % 256, 0);
    }
  });
}

TEST_F(DeviceLimitsTest, SizesBeyondLimitsAreRefusedWithoutAWait) {
  RunAlone([&] {
    // No segment has less than a page of the device.
    const auto small = MakePool({.quota_bytes = kPage - 1});
    const auto pool = MakePool({.quota_bytes = 2 * kPage - 1});
    const auto unlimited = MakePool({.first_segment_bytes = SIZE_MAX,
                                     .largest_segment_bytes = SIZE_MAX,
                                     .wipe = true});
    const auto make = [](DevicePool& from, int64_t bytes, Deadline deadline) {
      return from.CreateTensor(kDtypeOf<uint8_t>, {bytes}, deadline).status();
    };
    const auto is_refused = StatusIs(
        absl::StatusCode::kInvalidArgument,
        HasSubstr(absl::StrCat("in segments of multiples of ", kPage)));
    EXPECT_THAT(make(*small, 1, Soon()), is_refused);
    EXPECT_THAT(make(*pool, kPage, Soon()), IsOk());
    EXPECT_THAT(make(*pool, kPage + 1, Soon()), is_refused);
    EXPECT_THAT(make(*unlimited, 0, Deadline::Passed()), IsOk());
    EXPECT_THAT(make(*unlimited, int64_t{1} << 46, Deadline::Passed()),
                StatusIs(absl::StatusCode::kResourceExhausted));
    for (const int64_t bytes : {(int64_t{1} << 47) + 1, INT64_MAX}) {
      EXPECT_THAT(make(*unlimited, bytes, Soon()),
                  StatusIs(absl::StatusCode::kInvalidArgument));
    }
    EXPECT_THAT(make(*unlimited, 1, Deadline::Passed()), IsOk());
  });
}

// Memory of the device may be free a moment later.
TEST_F(DeviceLimitsTest, AReceiverOnAFullDeviceCanTryAgain) {
  if (!has_fake()) GTEST_SKIP() << "the fake driver's calls fail";
  QueueHandle of_a = Share();
  QueueHandle of_b = Share();
  ForkedChild a = Run("a", [&] {
    const auto pool = MakePool();
    const auto queue = Open(of_a);
    ASSERT_THAT(queue->Put(Make(*pool, 1000, 7), Soon()), IsOk());
    EXPECT_THAT(queue->AwaitTaken(Soon()), IsOk());
  });
  ForkedChild b = Run("b", [&] {
    const auto queue = Open(of_b);
    for (const char* const entry : {"cuDevicePrimaryCtxRetain", "cuMemMap"}) {
      fake_.Fail(entry, 1, CUDA_ERROR_OUT_OF_MEMORY);
      EXPECT_THAT(queue->GetTensor(Soon()),
                  StatusIs(absl::StatusCode::kResourceExhausted,
                           HasSubstr("out of memory")))
          << entry;
      fake_.StopFailing(entry);
    }
    const absl::StatusOr<Tensor> tensor = queue->GetTensor(Soon());
    ASSERT_THAT(tensor, IsOk());
    EXPECT_TRUE(HasNumbers(*tensor, 7));
  });
  EXPECT_TRUE(b.EndsWell());
  EXPECT_TRUE(a.EndsWell());
}

TEST_F(DeviceLimitsTest, AProcessThatCanStartNoThreadIsRefused) {
  RunAlone([&] {
    const auto pool = MakePool();
    const size_t fds = CountOpenFds();
    // No stack of a thread has this size.
    pthread_attr_t usual, too_large;
    ASSERT_EQ(pthread_getattr_default_np(&usual), 0);
    ASSERT_EQ(pthread_attr_init(&too_large), 0);
    ASSERT_EQ(pthread_attr_setstacksize(&too_large, size_t{1} << 47), 0);
    ASSERT_EQ(pthread_setattr_default_np(&too_large), 0);
    const auto make = [&] {
      return pool->CreateTensor(kDtypeOf<int64_t>, {10}, Deadline::Passed());
    };
    EXPECT_THAT(make(), StatusIs(absl::StatusCode::kResourceExhausted,
                                 HasSubstr("pthread_create")));
    EXPECT_EQ(CountOpenFds(), fds);
    ASSERT_EQ(pthread_setattr_default_np(&usual), 0);
    EXPECT_THAT(make(), IsOk());
  });
}

TEST_F(DeviceLimitsTest, CloseTellsWhatIsQuarantined) {
  const Signal received, killed;
  QueueHandle of_a = Share();
  QueueHandle of_b = Share();
  ForkedChild a = Run("a", [&] {
    const auto pool = MakePool();
    const auto queue = Open(of_a);
    ASSERT_THAT(queue->Put(Make(*pool, 1000, 7), Soon()), IsOk());
    EXPECT_THAT(queue->AwaitTaken(Soon()), IsOk());
    killed.Await();
    EXPECT_THAT(pool->Close(Deadline::Passed()),
                StatusIs(absl::StatusCode::kDeadlineExceeded,
                         AllOf(HasSubstr("held by no process"),
                               HasSubstr("1 blocks of processes that have "
                                         "ended are quarantined"))));
  });
  ForkedChild b = Run("b", [&] {
    const auto queue = Open(of_b);
    const absl::StatusOr<Tensor> tensor = queue->GetTensor(Soon());
    received.Send();
    pause();
  });
  received.Await();
  b.Kill();
  killed.Send();
  EXPECT_TRUE(a.EndsWell());
}

TEST_F(DeviceLimitsTest, ManyReceiversThatDieCostNothing) {
  constexpr int kDeaths = 25;
  const Signal put, received, killed;
  QueueHandle of_a = Share();
  ForkedChild a = Run("a", [&] {
    const auto pool = MakePool({.quota_bytes = 2 * kPage});
    const auto queue = Open(of_a);
    size_t fds = 0;
    for (int i = 0; i < kDeaths; ++i) {
      // Two of the four blocks that there are.
      for (int64_t block = 0; block < 2; ++block) {
        const Tensor half = Make(*pool, kPage / 2 / 8, i + block);
        ASSERT_THAT(queue->Put(half, Soon()), IsOk());
      }
      put.Send();
      killed.Await();
      if (i == 2) fds = CountOpenFds();
    }
    EXPECT_LE(CountOpenFds(), fds + 4);
    EXPECT_THAT(queue->AwaitTaken(Soon()), IsOk());
    EXPECT_THAT(queue->Trim(), IsOk());
    EXPECT_TRUE(Becomes([&] {
      pool->Trim().IgnoreError();
      return pool->Use().segments == 0;
    }));
    EXPECT_EQ(pool->Use().blocks_quarantined, 0);
    EXPECT_EQ(pool->Use().attached, 0);
    EXPECT_THAT(pool->Close(Deadline::Passed()), IsOk());
    if (has_fake()) {
      EXPECT_EQ(fake_.HeldBytes(0), 0);
    }
  });
  for (int i = 0; i < kDeaths; ++i) {
    QueueHandle of_b = Share();
    put.Await();
    ForkedChild b = Run("b", [&] {
      const auto queue = Open(of_b);
      const absl::StatusOr<Tensor> first = queue->GetTensor(Soon());
      const absl::StatusOr<Tensor> second = queue->GetTensor(Soon());
      ASSERT_THAT(second, IsOk());
      EXPECT_TRUE(HasNumbers(*first, i));
      EXPECT_TRUE(HasNumbers(*second, i + 1));
      received.Send();
      pause();
    });
    received.Await();
    b.Kill();
    killed.Send();
  }
  EXPECT_TRUE(a.EndsWell());
}

TEST_F(DeviceLimitsTest, ALongLifeLeavesNothing) {
  constexpr int kTensors = 10'000;
  constexpr size_t kLive = 50;
  RunAlone([&] {
    const auto pool = MakePool();
    std::mt19937 random(7);
    std::vector<Tensor> live(kLive);
    size_t fds = 0;
    for (int i = 0; i < kTensors; ++i) {
      const int64_t count = std::uniform_int_distribution<int64_t>(
          0, int64_t{1} << (random() % 17))(random);
      Tensor& tensor = live[random() % kLive];
      tensor = *pool->CreateTensor(kDtypeOf<int64_t>, {count}, Soon());
      // A copy in memory of the process; on the other device of the fake.
      if (i % 20 == 0 && count < 1000) {
        ASSERT_THAT(tensor.CopyFrom(Numbers(count, i)), IsOk());
        tensor = *tensor.To({kDLCUDA, has_fake() ? 1 : 0});
        EXPECT_TRUE(HasNumbers(tensor, i));
      }
      if (i % 1000 == 999) {
        ASSERT_THAT(pool->Trim(), IsOk());
        ASSERT_THAT(TrimDeviceTensors(), IsOk());
      }
      if (i == kTensors / 10) fds = CountOpenFds();
    }
    EXPECT_LE(CountOpenFds(), fds + 20);
    live.clear();
    EXPECT_THAT(pool->Close(Deadline::Passed()), IsOk());
    EXPECT_THAT(TrimDeviceTensors(), IsOk());
    if (has_fake()) {
      EXPECT_EQ(fake_.HeldBytes(0) + fake_.HeldBytes(1), 0);
    }
  });
}

// Its thread may unmap memory meanwhile, and the last tensors are dropped by
// destructors of static variables.
TEST_F(DeviceLimitsTest, AProcessMayExitWithTensors) {
  constexpr int kExits = 10;
  for (int i = 0; i < kExits; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      if (has_fake()) {
        fake_.Reset(machine_);
        fake_.SetEnvironment();
      }
      static std::vector<Tensor> until_exit;
      const auto pool = MakePool();
      for (int64_t size : {10, 10'000, 1'000'000}) {
        until_exit.push_back(Make(*pool, size, 1));
        until_exit.push_back(*until_exit.back().Clone());
      }
      until_exit.erase(until_exit.begin() + 2);
      pool->Close(Deadline::Passed()).IgnoreError();
      std::thread([] { until_exit.pop_back(); }).join();
      exit(HasFailure() ? 1 : 0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
  }
}

TEST_F(DeviceLimitsTest, ADeviceHasItsNumberOfEachProcess) {
  if (!has_fake()) GTEST_SKIP() << "selects devices of the fake driver";
  std::unique_ptr<TensorQueue> on =
      TensorQueue::Create({.capacity = 8}).value();
  QueueHandle of_a = Share();
  QueueHandle of_b = Share();
  QueueHandle from_b = on->Share().value();
  QueueHandle of_c = on->Share().value();
  ForkedChild a = Run("a", [&] {
    const auto pool = MakePool({}, 1);
    const auto queue = Open(of_a);
    ASSERT_THAT(queue->Put(Make(*pool, 1000, 7), Soon()), IsOk());
    EXPECT_THAT(queue->AwaitTaken(Soon()), IsOk());
  });
  setenv("CUDA_VISIBLE_DEVICES", "1,0", 1);
  ForkedChild b = Run("b", [&] {
    const auto queue = Open(of_b);
    const auto next = Open(from_b);
    const absl::StatusOr<Tensor> tensor = queue->GetTensor(Soon());
    ASSERT_THAT(tensor, IsOk());
    EXPECT_EQ(tensor->device().device_id, 0);
    EXPECT_TRUE(HasNumbers(*tensor, 7));
    const absl::StatusOr<Tensor> there = tensor->To({kDLCUDA, 1});
    ASSERT_THAT(there, IsOk());
    ASSERT_THAT(next->Put(*tensor, Soon()), IsOk());
    ASSERT_THAT(next->Put(*there, Soon()), IsOk());
    EXPECT_THAT(next->AwaitTaken(Soon()), IsOk());
  });
  unsetenv("CUDA_VISIBLE_DEVICES");
  ForkedChild c = Run("c", [&] {
    const auto queue = Open(of_c);
    for (const int device : {1, 0}) {
      const absl::StatusOr<Tensor> tensor = queue->GetTensor(Soon());
      ASSERT_THAT(tensor, IsOk());
      EXPECT_EQ(tensor->device().device_id, device);
      EXPECT_TRUE(HasNumbers(*tensor, 7));
    }
  });
  EXPECT_TRUE(a.EndsWell());
  EXPECT_TRUE(b.EndsWell());
  EXPECT_TRUE(c.EndsWell());
}

// ---- Hostile offers ----

// Of an owner that lists `bytes` on the device of `claimed`; the descriptor is
// `make`'s.
class HostileStore final : public BlockStore {
 public:
  HostileStore(const DeviceContext& claimed, size_t bytes,
               std::function<UniqueFd()> make)
      : BlockStore({.kind = MemoryKindId::kCuda,
                    .identity = claimed.device().uuid,
                    .device = {kDLCUDA, claimed.device().ordinal},
                    .segment_unit = bytes}),
        make_(std::move(make)) {}

  absl::StatusOr<std::unique_ptr<StoredSegment>> Create(size_t bytes) override {
    return std::make_unique<Segment>(bytes, make_());
  }

 private:
  class Segment final : public StoredSegment {
   public:
    Segment(size_t bytes, UniqueFd fd)
        // No process accesses the address.
        : StoredSegment(bytes, reinterpret_cast<std::byte*>(kPage)),
          fd_(std::move(fd)) {}
    int fd() const override { return fd_.get(); }

   private:
    const UniqueFd fd_;
  };

  const std::function<UniqueFd()> make_;
};

class DeviceOfferTest : public DeviceLimitsTest {
 protected:
  static absl::Status Accept(const ArenaOffer& offer) {
    std::vector<UniqueFd> fds;
    for (const int fd : offer.fds) fds.emplace_back(dup(fd));
    ArenaTensorImporter importer;
    return importer.Accept(offer.bytes, std::move(fds));
  }
  static UniqueFd PlainMemory(size_t bytes) {
    UniqueFd fd(memfd_create("plain", MFD_CLOEXEC));
    EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
    return fd;
  }
};

TEST_F(DeviceOfferTest, AnOwnerThatListsOtherMemoryIsRefused) {
  if (!has_fake()) GTEST_SKIP() << "the machine's driver rejects what it knows";
  RunAlone([&] {
    DeviceContexts& devices = **DeviceContexts::OfProcess();
    const DeviceContext& gpu = **devices.Get(0);
    const DeviceContext& other = **devices.Get(1);
    const auto allocate = [&](size_t bytes) {
      const DeviceAllocation made = *DeviceAllocation::Create(gpu, bytes);
      return UniqueFd(dup(made.fd()));
    };
    struct Hostile {
      const char* what;
      const DeviceContext& claimed;
      size_t bytes;
      std::function<UniqueFd()> make;
    };
    for (const Hostile& offered : std::vector<Hostile>{
             {"another device", other, kPage, [&] { return allocate(kPage); }},
             {"too small", gpu, 2 * kPage, [&] { return allocate(kPage); }},
             {"not of a device", gpu, kPage, [] { return PlainMemory(kPage); }},
             {"a pipe", gpu, kPage,
              [] {
                int ends[2];
                EXPECT_EQ(pipe(ends), 0);
                close(ends[1]);
                return UniqueFd(ends[0]);
              }},
         }) {
      SCOPED_TRACE(offered.what);
      const std::vector<std::string> held = fake_.Leaks();
      const size_t fds = CountOpenFds();
      {
        ArenaOptions options;
        options.segment_bytes = offered.bytes;
        absl::StatusOr<std::shared_ptr<Arena>> arena = Arena::Create(
            options, std::make_unique<HostileStore>(
                         offered.claimed, offered.bytes, offered.make));
        ASSERT_THAT(arena, IsOk());
        const absl::StatusOr<Tensor> tensor =
            CreateTensor(**arena, kDtypeOf<uint8_t>, {10}, Soon());
        ASSERT_THAT(tensor, IsOk());
        const ArenaOffer offer = *Offer(*tensor);
        const size_t open = CountOpenFds();
        EXPECT_THAT(Accept(offer),
                    StatusIs(absl::StatusCode::kInvalidArgument));
        EXPECT_EQ(CountOpenFds(), open);
      }
      EXPECT_EQ(fake_.Leaks(), held);
      EXPECT_EQ(CountOpenFds(), fds);
      EXPECT_EQ(fake_.HeldBytes(0) + fake_.HeldBytes(1), 0);
    }
  });
}

// A forwarder may send any descriptors with an offer of an honest owner.
TEST_F(DeviceOfferTest, AnOfferWithOtherDescriptorsIsRefused) {
  if (!has_fake()) {
    GTEST_SKIP() << "descriptors of the machine's driver may be of one inode";
  }
  RunAlone([&] {
    const auto pool = MakePool();
    const auto others = MakePool({}, 1);
    const Tensor tensor = Make(*pool, 10, 7);
    const Tensor larger = Make(*pool, kPage / 8, 7);  // In another segment.
    const Tensor elsewhere = Make(*others, 10, 7);
    const ArenaOffer honest = *Offer(tensor);
    const ArenaOffer of_segment = *Offer(larger);
    const ArenaOffer of_device = *Offer(elsewhere);
    const UniqueFd plain = PlainMemory(kPage);
    const std::vector<std::string> held = fake_.Leaks();
    const size_t fds = CountOpenFds();
    for (size_t i = 0; i < honest.fds.size(); ++i) {
      for (const int fd : {of_segment.fds[2], of_device.fds[0],
                           of_device.fds[1], of_device.fds[2], plain.get()}) {
        SCOPED_TRACE(absl::StrCat("descriptor ", i));
        ArenaOffer exchanged = honest;
        exchanged.fds[i] = fd;
        EXPECT_THAT(Accept(exchanged), Not(IsOk()));
        EXPECT_EQ(CountOpenFds(), fds);
        EXPECT_EQ(fake_.Leaks(), held);
      }
    }
    EXPECT_THAT(Accept(honest), IsOk());
    EXPECT_TRUE(HasNumbers(tensor, 7));
  });
}

}  // namespace
}  // namespace tenon::cuda_ipc

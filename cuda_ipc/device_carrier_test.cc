// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Tensors of devices and of the CPU through each carrier between processes that
// run already; arguments and results of started processes are in
// device_spawn_test.cc.

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/device_mixed_testing.h"
#include "tenon/cuda_ipc/device_pool.h"
#include "tenon/cuda_ipc/device_process_testing.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/ring/ring.h"
#include "tenon/ipc/ring/ring_channel.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/base/message.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::cuda_ipc {
namespace {

enum class Carrier {
  kQueue,    // A TensorQueue, each tensor alone.
  kMessage,  // A TensorQueue, all in one message.
  kRing,     // Handles as records of a ring; offers through a channel.
  kChannel,  // Handle and offer of each in a message of a channel.
};

using HandleBytes = std::array<std::byte, sizeof(ArenaTensorHandle)>;

// A message with the handle and the offer of a tensor.
absl::Status SendTensor(Channel& channel, const Tensor& tensor) {
  TENON_ASSIGN_OR_RETURN(const ArenaTensorHandle handle, Describe(tensor));
  TENON_ASSIGN_OR_RETURN(const ArenaOffer offer, Offer(tensor));
  std::string bytes(sizeof(handle), '\0');
  memcpy(bytes.data(), &handle, sizeof(handle));
  return channel.Send(absl::StrCat(bytes, offer.bytes), offer.fds, Soon());
}

// Accepts the offer, and returns the handle.
absl::StatusOr<ArenaTensorHandle> TakeTensor(Channel& channel,
                                             ArenaTensorImporter& importer) {
  TENON_ASSIGN_OR_RETURN(Message message, channel.Receive(Soon()));
  ArenaTensorHandle handle = {};
  if (message.bytes.size() < sizeof(handle)) {
    return absl::DataLossError("a short message");
  }
  memcpy(&handle, message.bytes.data(), sizeof(handle));
  TENON_RETURN_IF_ERROR(
      importer.Accept(absl::string_view(message.bytes).substr(sizeof(handle)),
                      std::move(message.fds)));
  return handle;
}

// From one process to another, both of which the test forks later.
class Hop {
 public:
  explicit Hop(Carrier carrier) : carrier_(carrier) {
    if (IsQueue()) {
      queue_ = TensorQueue::Create({.capacity = 8}).value();
      for (auto& handle : handles_) handle = queue_->Share().value();
      return;
    }
    auto ends = Channel::CreatePair().value();
    fds_ = {ends.first.Release(), ends.second.Release()};
  }

  // In the sender; returns when the receiver has all.
  absl::Status Send(const std::vector<Tensor>& tensors) {
    if (IsQueue()) return PutAll(tensors);
    Channel channel = ChannelOf(0);
    if (carrier_ == Carrier::kRing) return PutHandles(tensors, channel);
    for (const Tensor& tensor : tensors) {
      TENON_RETURN_IF_ERROR(SendTensor(channel, tensor));
    }
    return channel.Receive(Soon()).status();
  }

  // In the receiver.
  absl::StatusOr<std::vector<Tensor>> Receive() {
    if (IsQueue()) return GetAll();
    Channel channel = ChannelOf(1);
    if (carrier_ == Carrier::kRing) return GetHandles(channel);
    std::vector<Tensor> tensors;
    while (tensors.size() < kMixed) {
      TENON_ASSIGN_OR_RETURN(const ArenaTensorHandle handle,
                             TakeTensor(channel, importer()));
      TENON_ASSIGN_OR_RETURN(tensors.emplace_back(), importer().Claim(handle));
    }
    TENON_RETURN_IF_ERROR(channel.Send("all claimed", {}, Soon()));
    return tensors;
  }

 private:
  bool IsQueue() const {
    return carrier_ == Carrier::kQueue || carrier_ == Carrier::kMessage;
  }
  Channel ChannelOf(size_t end) {
    return Channel::AdoptReleased(std::move(fds_[end]),
                                  {.allow_sockets = true});
  }

  absl::Status PutAll(const std::vector<Tensor>& tensors) {
    TENON_ASSIGN_OR_RETURN(open_, TensorQueue::Open(*std::move(handles_[0])));
    TensorMessage message;
    for (const Tensor& tensor : tensors) {
      if (carrier_ == Carrier::kMessage) {
        message.Add(tensor);
      } else {
        TENON_RETURN_IF_ERROR(open_->Put(tensor, Soon()));
      }
    }
    if (carrier_ == Carrier::kMessage) {
      TENON_RETURN_IF_ERROR(open_->Put(message, Soon()));
    }
    return open_->AwaitTaken(Soon());
  }
  absl::StatusOr<std::vector<Tensor>> GetAll() {
    TENON_ASSIGN_OR_RETURN(open_, TensorQueue::Open(*std::move(handles_[1])));
    std::vector<Tensor> tensors;
    if (carrier_ == Carrier::kQueue) {
      while (tensors.size() < kMixed) {
        TENON_ASSIGN_OR_RETURN(tensors.emplace_back(),
                               open_->GetTensor(Soon()));
      }
      return tensors;
    }
    TENON_ASSIGN_OR_RETURN(const TensorMessage message, open_->Get(Soon()));
    for (size_t i = 0; i < message.size(); ++i) {
      TENON_ASSIGN_OR_RETURN(tensors.emplace_back(), message.tensor(i));
    }
    return tensors;
  }

  absl::Status PutHandles(const std::vector<Tensor>& tensors,
                          Channel& channel) {
    TENON_ASSIGN_OR_RETURN(
        const auto ring,
        RingProducer::Create({.record_bytes = sizeof(ArenaTensorHandle)}));
    TENON_RETURN_IF_ERROR(AddRingReader(*ring, channel, Soon()).status());
    for (const Tensor& tensor : tensors) {
      TENON_RETURN_IF_ERROR(SendTensor(channel, tensor));
      TENON_ASSIGN_OR_RETURN(const ArenaTensorHandle handle, Describe(tensor));
      TENON_RETURN_IF_ERROR(
          ring->Put(std::as_bytes(std::span(&handle, 1)), Soon()));
    }
    const bool claimed =
        Becomes([&] { return ring->acknowledged() == tensors.size(); });
    return claimed ? absl::OkStatus()
                   : absl::DeadlineExceededError("records are left");
  }
  absl::StatusOr<std::vector<Tensor>> GetHandles(Channel& channel) {
    TENON_ASSIGN_OR_RETURN(const auto ring, JoinRing(channel, Soon()));
    std::vector<Tensor> tensors;
    while (tensors.size() < kMixed) {
      // The offer; the handle is the ring's.
      TENON_RETURN_IF_ERROR(TakeTensor(channel, importer()).status());
      HandleBytes record;
      TENON_RETURN_IF_ERROR(ring->Peek(record, Soon()).status());
      ArenaTensorHandle handle;
      memcpy(&handle, record.data(), sizeof(handle));
      TENON_ASSIGN_OR_RETURN(tensors.emplace_back(), importer().Claim(handle));
      TENON_RETURN_IF_ERROR(ring->Advance(1));
    }
    return tensors;
  }

  // Made in the child.
  ArenaTensorImporter& importer() {
    if (importer_ == nullptr) {
      importer_ = std::make_unique<ArenaTensorImporter>();
    }
    return *importer_;
  }

  const Carrier carrier_;
  // Of the test.
  std::unique_ptr<TensorQueue> queue_;
  std::array<std::optional<QueueHandle>, 2> handles_;
  std::array<UniqueFd, 2> fds_;
  // Of a child.
  std::unique_ptr<TensorQueue> open_;
  std::unique_ptr<ArenaTensorImporter> importer_;
};

// "The other process has come so far."
class Signal {
 public:
  Signal() { EXPECT_EQ(pipe(ends_.data()), 0); }
  ~Signal() {
    for (const int end : ends_) close(end);
  }
  void Give() const { EXPECT_EQ(write(ends_[1], "s", 1), 1); }
  void Await() const {
    pollfd readable = {.fd = ends_[0], .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&readable, 1, 60'000), 1);
  }

 private:
  std::array<int, 2> ends_ = {};
};

class DeviceCarrierTest : public DeviceProcessTest {
 protected:
  static std::vector<Tensor> Make(Arena& arena, DevicePool& pool) {
    absl::StatusOr<std::vector<Tensor>> tensors = MakeMixed(arena, pool, 7);
    EXPECT_THAT(tensors, IsOk());
    return *std::move(tensors);
  }
};

class EachCarrierTest : public DeviceCarrierTest,
                        public ::testing::WithParamInterface<Carrier> {};

// The memory is A's; B, C and D have it by way of each other.
TEST_P(EachCarrierTest, AChainOfFourOutlivesItsFirstProcess) {
  std::array<Hop, 3> hops = {Hop(GetParam()), Hop(GetParam()), Hop(GetParam())};
  const Signal received, killed, changed;
  ForkedChild a = Run("a", [&] {
    const auto arena = Arena::Create({}).value();
    const auto pool = DevicePool::Create(0).value();
    const std::vector<Tensor> tensors = Make(*arena, *pool);
    EXPECT_THAT(hops[0].Send(tensors), IsOk());
    pause();
  });
  ForkedChild b = Run("b", [&] {
    TENON_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> tensors,
                               hops[0].Receive());
    EXPECT_THAT(CheckMixed(tensors, 7), IsOk());
    received.Give();
    killed.Await();
    EXPECT_THAT(CheckMixed(tensors, 7), IsOk());
    ASSERT_THAT(hops[1].Send(tensors), IsOk());
    changed.Await();
    EXPECT_TRUE(HasNumbers(tensors[1], 50));
  });
  ForkedChild c = Run("c", [&] {
    TENON_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> tensors,
                               hops[1].Receive());
    EXPECT_THAT(CheckMixed(tensors, 7), IsOk());
    // It passes them on and is gone.
    ASSERT_THAT(hops[2].Send(tensors), IsOk());
  });
  ForkedChild d = Run("d", [&] {
    TENON_ASSERT_OK_AND_ASSIGN(const std::vector<Tensor> tensors,
                               hops[2].Receive());
    EXPECT_THAT(CheckMixed(tensors, 7), IsOk());
    EXPECT_THAT(tensors[1].CopyFrom(Numbers(kMixedCount, 50)), IsOk());
    changed.Give();
  });
  received.Await();
  EXPECT_TRUE(a.report().failures.empty());
  a.Kill();
  killed.Give();
  EXPECT_TRUE(d.EndsWell());
  EXPECT_TRUE(c.EndsWell());
  EXPECT_TRUE(b.EndsWell());
}

INSTANTIATE_TEST_SUITE_P(All, EachCarrierTest,
                         ::testing::Values(Carrier::kQueue, Carrier::kMessage,
                                           Carrier::kRing, Carrier::kChannel),
                         [](const ::testing::TestParamInfo<Carrier>& carrier)
                             -> std::string {
                           switch (carrier.param) {
                             case Carrier::kQueue:
                               return "Queue";
                             case Carrier::kMessage:
                               return "Message";
                             case Carrier::kRing:
                               return "Ring";
                             case Carrier::kChannel:
                               return "Channel";
                           }
                           return "";
                         });

TEST_F(DeviceCarrierTest, AHandleOfAFormerTensorOfTheBlockIsRefused) {
  constexpr int64_t kCount = kPage / sizeof(int64_t);
  auto ends = Channel::CreatePair().value();
  std::array<UniqueFd, 2> fds = {ends.first.Release(), ends.second.Release()};
  ForkedChild a = Run("a", [&] {
    Channel channel = Channel::AdoptReleased(std::move(fds[0]));
    // With room for one block.
    const auto pool = DevicePool::Create(0, {.quota_bytes = kPage}).value();
    const auto make = [&](int64_t first) {
      Tensor tensor =
          pool->CreateTensor(kDtypeOf<int64_t>, {kCount}, Soon()).value();
      EXPECT_THAT(tensor.CopyFrom(Numbers(kCount, first)), IsOk());
      return tensor;
    };
    std::optional<Tensor> former = make(1);
    const int64_t* const address = former->device_data<const int64_t>().value();
    ASSERT_THAT(SendTensor(channel, *former), IsOk());
    ASSERT_THAT(channel.Receive(Soon()), IsOk());
    // It was not claimed.
    former.reset();
    const Tensor tensor = make(2);
    ASSERT_EQ(tensor.device_data<const int64_t>().value(), address);
    ASSERT_THAT(SendTensor(channel, tensor), IsOk());
    ASSERT_THAT(channel.Receive(Soon()), IsOk());
  });
  ForkedChild b = Run("b", [&] {
    Channel channel =
        Channel::AdoptReleased(std::move(fds[1]), {.allow_sockets = true});
    ArenaTensorImporter importer;
    TENON_ASSERT_OK_AND_ASSIGN(const ArenaTensorHandle former,
                               TakeTensor(channel, importer));
    ASSERT_THAT(channel.Send("accepted", {}, Soon()), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(const ArenaTensorHandle now,
                               TakeTensor(channel, importer));
    EXPECT_EQ(former.block.block, now.block.block);
    EXPECT_LT(former.block.generation, now.block.generation);
    EXPECT_THAT(importer.Claim(former), StatusIs(absl::StatusCode::kDataLoss));
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor, importer.Claim(now));
    EXPECT_TRUE(HasNumbers(tensor, 2));
    // Also when the block is held.
    EXPECT_THAT(importer.Claim(former), StatusIs(absl::StatusCode::kDataLoss));
    ASSERT_THAT(channel.Send("done", {}, Soon()), IsOk());
  });
  EXPECT_TRUE(a.EndsWell());
  EXPECT_TRUE(b.EndsWell());
}

}  // namespace
}  // namespace tenon::cuda_ipc

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Tensors of device arenas in messages, beside those of the CPU.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel_testing.h"
#include "tenon/ipc/queue/fd_board.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/tensor_codec/tensor_decoder.h"
#include "tenon/ipc/tensor_codec/tensor_encoder.h"
#include "tenon/ipc/tensor_codec/tensor_fds.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/ipc/tensor_codec/tensor_wire.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/arena/block_descriptor.h"
#include "tenon/shm/arena/device_arena_testing.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/tensor/device.h"
#include "tenon/shm/tensor/device_testing.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

// Eight floats on device 0.
Tensor OnDevice(Arena& arena, float value) {
  const Tensor here = Tensor::Create(kDtypeOf<float>, {8}).value();
  EXPECT_THAT(here.Fill(value), IsOk());
  const Tensor tensor =
      CreateTensor(arena, kDtypeOf<float>, {8}, Deadline::Passed()).value();
  EXPECT_THAT(tensor.CopyFrom(here), IsOk());
  return tensor;
}

void ExpectOnDevice(const Tensor& tensor, float value) {
  EXPECT_TRUE(SameDevice(tensor.device(), TestDevices::Get().device(0)));
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor here, tensor.ToCpu());
  TENON_ASSERT_OK_AND_ASSIGN(const auto elements, here.data<const float>());
  for (const float element : elements) ASSERT_EQ(element, value);
}

// There, in a message with a private tensor of the CPU, and back.
TEST(DeviceMessageTest, TravelsBesideTensorsOfTheCpu) {
  constexpr int kRounds = 5;
  const auto arena = CreateDeviceArena(0).value();
  const auto there = TensorQueue::Create({.capacity = 2}).value();
  const auto back = TensorQueue::Create({.capacity = 2}).value();
  QueueHandle theirs = there->Share().value(), ours = back->Share().value();
  const pid_t child = StartChild([&] {
    const auto in = TensorQueue::Open(std::move(theirs)).value();
    const auto out = TensorQueue::Open(std::move(ours)).value();
    for (int i = 0; i < kRounds; ++i) {
      TENON_ASSERT_OK_AND_ASSIGN(const auto message, in->Get(Watchdog()));
      TENON_ASSERT_OK_AND_ASSIGN(const Tensor on_device, message.tensor(0));
      TENON_ASSERT_OK_AND_ASSIGN(const Tensor of_cpu, message.tensor(1));
      ExpectOnDevice(on_device, static_cast<float>(i));
      EXPECT_TRUE(of_cpu.is_on_cpu());
      EXPECT_EQ(*of_cpu.at<const float>({3}).value(), -1);
      EXPECT_THAT(message.integer(2), IsOkAndHolds(i));
      ASSERT_THAT(out->Put(on_device, Watchdog()), IsOk());
    }
    EXPECT_THAT(out->AwaitTaken(Watchdog()), IsOk());
  });
  const Tensor of_cpu = Tensor::Create(kDtypeOf<float>, {8}).value();
  ASSERT_THAT(of_cpu.Fill(-1.0f), IsOk());
  for (int i = 0; i < kRounds; ++i) {
    const Tensor tensor = OnDevice(*arena, static_cast<float>(i));
    ASSERT_THAT(
        there->Put(TensorMessage(tensor).Add(of_cpu).Add(i), Watchdog()),
        IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(const auto message, back->Get(Watchdog()));
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor got, message.tensor(0));
    ExpectOnDevice(got, static_cast<float>(i));
  }
  EXPECT_EQ(ExitCodeOf(child), 0);
}

// A queue whose tensors are on a device has its messages on the CPU.
TEST(DeviceMessageTest, TheArenaOfAQueueMayBeOnADevice) {
  const auto arena = CreateDeviceArena(0).value();
  const auto out =
      TensorQueue::Create({.capacity = 2}, {.arena = arena}).value();
  const auto in = TensorQueue::Open(out->Share().value()).value();
  TENON_ASSERT_OK_AND_ASSIGN(
      const Tensor tensor, out->CreateTensor(kDtypeOf<float>, {8}, Watchdog()));
  EXPECT_FALSE(tensor.is_on_cpu());
  // Too large for a record, and with a tensor to copy.
  const Tensor of_cpu = Tensor::Create(kDtypeOf<float>, {8}).value();
  ASSERT_THAT(of_cpu.Fill(-1.0f), IsOk());
  const std::string text(10'000, 'x');
  ASSERT_THAT(out->Put(TensorMessage(tensor).Add(of_cpu).Add(text), Watchdog()),
              IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const auto message, in->Get(Watchdog()));
  EXPECT_FALSE(message.tensor(0).value().is_on_cpu());
  EXPECT_EQ(*message.tensor(1).value().at<const float>({7}).value(), -1);
  EXPECT_THAT(message.string(2), IsOkAndHolds(text));
}

// A hostile sender says that a message is in a block of a device.
TEST(DeviceMessageTest, ABodyOnADeviceIsAnError) {
  const auto arena = CreateDeviceArena(0).value();
  const Tensor tensor = OnDevice(*arena, 1);
  FdBoard board = FdBoard::Create().value();
  auto published = PublishedTensorFds::On(
      [&](absl::string_view bytes, absl::Span<const int> fds) {
        return board.Publish(bytes, fds);
      });
  TensorEncoder encoder(*std::move(published), nullptr, "codec");
  std::vector<std::byte> record(128);
  ASSERT_THAT(
      encoder.Encode(TensorMessage(tensor), 1, 0, Deadline::Passed(), record),
      IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const BlockDescriptor block,
                             DescribeBlock(tensor));
  WriteBlockRecord(block, 32, record);
  const auto take = [&] { return board.Read(); };
  std::optional<ReceivedTensorFds> item;
  TensorSource source(take, &item);
  TensorMessage message;
  EXPECT_THAT(TensorDecoder({}, {}).Decode(record, source, &message),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("which the CPU cannot access")));
}

}  // namespace
}  // namespace tenon

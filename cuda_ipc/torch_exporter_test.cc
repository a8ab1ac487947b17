// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Tensors for a process that receives them as torch does. The receiver here is
// FromTorch(), since torch needs a GPU for that; torch_test.cc has what can be
// tested with torch on the CPU.

#include "tenon/cuda_ipc/torch_exporter.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/device_loan_testing.h"
#include "tenon/cuda_ipc/device_process_testing.h"
#include "tenon/cuda_ipc/device_tensor.h"
#include "tenon/cuda_ipc/internal/torch_counter.h"
#include "tenon/cuda_ipc/torch_tensor.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_spec.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::cuda_ipc {
namespace {

using ::testing::HasSubstr;

// An allocation of 4000 numbers; the tensor is its second quarter.
constexpr int64_t kCount = 1000;
constexpr size_t kBytes = 4 * kCount * sizeof(int64_t);

// A message in shared memory, as an application carries it.
struct Carried {
  std::array<int64_t, 2> size;
  std::array<int64_t, 2> stride;
  size_t rank;
  int64_t tensor_offset;
  int storage_device;
  std::array<char, 64> handle;
  int64_t storage_bytes;
  int64_t storage_offset;
  std::array<char, 256> file;
  int64_t counter;
  std::array<uint8_t, 16> uuid;
  std::atomic<bool> is_sent = false;

  void Send(const TorchTensor& message) {
    rank = message.tensor_size.size();
    std::ranges::copy(message.tensor_size, size.begin());
    std::ranges::copy(message.tensor_stride, stride.begin());
    tensor_offset = message.tensor_offset;
    storage_device = message.storage_device;
    ASSERT_EQ(message.storage_handle.size(), handle.size());
    std::ranges::copy(message.storage_handle, handle.begin());
    storage_bytes = message.storage_size_bytes;
    storage_offset = message.storage_offset_bytes;
    ASSERT_LT(message.ref_counter_handle.size(), file.size());
    std::strcpy(file.data(), message.ref_counter_handle.c_str());
    counter = message.ref_counter_offset;
    uuid = message.device_uuid.value();
    EXPECT_FALSE(message.event_sync_required);
    EXPECT_FALSE(message.requires_grad);
    is_sent = true;
  }

  TorchTensor Receive() const {
    EXPECT_TRUE(Becomes([this] { return is_sent.load(); }));
    TorchTensor message;
    message.tensor_size.assign(size.begin(), size.begin() + rank);
    message.tensor_stride.assign(stride.begin(), stride.begin() + rank);
    message.tensor_offset = tensor_offset;
    message.dtype = kDtypeOf<int64_t>;
    message.storage_device = storage_device;
    message.storage_handle.assign(handle.data(), handle.size());
    message.storage_size_bytes = storage_bytes;
    message.storage_offset_bytes = storage_offset;
    message.ref_counter_handle = file.data();
    message.ref_counter_offset = counter;
    message.device_uuid = uuid;
    return message;
  }
};

struct Exchange {
  std::array<Carried, 2> messages;
  std::atomic<bool> is_received = false;
  std::atomic<bool> goes_on = false;
  std::atomic<bool> is_killed = false;
  std::atomic<int> freed = 0;
};

class TorchExporterTest : public DeviceProcessTest {
 protected:
  static bool Await(const std::atomic<bool>& flag) {
    return Becomes([&flag] { return flag.load(); });
  }

  // The second quarter of an allocation of 0, 1, ..., 3999.
  Tensor LibraryTensor() const {
    const LibraryMemory memory = LibraryMemory::Create(kBytes, [this] {
                                   exchange_->freed.fetch_add(1);
                                 }).value();
    EXPECT_THAT(
        memory.Numbers(0, 4 * kCount).value().CopyFrom(Numbers(4 * kCount, 0)),
        IsOk());
    return memory.Numbers(kCount, kCount).value();
  }

  // How often LibraryTensor() was freed, once what has been dropped is.
  int Freed() const {
    EXPECT_THAT(TrimDeviceTensors(), IsOk());
    return exchange_->freed;
  }

  bool IsFreed(int times) const {
    return Becomes([&] { return Freed() == times; });
  }

  // Files of counters that this process has open and that have their name. Not
  // by a list of names: tests in other sandboxes may have the same pid.
  static size_t Files() {
    size_t files = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;  // The descriptor of this loop.
      const std::string path =
          std::filesystem::read_symlink(entry.path(), gone).string();
      files += absl::StartsWith(path, "/dev/shm/torch_") &&
               !absl::EndsWith(path, " (deleted)");
    }
    return files;
  }

  static bool Drops(TorchExporter& exporter, size_t count) {
    size_t dropped = 0;
    return Becomes([&] {
             const auto reaped = exporter.Reap();
             EXPECT_THAT(reaped, IsOk());
             dropped += reaped.value_or(0);
             return dropped >= count;
           }) &&
           dropped == count;
  }

  // A process that has received the first message and keeps it.
  ForkedChild Keeper() {
    return Run("keeper", [this] {
      const Tensor tensor =
          FromTorch(exchange_->messages[0].Receive(), Soon()).value();
      exchange_->is_received = true;
      pause();
    });
  }

  SharedObject<Exchange> exchange_;
};

TEST_F(TorchExporterTest, TheReceiverHasTheContentsAndEachReleaseDropsOnce) {
  ForkedChild sender = Run("sender", [&] {
    TENON_ASSERT_OK_AND_ASSIGN(auto exporter, TorchExporter::Create());
    EXPECT_EQ(Files(), 1u);
    std::optional<Tensor> tensor = LibraryTensor();
    exchange_->messages[0].Send(exporter->Export(*tensor).value());
    exchange_->messages[1].Send(
        exporter
            ->Export(tensor->Slice(0, {.start = 100, .stop = 106})
                         .value()
                         .Reshape({3, 2})
                         ->Transpose(0, 1)
                         .value())
            .value());
    tensor.reset();
    EXPECT_EQ(exporter->unreleased(), 2u);
    EXPECT_TRUE(Await(exchange_->is_received));
    EXPECT_THAT(exporter->Reap(), IsOkAndHolds(0u));
    EXPECT_EQ(Freed(), 0);
    exchange_->goes_on = true;
    EXPECT_TRUE(Drops(*exporter, 2));
    EXPECT_EQ(exporter->unreleased(), 0u);
    EXPECT_THAT(exporter->Reap(), IsOkAndHolds(0u));
    EXPECT_TRUE(IsFreed(1));
    EXPECT_THAT(exporter->Close(Deadline::Passed()), IsOk());
    EXPECT_EQ(Files(), 0u);
  });
  RunAlone([&] {
    const TorchTensor whole = exchange_->messages[0].Receive();
    EXPECT_EQ(whole.tensor_offset, 0);
    std::optional<Tensor> first = FromTorch(whole, Soon()).value();
    EXPECT_TRUE(HasNumbers(*first, kCount));
    const TorchTensor view = exchange_->messages[1].Receive();
    EXPECT_EQ(view.tensor_size, std::vector<int64_t>({2, 3}));
    EXPECT_EQ(view.tensor_stride, std::vector<int64_t>({1, 2}));
    EXPECT_EQ(view.tensor_offset, 100);
    EXPECT_EQ(view.storage_handle, whole.storage_handle);
    EXPECT_EQ(view.ref_counter_offset, 1);
    std::optional<Tensor> second = FromTorch(view, Soon()).value();
    EXPECT_TRUE(HasNumbers(second->Transpose(0, 1).value(), kCount + 100));
    exchange_->is_received = true;
    EXPECT_TRUE(Await(exchange_->goes_on));
    first.reset();
    second.reset();
    EXPECT_THAT(TrimDeviceTensors(), IsOk());
  });
  EXPECT_TRUE(sender.EndsWell());
}

TEST_F(TorchExporterTest, ATensorOfTorchIsExportedToAnotherProcess) {
  ForkedChild first = Run("first", [&] {
    TENON_ASSERT_OK_AND_ASSIGN(auto exporter, TorchExporter::Create());
    exchange_->messages[0].Send(exporter->Export(LibraryTensor()).value());
    EXPECT_TRUE(Await(exchange_->is_received));
    EXPECT_THAT(exporter->Reap(), IsOkAndHolds(0u));
    exchange_->goes_on = true;
    EXPECT_THAT(exporter->Close(Soon()), IsOk());
    EXPECT_TRUE(IsFreed(1));
  });
  ForkedChild second = Run("second", [&] {
    TENON_ASSERT_OK_AND_ASSIGN(auto exporter, TorchExporter::Create());
    exchange_->messages[1].Send(
        exporter
            ->Export(
                FromTorch(exchange_->messages[0].Receive(), Soon()).value())
            .value());
    EXPECT_THAT(exporter->Close(Soon()), IsOk());
    // The loan to the third process ends first, then the one of the first.
    EXPECT_TRUE(IsFreed(1));
  });
  RunAlone([&] {
    std::optional<Tensor> tensor =
        FromTorch(exchange_->messages[1].Receive(), Soon()).value();
    EXPECT_TRUE(HasNumbers(*tensor, kCount));
    exchange_->is_received = true;
    EXPECT_TRUE(Await(exchange_->goes_on));
    tensor.reset();
    EXPECT_THAT(TrimDeviceTensors(), IsOk());
  });
  EXPECT_TRUE(second.EndsWell());
  EXPECT_TRUE(first.EndsWell());
}

TEST_F(TorchExporterTest, TensorsOfAKilledReceiverAreDropped) {
  ForkedChild keeper = Keeper();
  const pid_t pid = keeper.pid();
  ForkedChild sender = Run("sender", [&] {
    TENON_ASSERT_OK_AND_ASSIGN(PidFd receiver, PidFd::Open(pid));
    TENON_ASSERT_OK_AND_ASSIGN(
        auto exporter,
        TorchExporter::Create({.receiver = std::move(receiver)}));
    const Tensor unreceived = LibraryTensor();
    exchange_->messages[0].Send(exporter->Export(LibraryTensor()).value());
    EXPECT_THAT(exporter->Export(unreceived), IsOk());
    EXPECT_TRUE(Await(exchange_->is_received));
    EXPECT_THAT(exporter->Reap(), IsOkAndHolds(0u));
    exchange_->goes_on = true;
    EXPECT_TRUE(Await(exchange_->is_killed));
    EXPECT_TRUE(Drops(*exporter, 2));
    EXPECT_TRUE(IsFreed(1));
    EXPECT_THAT(exporter->Export(unreceived),
                StatusIs(absl::StatusCode::kUnavailable,
                         HasSubstr("the receiver has ended")));
    exporter.reset();
    EXPECT_EQ(Files(), 0u);
  });
  EXPECT_TRUE(Await(exchange_->goes_on));
  keeper.Kill();
  exchange_->is_killed = true;
  EXPECT_TRUE(sender.EndsWell());
}

TEST_F(TorchExporterTest, WithoutAPidFdTheyStayUntilTheExporterIsClosed) {
  ForkedChild keeper = Keeper();
  ForkedChild sender = Run("sender", [&] {
    TENON_ASSERT_OK_AND_ASSIGN(auto exporter, TorchExporter::Create());
    exchange_->messages[0].Send(exporter->Export(LibraryTensor()).value());
    EXPECT_TRUE(Await(exchange_->is_received));
    exchange_->goes_on = true;
    EXPECT_TRUE(Await(exchange_->is_killed));
    EXPECT_THAT(exporter->Reap(), IsOkAndHolds(0u));
    EXPECT_EQ(Freed(), 0);
    EXPECT_THAT(exporter->Close(Deadline::After(absl::Milliseconds(150))),
                StatusIs(absl::StatusCode::kDeadlineExceeded,
                         HasSubstr("not released 1 tensors")));
    EXPECT_EQ(exporter->unreleased(), 0u);
    EXPECT_TRUE(IsFreed(1));
    EXPECT_EQ(Files(), 0u);
    EXPECT_THAT(
        exporter->Export(LibraryTensor()),
        StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("closed")));
    EXPECT_THAT(exporter->Close(Deadline::Passed()), IsOk());
  });
  EXPECT_TRUE(Await(exchange_->goes_on));
  keeper.Kill();
  exchange_->is_killed = true;
  EXPECT_TRUE(sender.EndsWell());
}

TEST_F(TorchExporterTest, ACancelledMessageIsDroppedOnceAndRefused) {
  RunAlone([&] {
    TENON_ASSERT_OK_AND_ASSIGN(auto exporter, TorchExporter::Create());
    TENON_ASSERT_OK_AND_ASSIGN(const TorchTensor other,
                               exporter->Export(LibraryTensor()));
    TENON_ASSERT_OK_AND_ASSIGN(const TorchTensor message,
                               exporter->Export(LibraryTensor()));
    EXPECT_THAT(exporter->Cancel(message), IsOk());
    EXPECT_EQ(exporter->unreleased(), 1u);
    EXPECT_TRUE(IsFreed(1));
    EXPECT_THAT(FromTorch(message, Soon()),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("released before")));
    EXPECT_THAT(exporter->Cancel(message),
                StatusIs(absl::StatusCode::kNotFound, HasSubstr("counter 1")));
    TorchTensor foreign = other;
    foreign.ref_counter_handle += "0";
    EXPECT_THAT(exporter->Cancel(foreign),
                StatusIs(absl::StatusCode::kNotFound));
    EXPECT_THAT(exporter->Reap(), IsOkAndHolds(0u));
    EXPECT_THAT(ReleaseTorch(other), IsOk());
    EXPECT_THAT(exporter->Reap(), IsOkAndHolds(1u));
    EXPECT_TRUE(IsFreed(2));
  });
}

TEST_F(TorchExporterTest, AFileIsReplacedWhenItsCountersAreUsed) {
  RunAlone([&] {
    TENON_ASSERT_OK_AND_ASSIGN(auto exporter, TorchExporter::Create());
    const Tensor tensor = LibraryTensor();
    std::vector<TorchTensor> messages;
    for (int64_t i = 0; i <= TorchCounterFile::kCounters; ++i) {
      messages.push_back(exporter->Export(tensor).value());
      ASSERT_EQ(messages.back().ref_counter_offset,
                i % TorchCounterFile::kCounters);
    }
    const std::string& first = messages.front().ref_counter_handle;
    EXPECT_EQ(messages[TorchCounterFile::kCounters - 1].ref_counter_handle,
              first);
    EXPECT_NE(messages.back().ref_counter_handle, first);
    EXPECT_EQ(Files(), 2u);
    EXPECT_EQ(exporter->unreleased(), messages.size());
    // All of the first file but one.
    for (size_t i = 1; i + 1 < messages.size(); ++i) {
      ASSERT_THAT(ReleaseTorch(messages[i]), IsOk());
    }
    EXPECT_THAT(exporter->Reap(), IsOkAndHolds(messages.size() - 2));
    EXPECT_EQ(Files(), 2u);
    EXPECT_THAT(ReleaseTorch(messages.front()), IsOk());
    EXPECT_THAT(exporter->Reap(), IsOkAndHolds(1u));
    EXPECT_EQ(Files(), 1u);
    EXPECT_THAT(ReleaseTorch(messages[1]),
                StatusIs(absl::StatusCode::kNotFound));
    EXPECT_EQ(exporter->unreleased(), 1u);
    EXPECT_EQ(exchange_->freed, 0);
    exporter.reset();
    EXPECT_EQ(Files(), 0u);
  });
}

TEST_F(TorchExporterTest, ATruncatedFileReleasesNothing) {
  RunAlone([&] {
    TENON_ASSERT_OK_AND_ASSIGN(auto exporter, TorchExporter::Create());
    TENON_ASSERT_OK_AND_ASSIGN(const TorchTensor message,
                               exporter->Export(LibraryTensor()));
    const std::string path =
        absl::StrCat("/dev/shm", message.ref_counter_handle);
    ASSERT_EQ(truncate(path.c_str(), 64), 0);
    EXPECT_THAT(exporter->Reap(), StatusIs(absl::StatusCode::kDataLoss,
                                           HasSubstr("truncated the file")));
    EXPECT_EQ(Freed(), 0);
    EXPECT_THAT(exporter->Close(Deadline::Passed()),
                StatusIs(absl::StatusCode::kDeadlineExceeded,
                         HasSubstr("truncated the file")));
    EXPECT_TRUE(IsFreed(1));
  });
}

TEST_F(TorchExporterTest, WhatTorchCannotOpenIsRefused) {
  RunAlone([&] {
    TENON_ASSERT_OK_AND_ASSIGN(auto exporter, TorchExporter::Create());
    const auto expect = [&](const Tensor& tensor, absl::string_view text) {
      EXPECT_THAT(exporter->Export(tensor),
                  StatusIs(absl::StatusCode::kInvalidArgument,
                           HasSubstr(std::string(text))));
      EXPECT_EQ(exporter->unreleased(), 0u);
    };
    const Tensor tensor = LibraryTensor();
    expect(Tensor(), "not on a CUDA device");
    expect(Numbers(4, 0), "a tensor on cpu");
    expect(tensor.Slice(0, {.start = 2, .stop = 2}).value(), "is empty");
    expect(Numbers(4, 0).To(tensor.device()).value(),
           "memory of a DevicePool has no legacy handle, which torch opens");
    const auto like = [&](const TensorSpec& spec) {
      return Tensor::FromSpec(spec, tensor.storage()).value();
    };
    expect(like(TensorSpec::Strided(kDtypeOf<int64_t>, {10}, {-1}, 80).value()),
           "a stride is -1");
    expect(like(TensorSpec::Contiguous({kDLFloat, 32, 4}, {10}).value()),
           "has 4 lanes");
    if (has_fake()) {
      fake_.Fail("cuIpcGetMemHandle", 1, CUDA_ERROR_INVALID_VALUE);
      expect(tensor, "the memory has no legacy handle, which torch opens");
      fake_.Fail("cuIpcGetMemHandle", 1, CUDA_ERROR_OUT_OF_MEMORY);
      EXPECT_THAT(exporter->Export(tensor),
                  StatusIs(absl::StatusCode::kResourceExhausted));
    }
    TENON_ASSERT_OK_AND_ASSIGN(const TorchTensor message,
                               exporter->Export(tensor));
    EXPECT_EQ(message.ref_counter_offset, 0);
  });
}

TEST_F(TorchExporterTest, AForkedChildLeavesTheExporterAlone) {
  TENON_ASSERT_OK_AND_ASSIGN(auto exporter, TorchExporter::Create());
  EXPECT_EQ(Files(), 1u);
  const std::string prefix = absl::StrCat("torch_", getpid(), "-");
  RunAlone([&] {
    constexpr auto kForked = absl::StatusCode::kFailedPrecondition;
    EXPECT_THAT(exporter->Export(LibraryTensor()), StatusIs(kForked));
    EXPECT_THAT(exporter->Cancel(TorchTensor()), StatusIs(kForked));
    EXPECT_THAT(exporter->Reap(), StatusIs(kForked));
    EXPECT_THAT(exporter->Close(Soon()), StatusIs(kForked));
    exporter.reset();
  });
  EXPECT_EQ(Files(), 1u);
  exporter.reset();
  EXPECT_EQ(Files(), 0u);
}

}  // namespace
}  // namespace tenon::cuda_ipc

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Tensors for torch and of torch, on a CUDA device, with torch in a process of
// its own. Without a GPU torch is testdata/torch_double/torch.py, which uses
// the fake driver; torch_gpu_test has torch itself, and skips where no Python
// has it with CUDA: $TENON_TORCH_PYTHON, or python3.

#include <signal.h>
#include <sys/mman.h>
#include <sys/types.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/device_loan_testing.h"
#include "tenon/cuda_ipc/device_process_testing.h"
#include "tenon/cuda_ipc/device_tensor.h"
#include "tenon/cuda_ipc/torch_exporter.h"
#include "tenon/cuda_ipc/torch_tensor.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm_manager/torch_process.h"

namespace tenon::cuda_ipc {
namespace {

// Of a whole allocation, and of the tensor that is shared, in its middle.
constexpr int64_t kAll = 4000;
constexpr int64_t kFirst = 1000;
constexpr int64_t kCount = 1000;

std::string Hex(absl::string_view bytes) {
  return absl::BytesToHexString(bytes);
}

// The statement by which torch receives a message as its variable `name`.
std::string Receive(absl::string_view name, const TorchTensor& message) {
  EXPECT_FALSE(message.event_sync_required);
  const auto& uuid = message.device_uuid.value();
  return absl::StrFormat(
      "%s = receive_cuda('%s', (%s,), (%s,), %d, '%s', %d, %d, '%s', %d)", name,
      Hex({reinterpret_cast<const char*>(uuid.data()), uuid.size()}),
      absl::StrJoin(message.tensor_size, ","),
      absl::StrJoin(message.tensor_stride, ","), message.tensor_offset,
      Hex(message.storage_handle), message.storage_size_bytes,
      message.storage_offset_bytes, message.ref_counter_handle,
      message.ref_counter_offset);
}

template <typename Number>
Number NumberOf(absl::string_view text) {
  Number number = 0;
  EXPECT_TRUE(absl::SimpleAtoi(text, &number)) << text;
  return number;
}

std::vector<int64_t> NumbersOf(absl::string_view text) {
  std::vector<int64_t> numbers;
  for (const absl::string_view number : absl::StrSplit(text, ',')) {
    numbers.push_back(NumberOf<int64_t>(number));
  }
  return numbers;
}

std::string BytesOf(absl::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    int byte = 0;
    EXPECT_TRUE(absl::SimpleHexAtoi(hex.substr(i, 2), &byte)) << hex;
    bytes.push_back(static_cast<char>(byte));
  }
  return bytes;
}

// A message of share_cuda().
TorchTensor Parse(const std::string& text) {
  const std::vector<std::string> values = absl::StrSplit(text, ' ');
  TorchTensor message;
  EXPECT_EQ(values.size(), 13u) << text;
  if (values.size() != 13) return message;
  message.tensor_size = NumbersOf(values[0]);
  message.tensor_stride = NumbersOf(values[1]);
  message.tensor_offset = NumberOf<int64_t>(values[2]);
  EXPECT_EQ(values[3], "torch.int64");
  message.dtype = kDtypeOf<int64_t>;
  message.storage_device = NumberOf<int>(values[4]);
  message.storage_handle = BytesOf(values[5]);
  message.storage_size_bytes = NumberOf<int64_t>(values[6]);
  message.storage_offset_bytes = NumberOf<int64_t>(values[7]);
  message.ref_counter_handle = values[8];
  message.ref_counter_offset = NumberOf<int64_t>(values[9]);
  message.event_sync_required = values[10] == "1";
  if (message.event_sync_required) message.event_handle = BytesOf(values[11]);
  const std::string uuid = BytesOf(values[12]);
  std::array<uint8_t, 16> device = {};
  EXPECT_EQ(uuid.size(), device.size());
  std::copy_n(uuid.begin(), std::min(uuid.size(), device.size()),
              device.begin());
  message.device_uuid = device;
  return message;
}

// The test starts torch while it has one thread; its child, which has a driver,
// talks to torch by the pipes that it inherits.
class TorchCudaTest : public DeviceProcessTest {
 protected:
  void SetUp() override {
    DeviceProcessTest::SetUp();
    if (IsSkipped()) return;
    if (has_fake()) {
      fake_.Reset(machine_);
      fake_.SetEnvironment();
    }
    const std::string problem = TorchProblem();
    if (!problem.empty()) GTEST_SKIP() << problem;
    torch_.emplace();
    if (Ask("torch.cuda.is_available()") != "True") {
      GTEST_SKIP() << TorchPython() << ": torch without CUDA";
    }
  }
  void TearDown() override {
    // A torch that is not killed removes its files.
    if (torch_.has_value()) torch_->End();
    torch_.reset();
    DeviceProcessTest::TearDown();
  }

  // ---- In the child ----

  std::string Ask(absl::string_view statement) {
    return torch_->Run(statement);
  }
  // That `numbers` of torch are first, first + 1, ...
  void ExpectInTorch(absl::string_view numbers, int64_t first, int64_t count) {
    EXPECT_EQ(Ask(absl::StrCat(numbers, ".tolist() == list(range(", first, ", ",
                               first + count, "))")),
              "True");
  }
  // Its death, not its reaping: that is the test's.
  void KillTorch() { ASSERT_EQ(kill(torch_->pid(), SIGKILL), 0); }

  // The middle of an allocation of 0, 1, ..., 3999.
  Tensor LibraryTensor() {
    const LibraryMemory memory =
        LibraryMemory::Create(kAll * sizeof(int64_t), [this] {
          ++freed_;
        }).value();
    EXPECT_THAT(memory.Numbers(0, kAll).value().CopyFrom(Numbers(kAll, 0)),
                IsOk());
    return memory.Numbers(kFirst, kCount).value();
  }
  bool IsFreed() {
    return Becomes([this] {
      EXPECT_THAT(TrimDeviceTensors(), IsOk());
      return freed_ == 1;
    });
  }

  std::unique_ptr<TorchExporter> Exporter() {
    return TorchExporter::Create(
               {.receiver = PidFd::Open(torch_->pid()).value()})
        .value();
  }
  static bool Drops(TorchExporter& exporter) {
    return Becomes([&exporter] {
      const auto reaped = exporter.Reap();
      EXPECT_THAT(reaped, IsOk());
      return reaped.value_or(0) == 1;
    });
  }

  TorchTensor Shared(absl::string_view tensor) {
    return Parse(Ask(absl::StrCat("share_cuda(", tensor, ")")));
  }
  // 0, 1, ..., 3999, as t.
  void MakeInTorch() {
    ASSERT_EQ(Ask(absl::StrCat("t = torch.arange(", kAll, ", device='cuda')")),
              "ok");
  }

  std::optional<Torch> torch_;

 private:
  std::atomic<int> freed_ = 0;
};

TEST_F(TorchCudaTest, TorchReadsAndWritesWhatIsExportedAndReleasesIt) {
  RunAlone([&] {
    const auto exporter = Exporter();
    std::optional<Tensor> tensor = LibraryTensor();
    ASSERT_EQ(Ask(Receive("t", exporter->Export(*tensor).value())), "ok");
    ExpectInTorch("t", kFirst, kCount);
    EXPECT_THAT(tensor->Slice(0, {.start = 500})->CopyFrom(Numbers(500, 7000)),
                IsOk());
    ExpectInTorch("t[:500]", kFirst, 500);
    ExpectInTorch("t[500:]", 7000, 500);
    ASSERT_EQ(Ask("t[0] = -5; t[999] = -6; torch.cuda.synchronize()"), "ok");
    EXPECT_TRUE(HasNumbers(tensor->Slice(0, {.stop = 1}).value(), -5));
    EXPECT_TRUE(HasNumbers(tensor->Slice(0, {.start = 999}).value(), -6));
    EXPECT_TRUE(
        HasNumbers(tensor->Slice(0, {.start = 1, .stop = 500}).value(), 1001));
    tensor.reset();
    EXPECT_THAT(exporter->Reap(), IsOkAndHolds(0u));
    EXPECT_EQ(Ask("del t; gc.collect()"), "ok");
    EXPECT_TRUE(Drops(*exporter));
    EXPECT_TRUE(IsFreed());
    EXPECT_THAT(exporter->Close(Deadline::Passed()), IsOk());
  });
}

// torch keeps one storage for both messages, and releases the second at once.
TEST_F(TorchCudaTest, TorchHasAViewByItsOffsetAndStrides) {
  RunAlone([&] {
    const auto exporter = Exporter();
    std::optional<Tensor> tensor = LibraryTensor();
    const Tensor view = tensor->Slice(0, {.start = 100, .stop = 106})
                            ->Reshape({3, 2})
                            ->Transpose(0, 1)
                            .value();
    ASSERT_EQ(Ask(Receive("t", exporter->Export(*tensor).value())), "ok");
    ASSERT_EQ(Ask(Receive("view", exporter->Export(view).value())), "ok");
    EXPECT_EQ(Ask("view.tolist()"), "[[1100, 1102, 1104], [1101, 1103, 1105]]");
    EXPECT_TRUE(Drops(*exporter));
    EXPECT_EQ(exporter->unreleased(), 1u);
    EXPECT_EQ(Ask("del t; gc.collect()"), "ok");
    EXPECT_THAT(exporter->Reap(), IsOkAndHolds(0u));
    EXPECT_EQ(Ask("view.tolist()"), "[[1100, 1102, 1104], [1101, 1103, 1105]]");
    EXPECT_EQ(Ask("del view; gc.collect()"), "ok");
    EXPECT_TRUE(Drops(*exporter));
    EXPECT_THAT(exporter->Close(Deadline::Passed()), IsOk());
  });
}

TEST_F(TorchCudaTest, WhatAKilledTorchHasIsDropped) {
  RunAlone([&] {
    const auto exporter = Exporter();
    ASSERT_EQ(Ask(Receive("t", exporter->Export(LibraryTensor()).value())),
              "ok");
    ExpectInTorch("t", kFirst, kCount);
    EXPECT_THAT(exporter->Reap(), IsOkAndHolds(0u));
    KillTorch();
    EXPECT_TRUE(Drops(*exporter));
    EXPECT_TRUE(IsFreed());
  });
}

TEST_F(TorchCudaTest, TorchsTensorIsReadAndWrittenAndReleased) {
  RunAlone([&] {
    MakeInTorch();
    const TorchTensor message =
        Shared(absl::StrCat("t[", kFirst, ":", kFirst + kCount, "]"));
    EXPECT_EQ(message.tensor_offset, kFirst);
    EXPECT_EQ(message.tensor_size, std::vector<int64_t>({kCount}));
    std::optional<Tensor> tensor = FromTorch(message, Soon()).value();
    EXPECT_TRUE(HasNumbers(*tensor, kFirst));
    EXPECT_THAT(tensor->CopyFrom(Numbers(kCount, 50'000)), IsOk());
    ExpectInTorch("t[1000:2000]", 50'000, kCount);
    ExpectInTorch("t[:1000]", 0, 1000);
    ASSERT_EQ(Ask("t[1000] = -5; torch.cuda.synchronize()"), "ok");
    EXPECT_TRUE(HasNumbers(tensor->Slice(0, {.stop = 1}).value(), -5));
    // torch keeps the memory for this process, and no longer.
    ASSERT_EQ(Ask("del t; gc.collect()"), "ok");
    ASSERT_EQ(Ask("torch.cuda.ipc_collect()"), "None");
    EXPECT_NE(Ask("torch.cuda.memory_allocated()"), "0");
    EXPECT_TRUE(HasNumbers(tensor->Slice(0, {.start = 1}).value(), 50'001));
    tensor.reset();
    EXPECT_THAT(TrimDeviceTensors(), IsOk());
    EXPECT_TRUE(Becomes([this] {
      EXPECT_EQ(Ask("torch.cuda.ipc_collect()"), "None");
      return Ask("torch.cuda.memory_allocated()") == "0";
    }));
  });
}

TEST_F(TorchCudaTest, AMessageThatIsNotReceivedIsReleased) {
  RunAlone([&] {
    MakeInTorch();
    EXPECT_THAT(ReleaseTorch(Shared("t")), IsOk());
    ASSERT_EQ(Ask("del t; gc.collect()"), "ok");
    ASSERT_EQ(Ask("torch.cuda.ipc_collect()"), "None");
    EXPECT_EQ(Ask("torch.cuda.memory_allocated()"), "0");
  });
}

// CUDA does not document what memory of a process that has ended is: each call
// returns, by the watchdog of the child.
TEST_F(TorchCudaTest, CallsReturnAfterTorchIsKilled) {
  RunAlone([&] {
    MakeInTorch();
    // In another allocation of torch's allocator, which is not opened here.
    ASSERT_EQ(Ask("late = torch.empty(1 << 19, dtype=torch.int64, "
                  "device='cuda')"),
              "ok");
    std::optional<Tensor> tensor = FromTorch(Shared("t"), Soon()).value();
    const TorchTensor late = Shared("late");
    EXPECT_TRUE(HasNumbers(*tensor, 0));
    KillTorch();
    const PidFd torch = PidFd::Open(torch_->pid()).value();
    EXPECT_TRUE(Becomes([&torch] { return torch.HasEnded(); }));
    const absl::Status received = FromTorch(late, Soon()).status();
    const absl::Status read = tensor->ToCpu().status();
    tensor.reset();
    const absl::Status trimmed = TrimDeviceTensors().status();
    EXPECT_FALSE(received.ok());
    EXPECT_TRUE(!has_fake() || !read.ok());
    std::cout << "received: " << received << "\nread: " << read
              << "\ntrimmed: " << trimmed << "\n"
              << std::flush;
    // A killed torch leaves it.
    shm_unlink(late.ref_counter_handle.c_str());
  });
}

}  // namespace
}  // namespace tenon::cuda_ipc

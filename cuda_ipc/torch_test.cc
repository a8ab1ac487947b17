// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Counters and messages against the real torch, on the CPU. Skipped where no
// Python has it:
//
//   ./bazelw test --test_env=TENON_TORCH_PYTHON=/opt/venv/bin/python
//       //cuda_ipc:torch_test

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/internal/torch_counter.h"
#include "tenon/cuda_ipc/torch_tensor.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm_manager/torch_process.h"

namespace tenon::cuda_ipc {
namespace {

class RealTorchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string problem = TorchProblem();
    if (!problem.empty()) GTEST_SKIP() << problem;
  }
};

// torch makes its counters of CUDA tensors by the same allocator as this: a
// count of the file's references, in 64 bytes, and the data.
TEST_F(RealTorchTest, SeesItsCounterFall) {
  Torch torch;
  ASSERT_EQ(
      torch.Run("s = torch.UntypedStorage._new_using_filename_cpu(80000)"),
      "ok");
  ASSERT_EQ(torch.Run("t = torch.empty(0, dtype=torch.int64).set_(s)"), "ok");
  ASSERT_EQ(torch.Run("t.numel()"), "10000");
  ASSERT_EQ(torch.Run("t.zero_(); t[41:44] = 1"), "ok");
  ASSERT_EQ(torch.Run("t[9999] = 1"), "ok");
  const std::string file = torch.Run("s._share_filename_cpu_()[1].decode()");
  EXPECT_EQ(file.find(absl::StrCat("/torch_", torch.pid(), "_")), 0u) << file;
  EXPECT_THAT(CheckTorchCounter(file, 42), IsOk());
  EXPECT_EQ(torch.Run("t[41:44].tolist()"), "[1, 1, 1]");
  EXPECT_THAT(ReleaseTorchCounter(file, 42), IsOk());
  EXPECT_EQ(torch.Run("t[41:44].tolist()"), "[1, 0, 1]");
  EXPECT_THAT(ReleaseTorchCounter(file, 42),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(ReleaseTorchCounter(file, 9'999), IsOk());
  EXPECT_EQ(torch.Run("t.sum().item()"), "2");
  EXPECT_THAT(ReleaseTorchCounter(file, 10'000),
              StatusIs(absl::StatusCode::kInvalidArgument));
  // torch's own count of the file is as it was: torch removes the name.
  EXPECT_EQ(torch.Run("del s, t"), "ok");
  EXPECT_THAT(CheckTorchCounter(file, 41),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(torch.End(), 0);
}

// torch's own release of a counter, which its storages call when they end.
TEST_F(RealTorchTest, LowersACounterOfTenonAndLeavesTheFile) {
  TENON_ASSERT_OK_AND_ASSIGN(auto file, TorchCounterFile::Create());
  for (int64_t i = 0; i < 3; ++i) EXPECT_THAT(file->Add(), IsOkAndHolds(i));
  Torch torch;
  if (torch.Run("hasattr(torch.UntypedStorage, '_release_ipc_counter_cuda')") !=
      "True") {
    GTEST_SKIP() << "this torch is built without CUDA";
  }
  const auto release = [&](int64_t counter) {
    EXPECT_EQ(torch.Run(absl::StrCat("torch.UntypedStorage."
                                     "_release_ipc_counter_cuda(b'",
                                     file->name(), "', ", counter, ")")),
              "None");
  };
  release(1);
  EXPECT_THAT(file->IsReleased(0), IsOkAndHolds(false));
  EXPECT_THAT(file->IsReleased(1), IsOkAndHolds(true));
  EXPECT_THAT(file->IsReleased(2), IsOkAndHolds(false));
  // torch has closed the file, and has not removed it.
  EXPECT_THAT(CheckTorchCounter(file->name(), 2), IsOk());
  release(2);
  EXPECT_THAT(file->IsReleased(2), IsOkAndHolds(true));
  EXPECT_THAT(file->IsReleased(0), IsOkAndHolds(false));
  // torch ignores a file that its exporter has removed.
  const std::string name = file->name();
  file.reset();
  EXPECT_THAT(CheckTorchCounter(name, 0),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(
      torch.Run(absl::StrCat(
          "torch.UntypedStorage._release_ipc_counter_cuda(b'", name, "', 0)")),
      "None");
  EXPECT_THAT(CheckTorchCounter(name, 0),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_EQ(torch.End(), 0);
}

// The members in their order, which the initializer demands, and their names.
#define TENON_TORCH_FIELDS(F) \
  F(tensor_size)              \
  F(tensor_stride)            \
  F(tensor_offset)            \
  F(dtype)                    \
  F(storage_device)           \
  F(storage_handle)           \
  F(storage_size_bytes)       \
  F(storage_offset_bytes)     \
  F(requires_grad)            \
  F(ref_counter_handle)       \
  F(ref_counter_offset) F(event_handle) F(event_sync_required)

TEST_F(RealTorchTest, RebuildsATensorFromTheFieldsOfTheMessage) {
  const TorchTensor any;
#define TENON_TORCH_MEMBER(name) .name = any.name,
  const TorchTensor message = {
      TENON_TORCH_FIELDS(TENON_TORCH_MEMBER).device_uuid = any.device_uuid};
#undef TENON_TORCH_MEMBER
  EXPECT_EQ(message.tensor_size, any.tensor_size);
#define TENON_TORCH_NAME(name) "'" #name "', "
  const std::string names = TENON_TORCH_FIELDS(TENON_TORCH_NAME);
#undef TENON_TORCH_NAME
  Torch torch;
  EXPECT_EQ(torch.Run("import inspect; from torch.multiprocessing.reductions "
                      "import rebuild_cuda_tensor"),
            "ok");
  EXPECT_EQ(torch.Run("[p for p in "
                      "inspect.signature(rebuild_cuda_tensor).parameters if p "
                      "not in ('tensor_cls', 'storage_cls')]"),
            absl::StrCat("[", names.substr(0, names.size() - 2), "]"));
  EXPECT_EQ(torch.End(), 0);
}

}  // namespace
}  // namespace tenon::cuda_ipc

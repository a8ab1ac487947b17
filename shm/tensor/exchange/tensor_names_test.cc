// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Tensors of the file_system strategy have a name and a mapping, and no
// descriptor: neither their creator nor a process that opens them is bound by
// RLIMIT_NOFILE.

#include <sys/resource.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/exchange/tensor_handle.h"
#include "tenon/shm/tensor/exchange/tensor_importer.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr size_t kTensors = 2000;
constexpr rlim_t kFdLimit = 256;

void SetFdLimit(rlim_t limit) {
  rlimit now = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &now), 0);
  now.rlim_cur = limit;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &now), 0);
}

// Each third one is written by its owner alone, each third one was private.
absl::StatusOr<Tensor> MakeTensor(size_t number, const std::string& prefix) {
  const SegmentOptions options = {.strategy = SharingStrategy::kFileSystem,
                                  .name_prefix = prefix};
  const auto value = static_cast<int32_t>(number);
  if (number % 3 == 0) {
    TENON_ASSIGN_OR_RETURN(Tensor tensor,
                           Tensor::Create(kDtypeOf<int32_t>, {4}));
    TENON_RETURN_IF_ERROR(tensor.Fill(value));
    TENON_RETURN_IF_ERROR(tensor.Share(options));
    return tensor;
  }
  const SegmentKind kind = number % 3 == 1 ? SegmentKind::kOwnerWritten
                                           : SegmentKind::kSharedWritable;
  TENON_ASSIGN_OR_RETURN(
      const Tensor tensor,
      Tensor::CreateShared(kDtypeOf<int32_t>, {4},
                           {.kind = kind, .segment = options}));
  TENON_RETURN_IF_ERROR(tensor.Fill(value));
  return tensor;
}

// Opens all by name and keeps them; writes into the writable ones.
void OpenAll(const std::vector<TensorHandle>& handles) {
  TensorImporter importer;
  std::vector<Tensor> opened;
  for (size_t i = 0; i < handles.size(); ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(Tensor tensor, importer.Import(handles[i]));
    const auto value = tensor.at<const int32_t>({3});
    ASSERT_THAT(value, IsOk());
    ASSERT_EQ(**value, static_cast<int32_t>(i));
    if (tensor.writable()) {
      ASSERT_THAT(tensor.Fill(int32_t{-1}), IsOk());
    }
    opened.push_back(std::move(tensor));
  }
  EXPECT_THAT(opened, SizeIs(kTensors));
}

TEST(TensorNamesTest, ManyMoreThanThereMayBeDescriptors) {
  const std::string prefix = UniqueTestPrefix();
  EXPECT_TRUE(PassesInChild([&] {
    SetFdLimit(kFdLimit);
    const size_t fds_before = CountOpenFds();
    std::vector<Tensor> tensors;
    std::vector<TensorHandle> handles;
    for (size_t i = 0; i < kTensors; ++i) {
      absl::StatusOr<Tensor> tensor = MakeTensor(i, prefix);
      ASSERT_THAT(tensor, IsOk()) << i << " tensors are alive";
      absl::StatusOr<ExportedTensor> exported = Export(*tensor);
      ASSERT_THAT(exported, IsOk());
      EXPECT_THAT(exported->fds(), IsEmpty());
      tensors.push_back(*std::move(tensor));
      handles.push_back(exported->handle);
    }
    EXPECT_EQ(CountOpenFds(), fds_before);
    EXPECT_TRUE(PassesInChild([&] { OpenAll(handles); }));
    for (size_t i = 0; i < kTensors; ++i) {
      const auto value = tensors[i].at<const int32_t>({0});
      ASSERT_THAT(value, IsOk());
      ASSERT_EQ(**value, i % 3 == 1 ? static_cast<int32_t>(i) : -1);
    }
  }));
  EXPECT_THAT(ListShmNames(prefix), IsOkAndHolds(IsEmpty()));
}

}  // namespace
}  // namespace tenon

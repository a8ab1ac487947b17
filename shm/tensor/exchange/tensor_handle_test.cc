// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/tensor/exchange/tensor_handle.h"

#include <cstdint>
#include <cstring>
#include <new>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dlpack/dlpack.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_spec.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr DLDataType kDtype = kDtypeOf<int32_t>;

Tensor Shared(SharingStrategy strategy, SegmentKind kind) {
  return Tensor::CreateShared(kDtype, {4, 2},
                              {.kind = kind,
                               .segment = {.strategy = strategy,
                                           .name_prefix = UniqueTestPrefix()}})
      .value();
}

TEST(TensorHandleTest, SaysWhatTheTensorIs) {
  for (const SharingStrategy strategy : AllSharingStrategies()) {
    for (const SegmentKind kind :
         {SegmentKind::kOwnerWritten, SegmentKind::kSharedWritable}) {
      const Tensor tensor = Shared(strategy, kind);
      const auto exported = Export(tensor.Select(1, 1).value());
      ASSERT_THAT(exported, IsOk());
      const auto handle = TensorHandle::Parse(exported->handle.AsBytes());
      ASSERT_THAT(handle, IsOk());
      EXPECT_THAT(handle->Check(), IsOk());
      EXPECT_EQ(handle->storage_bytes, 32u);
      EXPECT_TRUE(handle->has_segment());
      EXPECT_EQ(handle->segment_kind(), kind);
      EXPECT_EQ(handle->segment_strategy(), strategy);
      EXPECT_EQ(handle->segment_name(), tensor.storage()->name());
      EXPECT_EQ(handle->id, tensor.storage()->id());
      EXPECT_TRUE(handle->spec == tensor.Select(1, 1).value().spec());
      if (strategy == SharingStrategy::kFileSystem) {
        EXPECT_THAT(exported->fds(), IsEmpty());
      } else {
        EXPECT_THAT(exported->fds(), ElementsAre(tensor.storage()->fd()));
      }
    }
  }
}

TEST(TensorHandleTest, IsSoManyBytes) {
  const std::string bytes(sizeof(TensorHandle), '\0');
  const auto zeros = TensorHandle::Parse(bytes);
  ASSERT_THAT(zeros, IsOk());
  EXPECT_THAT(zeros->Check(), StatusIs(absl::StatusCode::kInvalidArgument,
                                       HasSubstr("bad magic 0x")));
  for (const std::string& wrong :
       {bytes + 'x', bytes.substr(1), std::string()}) {
    EXPECT_THAT(
        TensorHandle::Parse(wrong),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("want 384")));
  }
}

TEST(ExportTest, PrivateTensorsAreRefused) {
  Tensor tensor = Tensor::Create(kDtype, {4}).value();
  EXPECT_THAT(Export(tensor), StatusIs(absl::StatusCode::kFailedPrecondition,
                                       HasSubstr("int32[4] is private")));
  EXPECT_THAT(Export(Tensor()),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  ASSERT_THAT(tensor.Share(), IsOk());
  EXPECT_THAT(Export(tensor), IsOk());
}

// No stale byte of this process's memory is sent along.
TEST(ExportTest, EveryByteIsSet) {
  const Tensor tensor = Tensor::CreateShared(kDtype, {4}).value();
  alignas(TensorHandle) char a[sizeof(TensorHandle)];
  alignas(TensorHandle) char b[sizeof(TensorHandle)];
  std::memset(a, 0x55, sizeof(a));
  std::memset(b, 0xaa, sizeof(b));
  new (a) TensorHandle(Export(tensor).value().handle);
  new (b) TensorHandle(Export(tensor).value().handle);
  EXPECT_EQ(std::memcmp(a, b, sizeof(a)), 0);
}

}  // namespace
}  // namespace tenon

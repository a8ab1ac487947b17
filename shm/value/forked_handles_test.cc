// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A parent's tensors and values in a forked child: handles whose calls fail,
// and which do not touch shared objects.

#include <fcntl.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dlpack/dlpack.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/exchange/tensor_handle.h"
#include "tenon/shm/tensor/exchange/tensor_importer.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm/value/array.h"
#include "tenon/shm/value/value.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr DLDataType kInt = kDtypeOf<int32_t>;

auto IsInherited() {
  return StatusIs(absl::StatusCode::kFailedPrecondition,
                  HasSubstr("inherited by fork()"));
}

class ForkedHandlesTest : public testing::TestWithParam<SharingStrategy> {
 protected:
  SegmentOptions Options() const {
    return {.strategy = GetParam(), .name_prefix = prefix_};
  }
  const std::string prefix_ = UniqueTestPrefix();
};

TEST_P(ForkedHandlesTest, SharedTensorsAreInert) {
  Tensor tensor =
      Tensor::CreateShared(kInt, {4}, {.segment = Options()}).value();
  const Tensor other = Tensor::Create(kInt, {4}).value();
  EXPECT_TRUE(PassesInChild([&] {
    EXPECT_THAT(Export(tensor), IsInherited());
    EXPECT_THAT(tensor.data<int32_t>(), IsInherited());
    EXPECT_THAT(tensor.data<const int32_t>(), IsInherited());
    EXPECT_THAT(tensor.at<int32_t>({0}), IsInherited());
    EXPECT_THAT(tensor.Fill(1), IsInherited());
    EXPECT_THAT(tensor.CopyFrom(other), IsInherited());
    EXPECT_THAT(other.CopyFrom(tensor), IsInherited());
    EXPECT_THAT(tensor.Clone(), IsInherited());
    EXPECT_THAT(tensor.Share(), IsInherited());
    EXPECT_THAT(Export(tensor.Select(0, 0).value()), IsInherited());
    // Calls that do not access the memory work.
    EXPECT_EQ(tensor.spec().elements(), 4);
    EXPECT_TRUE(tensor.is_shared());
    tensor = Tensor();  // The parent's name stays.
  }));
  EXPECT_THAT(tensor.Fill(1), IsOk());
  if (GetParam() == SharingStrategy::kFileSystem) {
    EXPECT_THAT(ListShmNames(prefix_), IsOkAndHolds(SizeIs(1)));
  }
}

TEST_P(ForkedHandlesTest, TensorsWithoutElementsAsWell) {
  const Tensor tensor =
      Tensor::CreateShared(kInt, {0}, {.segment = Options()}).value();
  EXPECT_TRUE(
      PassesInChild([&] { EXPECT_THAT(Export(tensor), IsInherited()); }));
}

TEST_P(ForkedHandlesTest, PrivateTensorsAreTheChildsOwn) {
  Tensor tensor = Tensor::Create(kInt, {4}).value();
  ASSERT_THAT(tensor.Fill(3), IsOk());
  EXPECT_TRUE(PassesInChild([&] {
    EXPECT_EQ(*tensor.at<const int32_t>({2}).value(), 3);
    EXPECT_THAT(tensor.Fill(4), IsOk());
    // And so is the child's own sharing of them.
    EXPECT_THAT(tensor.Share(Options()), IsOk());
    EXPECT_THAT(Export(tensor), IsOk());
    EXPECT_EQ(*tensor.at<const int32_t>({2}).value(), 4);
    tensor = Tensor();
  }));
  EXPECT_EQ(*tensor.at<const int32_t>({2}).value(), 3);
  EXPECT_FALSE(tensor.is_shared());
}

TEST_P(ForkedHandlesTest, ReceivedTensorsAreInert) {
  const Tensor sent =
      Tensor::CreateShared(kInt, {4}, {.segment = Options()}).value();
  const ExportedTensor exported = Export(sent).value();
  TensorImporter importer;
  const auto import = [&](TensorImporter& with) {
    UniqueFd fd;
    if (exported.fd >= 0) fd.Reset(fcntl(exported.fd, F_DUPFD_CLOEXEC, 0));
    return with.Import(exported.handle, std::move(fd));
  };
  const Tensor received = import(importer).value();
  EXPECT_TRUE(PassesInChild([&] {
    EXPECT_THAT(received.data<const int32_t>(), IsInherited());
    EXPECT_THAT(Export(received), IsInherited());
    EXPECT_THAT(import(importer), IsInherited());
    importer.Recognize(received);
    EXPECT_EQ(importer.CountStorages(), 0u);
    // A child needs an importer of its own.
    TensorImporter own;
    EXPECT_THAT(import(own).value().data<const int32_t>(), IsOk());
  }));
}

// Another thread may be inside the importer when the process forks: its lock
// would never be released in the child.
TEST_P(ForkedHandlesTest, AnImporterInUseDoesNotHangTheChild) {
  const Tensor sent =
      Tensor::CreateShared(kInt, {4}, {.segment = Options()}).value();
  TensorImporter importer;
  importer.Recognize(sent);
  std::atomic<bool> stop = false;
  std::thread user([&] {
    while (!stop) importer.CountStorages();
  });
  for (int i = 0; i < 50; ++i) {
    const auto is_inert = [&] {
      importer.Recognize(sent);
      EXPECT_EQ(importer.CountStorages(), 0u);
      EXPECT_THAT(importer.Import(TensorHandle()), IsInherited());
    };
    EXPECT_TRUE(PassesInChild(is_inert, /*may_have_threads=*/true));
  }
  stop = true;
  user.join();
}

TEST_P(ForkedHandlesTest, ValuesAndArraysAreInert) {
  std::optional<Value<int>> value = Value<int>::Create(1, Options()).value();
  std::optional<Array<int>> array = Array<int>::Create(3, Options()).value();
  EXPECT_TRUE(PassesInChild([&] {
    EXPECT_THAT(value->get(), IsInherited());
    EXPECT_THAT(value->Load(), IsInherited());
    EXPECT_THAT(value->Store(2), IsInherited());
    EXPECT_THAT(value->FetchAdd(2), IsInherited());
    EXPECT_THAT(array->data(), IsInherited());
    EXPECT_THAT(array->Load(0), IsInherited());
    EXPECT_THAT(array->Load(99), IsInherited());
    value.reset();
    array.reset();
  }));
  EXPECT_THAT(value->Load(), IsOkAndHolds(1));
  if (GetParam() == SharingStrategy::kFileSystem) {
    EXPECT_THAT(ListShmNames(prefix_), IsOkAndHolds(SizeIs(2)));
  }
}

INSTANTIATE_TEST_SUITE_P(Strategies, ForkedHandlesTest,
                         testing::ValuesIn(AllSharingStrategies().begin(),
                                           AllSharingStrategies().end()));

}  // namespace
}  // namespace tenon

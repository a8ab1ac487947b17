// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/tensor/tensor.h"

#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor_spec.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr DLDataType kFloat = kDtypeOf<float>;
constexpr DLDataType kInt = kDtypeOf<int32_t>;

// 0, 1, 2, ... in row-major order.
Tensor Counting(absl::Span<const int64_t> shape) {
  Tensor tensor = Tensor::Create(kInt, shape).value();
  const auto elements = tensor.data<int32_t>().value();
  std::iota(elements.begin(), elements.end(), 0);
  return tensor;
}

std::vector<int32_t> Elements(const Tensor& tensor) {
  const Tensor dense = tensor.Clone().value();
  const auto elements = dense.data<const int32_t>().value();
  return {elements.begin(), elements.end()};
}

// Memory that another library lends, known only by address and size.
std::shared_ptr<Storage> Lent(std::byte* data, size_t size,
                              bool writable = true) {
  return Storage::FromLent(
      {.data = data, .size_bytes = size, .writable = writable, .lender = {}});
}

// ---- Creation ----

TEST(TensorTest, IsZeroedAndPrivate) {
  const auto tensor = Tensor::Create(kFloat, {3, 4});
  ASSERT_THAT(tensor, IsOk());
  EXPECT_EQ(tensor->spec().ToString(), "float32[3, 4]");
  EXPECT_FALSE(tensor->is_shared());
  EXPECT_TRUE(tensor->writable());
  EXPECT_THAT(tensor->data<const float>().value(),
              testing::AllOf(SizeIs(12), Each(0.0f)));
}

TEST(TensorTest, FullHasTheValueInEachElement) {
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor halves, Tensor::Full({3, 5}, 0.5f));
  EXPECT_FALSE(halves.is_shared());
  EXPECT_THAT(halves.spec().shape(), ElementsAre(3, 5));
  EXPECT_THAT(halves.data<const float>().value(), Each(0.5f));
  // Large ones are in pages of their own.
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor large,
                             Tensor::Full({1 << 20}, int64_t{-7}));
  EXPECT_THAT(large.data<const int64_t>().value(), Each(-7));
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor scalar, Tensor::Full({}, uint8_t{9}));
  EXPECT_EQ(*scalar.at<const uint8_t>({}).value(), 9);
  EXPECT_THAT(Tensor::Full({0}, 1.0), IsOk());
  EXPECT_THAT(Tensor::Full({-1}, 1.0),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(TensorTest, SharedIsZeroedAndShared) {
  for (const SegmentKind kind :
       {SegmentKind::kSharedWritable, SegmentKind::kOwnerWritten}) {
    const auto tensor = Tensor::CreateShared(kFloat, {3, 4}, {.kind = kind});
    ASSERT_THAT(tensor, IsOk());
    EXPECT_TRUE(tensor->is_shared());
    EXPECT_TRUE(tensor->writable());
    EXPECT_EQ(tensor->storage()->kind(), kind);
    EXPECT_THAT(tensor->data<float>().value(), Each(0.0f));
  }
}

TEST(TensorTest, DefaultAndMovedFromHaveNoElements) {
  Tensor tensor = Counting({2});
  const Tensor moved = std::move(tensor);
  Tensor assigned = Counting({4});
  Tensor target;
  target = std::move(assigned);
  EXPECT_THAT(Elements(target), ElementsAre(0, 1, 2, 3));
  for (Tensor* const empty : {&tensor, &assigned}) {  // NOLINT: moved from.
    EXPECT_EQ(empty->storage(), nullptr);
    EXPECT_EQ(empty->spec().elements(), 0);
    EXPECT_FALSE(empty->is_shared());
    EXPECT_THAT(empty->data<float>().value(), IsEmpty());
    EXPECT_THAT(empty->Fill(1.0f), IsOk());
    EXPECT_THAT(empty->at<float>({0}), StatusIs(absl::StatusCode::kOutOfRange));
    EXPECT_THAT(empty->CopyFrom(Tensor()), IsOk());
    EXPECT_THAT(empty->Clone(), IsOk());
    EXPECT_THAT(empty->Slice(0, {}), IsOk());
    EXPECT_THAT(empty->Share(), IsOk());
    EXPECT_TRUE(empty->is_shared());
  }
}

TEST(TensorTest, ErrorsOfSpecAndStorageArePassedOn) {
  EXPECT_THAT(Tensor::Create(kFloat, {-1}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Tensor::Create({kDLInt, 4, 1}, {2}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Tensor::Create(kFloat, {int64_t{1} << 60}),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(
      Tensor::CreateShared(
          kFloat, {2},
          {.segment = {.strategy = SharingStrategy::kFileSystem,
                       .name_prefix = "no/prefix"}}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("prefix")));
}

TEST(TensorTest, FromSpecChecksThatItFits) {
  const auto storage = Storage::CreatePrivate(16);
  ASSERT_THAT(storage, IsOk());
  EXPECT_THAT(
      Tensor::FromSpec(TensorSpec::Contiguous(kFloat, {4}).value(), *storage),
      IsOk());
  EXPECT_THAT(
      Tensor::FromSpec(TensorSpec::Contiguous(kFloat, {5}).value(), *storage),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("storage of 16 bytes")));
}

TEST(TensorTest, WithoutElementsAllIsWell) {
  auto tensor = Tensor::Create(kFloat, {3, 0, 2});
  ASSERT_THAT(tensor, IsOk());
  EXPECT_THAT(tensor->data<float>().value(), IsEmpty());
  EXPECT_THAT(tensor->Fill(1.0f), IsOk());
  EXPECT_THAT(tensor->Select(0, 2).value().Clone(), IsOk());
  EXPECT_THAT(tensor->CopyFrom(*tensor), IsOk());
  EXPECT_THAT(tensor->Share(), IsOk());
  EXPECT_TRUE(tensor->is_shared());
  EXPECT_THAT(tensor->data<float>().value(), IsEmpty());
}

// ---- Access ----

TEST(TensorAccessTest, ByTypeOfTheDtypeOnly) {
  const Tensor tensor = Counting({2, 3});
  EXPECT_THAT(tensor.data<int32_t>().value(), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(tensor.data<const int32_t>(), IsOk());
  EXPECT_THAT(tensor.data<uint32_t>(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("int32[2, 3] accessed as uint32")));
  EXPECT_THAT(tensor.data<int64_t>(),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(tensor.at<float>({0, 0}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(tensor.Fill(1.0f), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(TensorAccessTest, BytesOfAnyDtype) {
  const auto tensor = Tensor::Create({kDLBfloat, 16, 3}, {5});
  ASSERT_THAT(tensor, IsOk());
  EXPECT_THAT(tensor->data<const std::byte>().value(), SizeIs(30));
  EXPECT_THAT(tensor->data<std::byte>().value(), Each(std::byte{0}));
  EXPECT_THAT(tensor->data<uint16_t>(),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(TensorAccessTest, BoolsAreBytes) {
  const auto tensor = Tensor::Create({kBoolCode, 8, 1}, {5});
  ASSERT_THAT(tensor, IsOk());
  EXPECT_THAT(tensor->Fill(uint8_t{1}), IsOk());
  EXPECT_THAT(tensor->data<const uint8_t>().value(), Each(1));
  EXPECT_THAT(tensor->data<const int8_t>(),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(TensorAccessTest, OneElement) {
  const Tensor tensor = Counting({2, 3});
  EXPECT_EQ(*tensor.at<const int32_t>({1, 1}).value(), 4);
  EXPECT_EQ(*tensor.at<const int32_t>({-1, -3}).value(), 3);
  *tensor.at<int32_t>({0, 2}).value() = 77;
  EXPECT_THAT(Elements(tensor), ElementsAre(0, 1, 77, 3, 4, 5));
  EXPECT_THAT(tensor.at<int32_t>({2, 0}),
              StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_THAT(tensor.at<int32_t>({0}),
              StatusIs(absl::StatusCode::kInvalidArgument));
  const auto scalar = Tensor::Create(kDtypeOf<std::complex<double>>, {});
  ASSERT_THAT(scalar, IsOk());
  *scalar->at<std::complex<double>>({}).value() = {1, 2};
  EXPECT_THAT(scalar->data<const std::complex<double>>().value(),
              ElementsAre(std::complex<double>(1, 2)));
}

TEST(TensorAccessTest, ReadOnlyIsNotWritten) {
  alignas(4) std::byte memory[16] = {};
  const auto tensor =
      Tensor::FromSpec(TensorSpec::Contiguous(kInt, {4}).value(),
                       Lent(memory, sizeof(memory), /*writable=*/false));
  ASSERT_THAT(tensor, IsOk());
  EXPECT_FALSE(tensor->writable());
  EXPECT_THAT(tensor->data<const int32_t>().value(), Each(0));
  EXPECT_THAT(tensor->at<const int32_t>({3}), IsOk());
  const auto refused =
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("read-only"));
  EXPECT_THAT(tensor->data<int32_t>(), refused);
  EXPECT_THAT(tensor->at<int32_t>({3}), refused);
  EXPECT_THAT(tensor->Fill(1), refused);
  EXPECT_THAT(tensor->CopyFrom(Counting({4})), refused);
  EXPECT_THAT(tensor->Select(0, 1).value().Fill(1), refused);
  EXPECT_THAT(tensor->Clone().value().Fill(1), IsOk());
}

TEST(TensorAccessTest, MemoryThatIsNotAligned) {
  alignas(8) std::byte memory[17] = {};
  const auto tensor = Tensor::FromSpec(
      TensorSpec::Contiguous(kInt, {4}).value(), Lent(memory + 1, 16));
  ASSERT_THAT(tensor, IsOk());
  const auto refused = StatusIs(absl::StatusCode::kFailedPrecondition,
                                HasSubstr("not aligned to 4 bytes"));
  EXPECT_THAT(tensor->data<int32_t>(), refused);
  EXPECT_THAT(tensor->at<const int32_t>({0}), refused);
  EXPECT_THAT(tensor->data<std::byte>(), IsOk());
  EXPECT_THAT(tensor->Fill(7), IsOk());
  EXPECT_THAT(Elements(*tensor), Each(7));
}

TEST(TensorAccessTest, SpansAreOfDenseTensorsOnly) {
  const Tensor columns = Counting({2, 3}).Transpose(0, 1).value();
  EXPECT_THAT(columns.data<int32_t>(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("not contiguous")));
  EXPECT_EQ(*columns.at<int32_t>({2, 1}).value(), 5);
}

// ---- Views and copies ----

TEST(TensorViewTest, ViewsAreOfTheSameStorage) {
  const Tensor tensor = Counting({4, 6});
  const Tensor row = tensor.Select(0, 2).value();
  const Tensor column = tensor.Select(1, -1).value();
  const Tensor block = tensor.Slice(0, {.start = 1, .step = 2})
                           .value()
                           .Slice(1, {.stop = 2})
                           .value();
  EXPECT_THAT(Elements(row), ElementsAre(12, 13, 14, 15, 16, 17));
  EXPECT_THAT(Elements(column), ElementsAre(5, 11, 17, 23));
  EXPECT_THAT(Elements(block), ElementsAre(6, 7, 18, 19));
  EXPECT_THAT(Elements(tensor.Reshape({3, -1}).value().Select(0, 1).value()),
              ElementsAre(8, 9, 10, 11, 12, 13, 14, 15));
  EXPECT_EQ(row.storage(), tensor.storage());
  ASSERT_THAT(column.Fill(-1), IsOk());
  EXPECT_EQ(*row.at<const int32_t>({5}).value(), -1);
}

TEST(TensorViewTest, OutliveTheTensorTheyAreOf) {
  std::weak_ptr<Storage> storage;
  Tensor view;
  {
    const Tensor tensor = Counting({4});
    storage = tensor.storage();
    view = tensor.Slice(0, {.start = 2}).value();
  }
  EXPECT_THAT(Elements(view), ElementsAre(2, 3));
  view = Tensor();
  EXPECT_TRUE(storage.expired());
}

TEST(TensorCopyTest, CloneIsDenseAndItsOwn) {
  const Tensor tensor = Counting({2, 3});
  const Tensor turned = tensor.Transpose(0, 1).value();
  const Tensor copy = turned.Clone().value();
  EXPECT_TRUE(copy.spec().is_contiguous());
  EXPECT_EQ(copy.spec().byte_offset(), 0u);
  EXPECT_THAT(copy.data<int32_t>().value(), ElementsAre(0, 3, 1, 4, 2, 5));
  ASSERT_THAT(copy.Fill(9), IsOk());
  EXPECT_THAT(Elements(tensor), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(TensorCopyTest, ContiguousCopiesOnlyWhatIsNot) {
  const Tensor tensor = Counting({2, 3});
  EXPECT_EQ(tensor.Contiguous().value().storage(), tensor.storage());
  const Tensor turned = tensor.Transpose(0, 1).value();
  const Tensor dense = turned.Contiguous().value();
  EXPECT_NE(dense.storage(), tensor.storage());
  EXPECT_THAT(dense.data<int32_t>().value(), ElementsAre(0, 3, 1, 4, 2, 5));
}

TEST(TensorCopyTest, FillReachesEveryElementAndNoOther) {
  const Tensor tensor = Counting({3, 3});
  ASSERT_THAT(tensor.Select(1, 1).value().Fill(-1), IsOk());
  EXPECT_THAT(Elements(tensor), ElementsAre(0, -1, 2, 3, -1, 5, 6, -1, 8));
  ASSERT_THAT(tensor.Fill(4), IsOk());
  EXPECT_THAT(Elements(tensor), Each(4));
}

TEST(TensorCopyTest, CopyFromTakesAnyStrides) {
  const Tensor tensor = Counting({2, 3});
  const Tensor to = Tensor::Create(kInt, {3, 2}).value();
  ASSERT_THAT(to.CopyFrom(tensor.Transpose(0, 1).value()), IsOk());
  EXPECT_THAT(Elements(to), ElementsAre(0, 3, 1, 4, 2, 5));
  ASSERT_THAT(to.Transpose(0, 1).value().CopyFrom(tensor), IsOk());
  EXPECT_THAT(Elements(to), ElementsAre(0, 3, 1, 4, 2, 5));
}

TEST(TensorCopyTest, OnlyOfTheSameShapeAndDtype) {
  const Tensor tensor = Counting({2, 3});
  for (const Tensor& other :
       {Counting({3, 2}), Counting({6}), Counting({2, 3, 1}),
        Tensor::Create(kFloat, {2, 3}).value()}) {
    EXPECT_THAT(tensor.CopyFrom(other),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("cannot be copied to")));
  }
}

TEST(TensorCopyTest, OverlappingIsAsIfCopiedFirst) {
  const Tensor tensor = Counting({6});
  const Tensor front = tensor.Slice(0, {.stop = 5}).value();
  const Tensor back = tensor.Slice(0, {.start = 1}).value();
  ASSERT_THAT(back.CopyFrom(front), IsOk());
  EXPECT_THAT(Elements(tensor), ElementsAre(0, 0, 1, 2, 3, 4));
  ASSERT_THAT(front.CopyFrom(back), IsOk());
  EXPECT_THAT(Elements(tensor), ElementsAre(0, 1, 2, 3, 4, 4));
  const Tensor square = Counting({3, 3});
  ASSERT_THAT(square.CopyFrom(square.Transpose(0, 1).value()), IsOk());
  EXPECT_THAT(Elements(square), ElementsAre(0, 3, 6, 1, 4, 7, 2, 5, 8));
  ASSERT_THAT(square.CopyFrom(square), IsOk());
  EXPECT_THAT(Elements(square), ElementsAre(0, 3, 6, 1, 4, 7, 2, 5, 8));
}

// Two storages over one memory: lent twice.
TEST(TensorCopyTest, OverlappingIsSeenAcrossStorages) {
  alignas(4) std::byte memory[24];
  const TensorSpec spec = TensorSpec::Contiguous(kInt, {5}).value();
  const Tensor front = Tensor::FromSpec(spec, Lent(memory, 20)).value();
  const Tensor back = Tensor::FromSpec(spec, Lent(memory + 4, 20)).value();
  ASSERT_THAT(front.CopyFrom(Counting({5})), IsOk());
  ASSERT_THAT(back.CopyFrom(front), IsOk());
  EXPECT_THAT(Elements(back), ElementsAre(0, 1, 2, 3, 4));
}

TEST(TensorCopyTest, WhereElementsAreInOnePlaceTheLastStays) {
  const auto storage = Storage::CreatePrivate(4);
  ASSERT_THAT(storage, IsOk());
  const Tensor one =
      Tensor::FromSpec(TensorSpec::Strided(kInt, {3}, {0}).value(), *storage)
          .value();
  ASSERT_THAT(one.CopyFrom(Counting({3})), IsOk());
  EXPECT_THAT(Elements(one), ElementsAre(2, 2, 2));
}

// ---- Share() ----

class TensorShareTest : public testing::TestWithParam<SharingStrategy> {
 protected:
  SegmentOptions Options() const {
    return {.strategy = GetParam(), .name_prefix = UniqueTestPrefix()};
  }
};

TEST_P(TensorShareTest, AllViewsAreSharedAndStillOneMemory) {
  Tensor tensor = Counting({4, 6});
  const Tensor row = tensor.Select(0, 2).value();
  Tensor view = tensor.Transpose(0, 1).value();
  ASSERT_THAT(view.Share(Options()), IsOk());
  EXPECT_TRUE(tensor.is_shared());
  EXPECT_TRUE(row.is_shared());
  EXPECT_THAT(Elements(row), ElementsAre(12, 13, 14, 15, 16, 17));
  ASSERT_THAT(row.Fill(3), IsOk());
  EXPECT_EQ(*tensor.at<const int32_t>({2, 5}).value(), 3);
  EXPECT_EQ(tensor.storage()->strategy(), GetParam());
  ASSERT_THAT(tensor.Share(), IsOk());
  EXPECT_EQ(tensor.storage()->strategy(), GetParam());
}

TEST_P(TensorShareTest, CreatedFromBytes) {
  const std::vector<int32_t> values = {1, 2, 3, 4, 5, 6};
  const auto bytes = std::as_bytes(std::span(values));
  for (const SegmentKind kind :
       {SegmentKind::kSharedWritable, SegmentKind::kOwnerWritten}) {
    TENON_ASSERT_OK_AND_ASSIGN(
        const Tensor tensor,
        Tensor::CreateSharedFrom(kInt, {2, 3}, bytes,
                                 {.kind = kind, .segment = Options()}));
    EXPECT_TRUE(tensor.is_shared());
    EXPECT_TRUE(tensor.writable());
    EXPECT_EQ(tensor.storage()->kind(), kind);
    EXPECT_EQ(tensor.storage()->strategy(), GetParam());
    EXPECT_THAT(Elements(tensor), ElementsAre(1, 2, 3, 4, 5, 6));
    EXPECT_THAT(Elements(tensor.Select(1, 0).value()), ElementsAre(1, 4));
    ASSERT_THAT(tensor.Fill(7), IsOk());
    EXPECT_THAT(Elements(tensor), Each(7));
    EXPECT_EQ(values[0], 1);
  }
}

TEST_P(TensorShareTest, CreatedFromAsManyBytesAsTheShapeSays) {
  const std::vector<std::byte> bytes(24);
  const SharedTensorOptions options = {.segment = Options()};
  EXPECT_THAT(
      Tensor::CreateSharedFrom(kInt, {2, 4}, bytes, options),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("Tensor::CreateSharedFrom(): 24 bytes for tensor")));
  EXPECT_THAT(
      Tensor::CreateSharedFrom(kInt, {2, 2}, bytes, options),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("want 16")));
  EXPECT_THAT(Tensor::CreateSharedFrom(kInt, {-1}, {}, options),
              StatusIs(absl::StatusCode::kInvalidArgument));
  TENON_ASSERT_OK_AND_ASSIGN(
      const Tensor empty, Tensor::CreateSharedFrom(kInt, {0, 4}, {}, options));
  EXPECT_TRUE(empty.is_shared());
}

INSTANTIATE_TEST_SUITE_P(Strategies, TensorShareTest,
                         testing::ValuesIn(AllSharingStrategies().begin(),
                                           AllSharingStrategies().end()));

// Views are made, read and dropped in many threads at once.
TEST(TensorThreadsTest, OneStorageInManyThreads) {
  const Tensor tensor = Counting({8, 100});
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < 4; ++i) {
    threads.emplace_back([&tensor, i] {
      for (int n = 0; n < 1000; ++n) {
        const Tensor mine = tensor.Select(0, i).value();
        ASSERT_THAT(mine.Fill(n), IsOk());
        ASSERT_THAT(mine.data<const int32_t>().value(), Each(n));
        ASSERT_EQ(*tensor.at<const int32_t>({7, 99}).value(), 799);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(Elements(tensor.Select(0, 3).value()), Each(999));
}

// ---- Beyond 4 GiB ----

// Occupies two pages: only those are touched.
TEST(TensorLargeTest, FiveGibibytes) {
  const auto tensor = Tensor::Create(kDtypeOf<uint8_t>, {5, 1 << 30},
                                     MemoryInit::kUninitialized);
  ASSERT_THAT(tensor, IsOk());
  EXPECT_EQ(tensor->spec().bytes(), 5ll << 30);
  *tensor->at<uint8_t>({0, 0}).value() = 1;
  *tensor->at<uint8_t>({4, -1}).value() = 2;
  const auto bytes = tensor->data<const uint8_t>().value();
  EXPECT_EQ(bytes.size(), 5ull << 30);
  EXPECT_EQ(bytes.front(), 1);
  EXPECT_EQ(bytes.back(), 2);
  const Tensor last = tensor->Select(0, 4).value();
  EXPECT_EQ(*last.at<const uint8_t>({(1 << 30) - 1}).value(), 2);
  const Tensor end =
      tensor->Reshape({-1}).value().Slice(0, {.start = -3}).value();
  ASSERT_THAT(end.Fill(uint8_t{7}), IsOk());
  EXPECT_THAT(end.Clone().value().data<const uint8_t>().value(), Each(7));
  EXPECT_EQ(bytes[(5ull << 30) - 3], 7);
}

}  // namespace
}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/data/batch_layout.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/data/sample_spec.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor_spec.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

TEST(BatchLayoutTest, PutsAlignedFieldsBehindOneAnother) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto layout, BatchLayout::Create(SampleSpec()
                                                 .Add<int64_t>("label")
                                                 .Add<float>("image", {3, 5, 7})
                                                 .Add<uint8_t>("flag", {2}),
                                             10));
  const auto& fields = layout.fields();
  EXPECT_EQ(fields[0].sample_bytes, 8);
  EXPECT_EQ(fields[1].sample_bytes, 3 * 5 * 7 * 4);
  EXPECT_EQ(fields[2].sample_bytes, 2);
  EXPECT_EQ(fields[0].offset, 0);
  EXPECT_EQ(fields[1].offset, 128);         // 80 bytes, rounded up.
  EXPECT_EQ(fields[2].offset, 128 + 4224);  // 4200, rounded up.
  EXPECT_EQ(layout.total_bytes(), 128 + 4224 + 64);
  EXPECT_EQ(fields[0].tensor.spec().ToString(), "int64[10]");
  const TensorSpec& images = fields[1].tensor.spec();
  EXPECT_THAT(images.shape(), ::testing::ElementsAre(10, 3, 5, 7));
  EXPECT_EQ(images.byte_offset(), 128u);
  EXPECT_TRUE(images.is_contiguous());
}

TEST(BatchLayoutTest, AFieldWithoutBytesHasAnOffset) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto layout,
      BatchLayout::Create(SampleSpec().Add<float>("none", {0, 3}), 4));
  EXPECT_EQ(layout.fields()[0].sample_bytes, 0);
  EXPECT_EQ(layout.total_bytes(), BatchLayout::kAlignment);
}

TEST(BatchLayoutTest, FindsFieldsByName) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto layout,
      BatchLayout::Create(SampleSpec().Add<float>("a").Add<float>("b"), 1));
  EXPECT_THAT(layout.Find("b"), IsOkAndHolds(1));
  EXPECT_THAT(layout.Find("c"),
              StatusIs(StatusCode::kNotFound,
                       AllOf(HasSubstr("'c'"), HasSubstr("a, b"))));
  EXPECT_THAT(layout.CheckTensor(1), IsOk());
  EXPECT_THAT(layout.CheckTensor(2),
              StatusIs(StatusCode::kNotFound, HasSubstr("2 fields")));
  EXPECT_THAT(layout.CheckTensor(-1), StatusIs(StatusCode::kNotFound));
}

TEST(BatchLayoutTest, Refuses) {
  const auto refused = [](const SampleSpec& spec, int64_t batch_size,
                          const char* why) {
    EXPECT_THAT(BatchLayout::Create(spec, batch_size),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  refused(SampleSpec().Add<float>("a"), 0, "batch_size");
  refused(SampleSpec().Add<float>("a"), -1, "batch_size");
  refused(SampleSpec(), 1, "a sample needs a field");
  refused(SampleSpec().Add<float>("a", {kHuge / 8}), 3,
          "a batch of 3 samples of field 'a'");
  refused(SampleSpec()
              .Add<float>("a", {kHuge / 8})
              .Add<float>("b", {kHuge / 8})
              .Add<float>("c", {4}),
          1, "larger than 2^63-1");
  refused(SampleSpec().Add<float>("deep", {1, 1, 1, 1, 1, 1, 1, 1}), 1,
          "field 'deep'");
}

TEST(BatchLayoutTest, ATableForFieldsWhoseShapeDiffers) {
  const SampleSpec spec = SampleSpec()
                              .AddText("file")
                              .Add<int64_t>("label")
                              .AddInput<float>("wave")
                              .AddPadded<float>("ids", 0);
  TENON_ASSERT_OK_AND_ASSIGN(const auto layout, BatchLayout::Create(spec, 10));
  EXPECT_EQ(layout.varying(), 3);
  EXPECT_EQ(layout.rows(), 4);
  EXPECT_EQ(layout.fields()[1].offset, 0);
  EXPECT_EQ(layout.table_offset(), 128);
  EXPECT_EQ(layout.total_bytes(), 128 + 4 * 144);
  EXPECT_THAT(layout.FindTensor("label"), IsOkAndHolds(2));
  EXPECT_THAT(layout.FindTensor("ids.lengths"), IsOkAndHolds(4));
  EXPECT_THAT(layout.FindTensor("wave"), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(layout.CheckTensor(5), StatusIs(StatusCode::kNotFound));
  TENON_ASSERT_OK_AND_ASSIGN(const auto alone,
                             BatchLayout::Create(spec, std::nullopt));
  EXPECT_TRUE(alone.unbatched());
  EXPECT_EQ(alone.rows(), 2);
}

TEST(BatchLayoutTest, ReadsNoTableThatAWorkerCouldNotWrite) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto layout, BatchLayout::Create(SampleSpec().AddText("file"), 10));
  alignas(64) std::byte block[512] = {};
  const auto put = [&](int row, const TensorSpec& spec) {
    std::memcpy(
        block + layout.table_offset() + static_cast<size_t>(row) * sizeof(spec),
        &spec, sizeof(spec));
  };
  const auto spec = [](DLDataType dtype, int64_t extent, uint64_t offset) {
    return *TensorSpec::Contiguous(dtype, {extent}, offset);
  };
  put(0, spec(kDtypeOf<uint8_t>, 4, 320));
  put(1, spec(kDtypeOf<int64_t>, 11, 384));
  TENON_ASSERT_OK_AND_ASSIGN(const auto table, layout.ReadTable(block, 10));
  EXPECT_EQ(table[1].spec().byte_offset(), 384u);
  const auto refused = [&](const char* why) {
    EXPECT_THAT(layout.ReadTable(block, 10),
                StatusIs(StatusCode::kDataLoss, HasSubstr(why)));
  };
  EXPECT_THAT(layout.ReadTable(std::span(block).first(287), 10),
              StatusIs(StatusCode::kDataLoss, HasSubstr("block of 287 bytes")));
  put(1, spec(kDtypeOf<int64_t>, 11, 432));  // 8 bytes too far.
  refused("tensor 'file.offsets' of a batch: ");
  put(1, spec(kDtypeOf<int32_t>, 11, 384));
  refused("is int32; want int64");
  put(1, spec(kDtypeOf<int64_t>, 10, 384));
  refused("'file.offsets' of a batch of 10 samples is int64[10] at byte 384");
  put(1, *TensorSpec::Strided(kDtypeOf<int64_t>, {11}, {0}, 384));
  refused("of a batch of 10 samples is int64[11] with strides [0]");
  put(1, TensorSpec());
  std::memset(block + layout.table_offset() + 144 + 16, 0xff, 128);
  refused("tensor 'file.offsets' of a batch");
}

TEST(BatchLayoutTest, ATableHasTheShapesOfItsFields) {
  using Shapes = std::vector<std::vector<int64_t>>;
  const auto read = [](const SampleSpec& spec, std::optional<int64_t> batch,
                       int64_t samples, const Shapes& shapes) {
    const BatchLayout layout = *BatchLayout::Create(spec, batch);
    EXPECT_EQ(layout.rows(), std::ssize(shapes));
    std::vector<std::byte> block(4096);
    for (const BatchLayout::BatchTensor& tensor : layout.tensors()) {
      const TensorSpec row = *TensorSpec::Contiguous(
          tensor.dtype, shapes[static_cast<size_t>(tensor.row)], 1024);
      std::memcpy(block.data() + layout.table_offset() +
                      static_cast<size_t>(tensor.row) * sizeof(row),
                  &row, sizeof(row));
    }
    return layout.ReadTable(block, samples).status();
  };
  const auto bad =
      StatusIs(StatusCode::kDataLoss, HasSubstr("which the field cannot have"));
  const SampleSpec padded = SampleSpec().AddPadded<float>("f", 0, {2});
  EXPECT_THAT(read(padded, 4, 3, {{3, 7, 2}, {3}}), IsOk());
  EXPECT_THAT(read(padded, 4, 3, {{4, 7, 2}, {3}}), bad);
  EXPECT_THAT(read(padded, 4, 3, {{3, 7, 1}, {3}}), bad);
  EXPECT_THAT(read(padded, 4, 3, {{3, 7}, {3}}), bad);
  EXPECT_THAT(read(padded, 4, 3, {{3, 7, 2}, {2}}), bad);
  EXPECT_THAT(read(padded, 4, 0, {{0, 0, 2}, {0}}), IsOk());
  EXPECT_THAT(read(padded, std::nullopt, 1, {{7, 2}}), IsOk());
  EXPECT_THAT(read(padded, std::nullopt, 1, {{7}}), bad);
  EXPECT_THAT(read(padded, std::nullopt, 0, {{0}}), IsOk());
  const SampleSpec ragged = SampleSpec().AddRagged<float>("f", {2});
  EXPECT_THAT(read(ragged, 4, 3, {{7, 2}, {4}}), IsOk());
  EXPECT_THAT(read(ragged, 4, 3, {{7, 3}, {4}}), bad);
  EXPECT_THAT(read(ragged, 4, 3, {{7, 2}, {3}}), bad);
  const SampleSpec packed = SampleSpec().AddPacked<float>("f", 8, 0);
  EXPECT_THAT(read(packed, 4, 3, {{2, 8}, {2, 8}, {2, 8}}), IsOk());
  EXPECT_THAT(read(packed, 4, 3, {{2, 9}, {2, 8}, {2, 8}}), bad);
  EXPECT_THAT(read(packed, 4, 3, {{2, 8}, {2, 8}, {1, 8}}), bad);
  const SampleSpec stacked = SampleSpec().AddStacked<float>("f");
  EXPECT_THAT(read(stacked, 4, 3, {{3, 5}}), IsOk());
  EXPECT_THAT(read(stacked, 4, 3, {{4, 5}}), bad);
  EXPECT_THAT(read(stacked, 4, 3, {{}}), bad);
  EXPECT_THAT(read(stacked, std::nullopt, 1, {{}}), IsOk());
  const SampleSpec output = SampleSpec().AddOutput<float>("f");
  EXPECT_THAT(read(output, 4, 3, {{9, 9}}), IsOk());
}

}  // namespace
}  // namespace tenon::loader

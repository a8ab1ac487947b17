// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/data/sample.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/loader/data/sample_spec.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class SampleTest : public ::testing::Test {
 protected:
  static constexpr int64_t kBatch = 4;

  BatchLayout layout_ =
      *BatchLayout::Create(SampleSpec()
                               .Add<float>("image", {2, 3})
                               .Add<int64_t>("label")
                               .Add("flag", {kBoolCode, 8, 1}),
                           kBatch);
  // Of the alignment of a block.
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> memory_ =
      std::vector<Line>(static_cast<size_t>(layout_.total_bytes()) / 64);
  std::byte* memory() { return memory_.data()->bytes; }
};

TEST_F(SampleTest, ASampleThatIsNotOfTheSpanIsEmpty) {
  const SampleSpan span(layout_, memory(), 1, 2);
  EXPECT_EQ(span.sample(1).size(), 1);
  for (const int64_t i : {int64_t{-1}, int64_t{2}, INT64_MAX}) {
    EXPECT_EQ(span.sample(i).size(), 0);
    EXPECT_THAT(span.sample(i).Set("label", int64_t{1}),
                StatusIs(StatusCode::kInvalidArgument,
                         HasSubstr("the field has 0 elements")));
  }
}

TEST_F(SampleTest, WritesToItsPlace) {
  const Sample sample(layout_, memory(), 2, 1);
  TENON_ASSERT_OK_AND_ASSIGN(const absl::Span<float> image,
                             sample.data<float>("image"));
  ASSERT_THAT(image, SizeIs(6));
  EXPECT_EQ(reinterpret_cast<std::byte*>(image.data()), memory() + 2 * 24);
  ASSERT_THAT(sample.Set("label", int64_t{77}), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const absl::Span<int64_t> label,
                             sample.data<int64_t>(1));
  EXPECT_EQ(label[0], 77);
  EXPECT_EQ(reinterpret_cast<std::byte*>(label.data()),
            memory() + layout_.fields()[1].offset + 16);
}

TEST_F(SampleTest, SeveralSamplesAreOneSpan) {
  const SampleSpan samples(layout_, memory(), 1, 3);
  TENON_ASSERT_OK_AND_ASSIGN(const absl::Span<float> images,
                             samples.data<float>("image"));
  EXPECT_THAT(images, SizeIs(18));
  TENON_ASSERT_OK_AND_ASSIGN(const absl::Span<float> third,
                             samples.sample(2).data<float>("image"));
  EXPECT_EQ(third.data(), images.data() + 12);
  EXPECT_THAT(samples.Set("label", int64_t{1}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("3 elements")));
}

TEST_F(SampleTest, WrongElementTypesAreRefusedByDtypeNotBySize) {
  const Sample sample(layout_, memory(), 0, 1);
  EXPECT_THAT(sample.data<int32_t>("image"),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("'image'"), HasSubstr("float32"),
                             HasSubstr("int32"))));
  EXPECT_THAT(sample.data<double>("label"),
              StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(sample.data<uint64_t>("label"),
              StatusIs(StatusCode::kInvalidArgument));
  EXPECT_THAT(sample.Set("label", 1),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("int32")));
}

TEST_F(SampleTest, BytesOfAnyTypeAndBoolsAsUint8) {
  const Sample sample(layout_, memory(), 0, 1);
  TENON_ASSERT_OK_AND_ASSIGN(const auto bytes, sample.data<std::byte>("image"));
  EXPECT_THAT(bytes, SizeIs(24));
  EXPECT_THAT(sample.Set("flag", uint8_t{1}), IsOk());
  EXPECT_THAT(sample.data<int8_t>("flag"),
              StatusIs(StatusCode::kInvalidArgument));
}

TEST_F(SampleTest, WithSomeFieldsTheyAreNumberedFromTheFirst) {
  const Sample whole(layout_, memory(), 2, 1);
  const Sample part = whole.WithFields(1, 1);
  ASSERT_THAT(part.Set(0, int64_t{5}), IsOk());
  EXPECT_EQ(whole.data<int64_t>("label")->front(), 5);
  ASSERT_THAT(part.Set("label", int64_t{6}), IsOk());
  EXPECT_EQ(whole.data<int64_t>(1)->front(), 6);
  EXPECT_EQ(part.sample(0).data<int64_t>(0)->data(),
            whole.data<int64_t>(1)->data());
  EXPECT_THAT(part.data<float>("image"),
              StatusIs(StatusCode::kNotFound,
                       HasSubstr("'image' is not among those of this part")));
  EXPECT_THAT(part.data<uint8_t>("flag"), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(part.data<int64_t>(1),
              StatusIs(StatusCode::kNotFound, HasSubstr("there are 1 fields")));
}

TEST_F(SampleTest, UnknownFieldsAreErrors) {
  const Sample sample(layout_, memory(), 0, 1);
  EXPECT_THAT(sample.data<float>("depth"),
              StatusIs(StatusCode::kNotFound,
                       AllOf(HasSubstr("'depth'"), HasSubstr("image, label"))));
  EXPECT_THAT(sample.data<float>(3), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(sample.data<float>(-1), StatusIs(StatusCode::kNotFound));
}

TEST_F(SampleTest, ErrorsNameTheCallOnce) {
  const Sample sample(layout_, memory(), 0, 1);
  const auto is = [](StatusCode code, const std::string& call) {
    return StatusIs(code, AllOf(::testing::StartsWith(call),
                                ::testing::Not(HasSubstr("): Sample::"))));
  };
  EXPECT_THAT(sample.data<float>(3),
              is(StatusCode::kNotFound, "Sample::data(): there is no field 3"));
  EXPECT_THAT(
      sample.data<int8_t>("label"),
      is(StatusCode::kInvalidArgument, "Sample::data(): field 'label'"));
  EXPECT_THAT(
      sample.Allocate<float>(3, {1}),
      is(StatusCode::kNotFound, "Sample::Allocate(): there is no field 3"));
  EXPECT_THAT(
      sample.Allocate<int8_t>("label", {}),
      is(StatusCode::kInvalidArgument, "Sample::Allocate(): field 'label'"));
  EXPECT_THAT(
      sample.SetText(3, "x"),
      is(StatusCode::kNotFound, "Sample::SetText(): there is no field 3"));
}

}  // namespace
}  // namespace tenon::loader

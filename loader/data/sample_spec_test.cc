// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/data/sample_spec.h"

#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "dlpack/dlpack.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor_spec.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(SampleSpecTest, NamesTypesAndShapes) {
  const SampleSpec spec = SampleSpec()
                              .Add<float>("image", {3, 224, 224})
                              .Add<int64_t>("label")
                              .Add("mask", {kBoolCode, 8, 1}, {224, 224});
  EXPECT_THAT(spec.status(), IsOk());
  ASSERT_THAT(spec.fields(), SizeIs(3));
  EXPECT_EQ(spec.fields()[0].name, "image");
  EXPECT_THAT(spec.fields()[0].tensor.shape(), ElementsAre(3, 224, 224));
  EXPECT_TRUE(SameDtype(spec.fields()[1].tensor.dtype(), kDtypeOf<int64_t>));
  EXPECT_EQ(spec.fields()[1].tensor.elements(), 1);
  EXPECT_EQ(spec.ToString(),
            "image: float32[3, 224, 224], label: int64[], mask: bool8[224, "
            "224]");
}

TEST(SampleSpecTest, KeepsTheFirstError) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const auto refused = [](const SampleSpec& spec, const char* why) {
    EXPECT_THAT(spec.status(),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  refused(SampleSpec(), "a sample needs a field");
  refused(SampleSpec().Add<float>(""), "is empty");
  refused(SampleSpec().Add<float>("a").Add<float>("a", {2}),
          "two fields have the name 'a'");
  refused(SampleSpec().Add<float>("a", {-1}), "field 'a'");
  refused(SampleSpec().Add<float>("a", {kMost}), "field 'a'");
  refused(SampleSpec().Add("a", {kDLInt, 4, 1}), "field 'a'");
  refused(SampleSpec().Add("a", {kDLInt, 8, 0}), "field 'a'");
  refused(SampleSpec().Add<float>("a", {-1}).Add<float>(""), "field 'a'");
}

TEST(SampleSpecTest, FieldsWhoseShapeDiffers) {
  const SampleSpec spec = SampleSpec()
                              .AddPadded<int16_t>("ids", 258)
                              .AddRagged<float>("boxes", {4})
                              .AddPacked<uint8_t>("tokens", 512, 7, {2})
                              .AddStacked<float>("image")
                              .AddText("file")
                              .AddInput<float>("wave")
                              .AddOutput<double>("sum");
  EXPECT_THAT(spec.status(), IsOk());
  EXPECT_EQ(spec.ToString(),
            "ids: int16[?] padded (0201), boxes: float32[?, 4] ragged, tokens: "
            "uint8[?, 2] packed in rows of 512 (07), image: float32 stacked, "
            "file: text, wave: float32 input, sum: float64 output");
  EXPECT_THAT(spec.fields()[0].BatchNames(), ElementsAre("ids", "ids.lengths"));
  EXPECT_THAT(spec.fields()[1].BatchNames(),
              ElementsAre("boxes", "boxes.offsets"));
  EXPECT_THAT(spec.fields()[2].BatchNames(),
              ElementsAre("tokens", "tokens.segments", "tokens.positions"));
  EXPECT_THAT(spec.fields()[5].BatchNames(), SizeIs(0));
}

TEST(SampleSpecTest, RefusesFieldsWhoseShapeDiffers) {
  const auto refused = [](const SampleSpec& spec, const char* why) {
    EXPECT_THAT(spec.status(),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  refused(SampleSpec().AddText("a").Add<int64_t>("a.offsets"),
          "a batch has two tensors 'a.offsets', of fields 'a' and 'a.offsets'");
  refused(SampleSpec().Add<float>("a.lengths").AddPadded<float>("a", 0),
          "two tensors 'a.lengths'");
  refused(SampleSpec().AddPacked<float>("a", 0, 0), "has rows of 0");
  refused(SampleSpec().AddPacked<float>("a", int64_t{1} << 31, 0), "rows of 2");
  refused(SampleSpec().AddRagged<float>("a", {-1}), "field 'a'");
  refused(SampleSpec().Add({.name = "a",
                            .tensor = {},
                            .kind = FieldKind::kPadded,
                            .padding = "ab"}),
          "has a padding of 2 bytes; want 4");
  for (const TensorSpec& tensor :
       {*TensorSpec::Contiguous(kDtypeOf<float>, {}),
        *TensorSpec::Contiguous(kDtypeOf<int8_t>, {}),
        *TensorSpec::Contiguous(kDtypeOf<uint8_t>, {4})}) {
    refused(SampleSpec().Add(
                {.name = "a", .tensor = tensor, .kind = FieldKind::kText}),
            "field 'a' is text of ");
  }
  refused(SampleSpec().Add({.name = "a", .tensor = {}, .padding = "ab"}),
          "has a padding of 2 bytes; want 0");
}

}  // namespace
}  // namespace tenon::loader

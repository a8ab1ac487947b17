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

}  // namespace
}  // namespace tenon::loader

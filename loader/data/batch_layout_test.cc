// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/data/batch_layout.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/data/field.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::HasSubstr;

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

FieldSpec Floats(std::string name, std::vector<int64_t> shape) {
  return {std::move(name), DtypeOf<float>(), std::move(shape)};
}

TEST(BatchLayoutTest, PutsAlignedFieldsBehindOneAnother) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto layout,
      BatchLayout::Create({{"label", DtypeOf<int64_t>(), {}},
                           Floats("image", {3, 5, 7}),
                           {"flag", DtypeOf<uint8_t>(), {2}}},
                          10));
  EXPECT_EQ(layout.sample_bytes(0), 8);
  EXPECT_EQ(layout.sample_bytes(1), 3 * 5 * 7 * 4);
  EXPECT_EQ(layout.sample_bytes(2), 2);
  EXPECT_EQ(layout.offset(0), 0);
  EXPECT_EQ(layout.offset(1), 128);         // 80 bytes, rounded up.
  EXPECT_EQ(layout.offset(2), 128 + 4224);  // 4200, rounded up.
  EXPECT_EQ(layout.total_bytes(), 128 + 4224 + 64);
}

TEST(BatchLayoutTest, AFieldOfNoBytesHasAPlace) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto layout,
                             BatchLayout::Create({Floats("none", {0, 3})}, 4));
  EXPECT_EQ(layout.sample_bytes(0), 0);
  EXPECT_EQ(layout.total_bytes(), BatchLayout::kAlignment);
}

TEST(BatchLayoutTest, Refuses) {
  const auto refused = [](std::vector<FieldSpec> fields, int64_t batch_size,
                          const char* why) {
    EXPECT_THAT(BatchLayout::Create(std::move(fields), batch_size),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr(why)));
  };
  refused({Floats("a", {})}, 0, "batch_size");
  refused({Floats("a", {})}, -1, "batch_size");
  refused({}, 1, "at least one field");
  refused({Floats("a", {}), Floats("a", {2})}, 1, "two fields");
  refused({Floats("a", {-1})}, 1, "negative extent");
  refused({Floats("a", {kHuge})}, 1, "larger than 2^63-1");
  refused({Floats("a", {kHuge / 8})}, 3, "larger than 2^63-1");
  refused(
      {Floats("a", {kHuge / 8}), Floats("b", {kHuge / 8}), Floats("c", {4})}, 1,
      "larger than 2^63-1");
  refused({{"a", {kDLInt, 4, 1}, {}}}, 1, "whole bytes");
  refused({{"a", {kDLInt, 0, 1}, {}}}, 1, "whole bytes");
  refused({{"a", {kDLInt, 8, 0}, {}}}, 1, "lane");
}

TEST(FieldTest, InWords) {
  EXPECT_EQ(FieldToString(Floats("image", {3, 224, 224})),
            "image: float32[3, 224, 224]");
  EXPECT_EQ(FieldToString({"x", {kDLUInt, 8, 4}, {}}), "x: uint8x4[]");
}

}  // namespace
}  // namespace tenon::loader

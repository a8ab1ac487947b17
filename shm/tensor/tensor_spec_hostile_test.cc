// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Specs whose bytes came from a peer.

#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "dlpack/dlpack.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/tensor/tensor_spec.h"
#include "tenon/shm/tensor/tensor_spec_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

// Functions that must not crash, whatever the bytes, nor overflow under UBSan.
void UseEverything(const TensorSpec& spec) {
  EXPECT_LE(spec.shape().size(), 8u);
  EXPECT_EQ(spec.strides().size(), spec.shape().size());
  EXPECT_GE(spec.rank(), 0);
  spec.element_bytes();
  spec.elements();
  spec.bytes();
  spec.is_contiguous();
  spec.byte_range();
  EXPECT_THAT(spec.ToString(), HasSubstr("["));
  spec.ByteOffsetOf(Numbers(spec.rank(), 0)).IgnoreError();
  spec.ByteOffsetOf(Numbers(spec.rank(), -1)).IgnoreError();
  EXPECT_TRUE(spec == spec);
  for (const int dim : {-1, 0, 7, std::numeric_limits<int>::min()}) {
    spec.Slice(dim, {.start = 1, .step = kMax}).IgnoreError();
    spec.Slice(dim, {.start = kMin, .stop = kMax}).IgnoreError();
    spec.Select(dim, -1).IgnoreError();
    spec.Select(dim, kMin).IgnoreError();
    spec.Transpose(dim, 0).IgnoreError();
  }
  spec.Reshape({-1}).IgnoreError();
  spec.Reshape({2, -1, kMax}).IgnoreError();
}

TEST(HostileTensorSpecTest, ExtremesOfEveryNumber) {
  const Numbers extremes = {kMin, kMin + 1, -1, 0, 1, 2, kMax - 1, kMax};
  int fitting = 0;
  for (const int64_t extent : extremes) {
    for (const int64_t other : extremes) {
      for (const int64_t stride : extremes) {
        for (const int64_t other_stride : extremes) {
          for (const uint64_t offset : {uint64_t{0}, kAnySize - 1, kAnySize}) {
            const TensorSpec spec =
                FromRaw(Raw({extent, other}, {stride, other_stride}, offset));
            UseEverything(spec);
            fitting += spec.CheckFits(kAnySize).ok();
          }
        }
      }
    }
  }
  EXPECT_GT(fitting, 100);
}

TEST(HostileTensorSpecTest, RanksThatThereAreNot) {
  for (const int rank : {-1, 9, 255, std::numeric_limits<int32_t>::max(),
                         std::numeric_limits<int32_t>::min()}) {
    RawSpec raw = Raw({2, 2, 2, 2, 2, 2, 2, 2}, {1, 1, 1, 1, 1, 1, 1, 1});
    raw.rank = rank;
    const TensorSpec spec = FromRaw(raw);
    UseEverything(spec);
    EXPECT_THAT(spec.CheckFits(kAnySize),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("rank " + std::to_string(rank))));
    EXPECT_THAT(spec.Slice(0, {}),
                StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(spec.Select(0, 0),
                StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(spec.Transpose(0, 1),
                StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(spec.Reshape({-1}),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

TEST(HostileTensorSpecTest, DtypesThatThereAreNot) {
  for (const int bits : {0, 4, 12, 255}) {
    for (const int lanes : {0, 1, 65535}) {
      RawSpec raw = Raw({2}, {1});
      raw.dtype = {255, static_cast<uint8_t>(bits),
                   static_cast<uint16_t>(lanes)};
      const TensorSpec spec = FromRaw(raw);
      UseEverything(spec);
      EXPECT_THAT(spec.CheckFits(kAnySize),
                  StatusIs(absl::StatusCode::kInvalidArgument));
    }
  }
  RawSpec raw = Raw({2}, {1});
  raw.dtype = {kDLInt, 32, 0};
  const TensorSpec spec = FromRaw(raw);
  UseEverything(spec);
  EXPECT_THAT(
      spec.CheckFits(kAnySize),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("have a lane")));
}

TEST(HostileTensorSpecTest, NumbersBeyondTheRank) {
  for (const bool in_shape : {false, true}) {
    RawSpec raw = Raw({2}, {1});
    (in_shape ? raw.shape : raw.strides)[7] = 1;
    EXPECT_THAT(FromRaw(raw).CheckFits(kAnySize),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("beyond its rank")));
  }
}

TEST(HostileTensorSpecTest, ReachesThatWrapAroundToWhereTheyBegan) {
  // 2^62 * 4 and 2^63 * 2 are 0 modulo 2^64.
  for (const RawSpec& raw :
       {Raw({5}, {int64_t{1} << 62}), Raw({3}, {kMin}, uint64_t{1} << 63),
        Raw({2, 2}, {kMax, kMax}), Raw({2, 2}, {kMin, kMin}, kAnySize),
        Raw({int64_t{1} << 32, int64_t{1} << 32}, {0, 0})}) {
    const TensorSpec spec = FromRaw(raw);
    UseEverything(spec);
    EXPECT_THAT(spec.CheckFits(kAnySize),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << spec.ToString();
  }
}

TEST(HostileTensorSpecTest, OffsetsAtTheEndOfAllNumbers) {
  EXPECT_THAT(FromRaw(Raw({1}, {1}, kAnySize)).CheckFits(kAnySize),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(FromRaw(Raw({0}, {1}, kAnySize)).CheckFits(kAnySize), IsOk());
  EXPECT_THAT(FromRaw(Raw({1}, {1}, kAnySize - 1)).CheckFits(kAnySize), IsOk());
  EXPECT_THAT(FromRaw(Raw({2}, {1}, kAnySize - 1)).CheckFits(kAnySize),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(FromRaw(Raw({2}, {kMin}, uint64_t{1} << 63)).CheckFits(kAnySize),
              IsOk());
  EXPECT_THAT(
      FromRaw(Raw({2}, {kMin}, (uint64_t{1} << 63) - 1)).CheckFits(kAnySize),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("1 bytes before")));
}

}  // namespace
}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/tensor/strided_copy.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "dlpack/dlpack.h"
#include "gtest/gtest.h"
#include "tenon/shm/tensor/tensor_spec.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using Extents = std::vector<int64_t>;
using Bytes = std::vector<std::byte>;

Bytes RandomBytes(size_t size, std::mt19937_64& random) {
  Bytes bytes(size);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

// Calls `visit` with every index, in row-major order.
void ForEachIndex(const TensorSpec& spec,
                  const std::function<void(const Extents&)>& visit) {
  if (spec.elements() == 0) return;
  Extents index(spec.rank(), 0);
  for (;;) {
    visit(index);
    int i = spec.rank();
    while (i > 0 && index[i - 1] == spec.shape()[i - 1] - 1) index[--i] = 0;
    if (i == 0) return;
    ++index[i - 1];
  }
}

// By the definition: element by element.
void PlainCopy(const TensorSpec& to, std::byte* to_bytes,
               const TensorSpec& from, const std::byte* from_bytes) {
  ForEachIndex(to, [&](const Extents& index) {
    std::memcpy(to_bytes + to.ByteOffsetOf(index).value(),
                from_bytes + from.ByteOffsetOf(index).value(),
                to.element_bytes());
  });
}

// Random strides: often dense in some dimensions, sometimes 0 or negative.
TensorSpec RandomSpec(DLDataType dtype, const Extents& shape,
                      std::mt19937_64& random) {
  Extents order(shape.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  if (random() % 2 == 0) std::shuffle(order.begin(), order.end(), random);
  Extents strides(shape.size());
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    const auto at = static_cast<size_t>(order[i]);
    if (random() % 4 == 0) stride += static_cast<int64_t>(random() % 3);
    strides[at] = stride;
    stride *= std::max<int64_t>(shape[at], 1);
    if (random() % 8 == 0) strides[at] = -strides[at];
    if (random() % 16 == 0) strides[at] = 0;
  }
  return TensorSpec::Anchored(dtype, shape, strides).value();
}

TEST(StridedCopyTest, IsWhatTheDefinitionSays) {
  std::mt19937_64 random(1);
  int copied = 0;
  int in_runs = 0;
  for (int round = 0; round < 20'000; ++round) {
    static constexpr uint8_t kBits[] = {8, 16, 24, 32, 64, 128};
    const DLDataType dtype = {kDLUInt, kBits[random() % 6],
                              static_cast<uint16_t>(1 + random() % 3)};
    Extents shape(random() % 5);
    for (int64_t& extent : shape) {
      extent = static_cast<int64_t>(random() % 16 == 0 ? 0 : 1 + random() % 4);
    }
    const TensorSpec to = RandomSpec(dtype, shape, random);
    const TensorSpec from = RandomSpec(dtype, shape, random);
    // Of exactly their size, for AddressSanitizer to guard.
    const Bytes source = RandomBytes(from.byte_range().end, random);
    Bytes expected = RandomBytes(to.byte_range().end, random);
    const Bytes before = expected;
    Bytes copy = before;
    PlainCopy(to, expected.data(), from, source.data());
    StridedCopy({to, copy.data()}, {from, source.data()});
    ASSERT_EQ(copy, expected) << to.ToString() << " from " << from.ToString();
    copied += to.elements() > 1;
    // By runs as well, from the same bytes.
    copy = before;
    uint64_t runs = 0;
    ASSERT_THAT(ForEachRun(to, from,
                           [&](const StridedRun& run) {
                             std::memcpy(copy.data() + run.to,
                                         source.data() + run.from, run.bytes);
                             ++runs;
                             return absl::OkStatus();
                           }),
                IsOk());
    ASSERT_EQ(copy, expected) << to.ToString() << " from " << from.ToString();
    ASSERT_EQ(CountRuns(to, from), runs);
    in_runs += runs < static_cast<uint64_t>(to.elements());
  }
  EXPECT_GT(copied, 10'000);
  EXPECT_GT(in_runs, 1'000);
}

TEST(StridedCopyTest, LargeAndDenseIsOneStep) {
  const auto spec = TensorSpec::Contiguous({kDLUInt, 8, 1}, {256, 256, 64});
  ASSERT_THAT(spec, IsOk());
  std::mt19937_64 random(2);
  const Bytes source = RandomBytes(spec->bytes(), random);
  Bytes copy(spec->bytes());
  StridedCopy({*spec, copy.data()}, {*spec, source.data()});
  EXPECT_EQ(copy, source);
  EXPECT_EQ(CountRuns(*spec, *spec), 1u);
}

TEST(StridedCopyTest, RunsEndWithTheFirstError) {
  const auto to = TensorSpec::Contiguous({kDLUInt, 8, 1}, {4, 2});
  const auto from = TensorSpec::Strided({kDLUInt, 8, 1}, {4, 2}, {8, 1});
  ASSERT_EQ(CountRuns(*to, *from), 4u);
  int runs = 0;
  EXPECT_THAT(ForEachRun(*to, *from,
                         [&](const StridedRun& run) {
                           EXPECT_EQ(run.bytes, 2u);
                           return ++runs == 3 ? absl::UnknownError("third")
                                              : absl::OkStatus();
                         }),
              StatusIs(absl::StatusCode::kUnknown));
  EXPECT_EQ(runs, 3);
}

TEST(StridedCopyDeathTest, OfDifferentShapesIsAMistake) {
  const auto two = TensorSpec::Contiguous({kDLUInt, 8, 1}, {2});
  const auto three = TensorSpec::Contiguous({kDLUInt, 8, 1}, {3});
  const auto wide = TensorSpec::Contiguous({kDLUInt, 16, 1}, {2});
  std::byte bytes[8] = {};
  EXPECT_DEATH(StridedCopy({*two, bytes}, {*three, bytes}), "different shape");
  EXPECT_DEATH(StridedCopy({*two, bytes}, {*wide, bytes}), "or dtype");
}

}  // namespace
}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/value/byte_array.h"

#include <fcntl.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm/value/array.h"

namespace tenon {
namespace {

constexpr ByteArray::Elements kFourFloats = {
    .size_bytes = 4, .alignment = 4, .type = kDtypeOf<float>, .count = 4};

// As a peer receives it.
template <typename A>
UniqueFd SentFd(const A& array) {
  return UniqueFd(fcntl(array.fd(), F_DUPFD_CLOEXEC, 0));
}

TEST(ByteArrayTest, IsAnArrayOfItsElements) {
  TENON_ASSERT_OK_AND_ASSIGN(const ByteArray bytes,
                             ByteArray::Create(kFourFloats));
  EXPECT_EQ(bytes.count(), 4u);
  TENON_ASSERT_OK_AND_ASSIGN(std::byte* const first, bytes.elements());
  const float value = 2.5F;
  std::memcpy(first + 3 * sizeof(value), &value, sizeof(value));
  TENON_ASSERT_OK_AND_ASSIGN(const auto floats,
                             Array<float>::Adopt(SentFd(bytes)));
  EXPECT_THAT(floats.data().value(), testing::ElementsAre(0, 0, 0, 2.5F));
  EXPECT_THAT(Array<int32_t>::Adopt(SentFd(bytes)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::HasSubstr("the type of an element")));
}

TEST(ByteArrayTest, AdoptsAnArray) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto floats, Array<float>::Create(4));
  EXPECT_THAT(ByteArray::Adopt(SentFd(floats), kFourFloats), IsOk());
  ByteArray::Elements other = kFourFloats;
  other.count = 0;  // Any.
  TENON_ASSERT_OK_AND_ASSIGN(const ByteArray any,
                             ByteArray::Adopt(SentFd(floats), other));
  EXPECT_EQ(any.count(), 4u);
  other.count = 5;
  EXPECT_THAT(ByteArray::Adopt(SentFd(floats), other),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::HasSubstr("the number of elements is 4")));
}

// Sizes and alignments that no T has.
TEST(ByteArrayTest, ImpossibleElementsAreRefused) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto floats, Array<float>::Create(4));
  const struct {
    uint32_t size_bytes;
    uint32_t alignment;
  } kImpossible[] = {{0, 1}, {4, 0}, {12, 3}, {2, 4}, {6, 4}, {128, 128}};
  for (const auto& [size_bytes, alignment] : kImpossible) {
    const ByteArray::Elements elements = {
        .size_bytes = size_bytes, .alignment = alignment, .count = 4};
    const auto refused = StatusIs(
        absl::StatusCode::kInvalidArgument,
        testing::HasSubstr("want a power of two up to 64 as alignment"));
    EXPECT_THAT(ByteArray::Create(elements), refused);
    EXPECT_THAT(ByteArray::Adopt(SentFd(floats), elements), refused);
  }
  EXPECT_THAT(
      ByteArray::Create({.size_bytes = 192, .alignment = 64, .count = 1}),
      IsOk());
}

}  // namespace
}  // namespace tenon

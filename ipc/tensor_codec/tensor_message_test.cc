// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/tensor_codec/tensor_message.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using testing::HasSubstr;

template <typename T>
concept CanBeAdded = requires(TensorMessage message, T value) {
  message.Add(value);
};
// Not all of them are an int64_t, and none becomes a double unasked.
static_assert(!CanBeAdded<size_t>);
static_assert(!CanBeAdded<unsigned long long>);
static_assert(CanBeAdded<uint32_t>);
static_assert(CanBeAdded<long long>);
static_assert(CanBeAdded<float>);

TEST(TensorMessageTest, HoldsFieldsOfEveryKindInOrder) {
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor,
                             Tensor::Create(kDtypeOf<float>, {2, 3}));
  TensorMessage message;
  message.Add(7).Add(true).Add(uint32_t{4'000'000'000}).Add(0.25);
  message.Add("text").Add(std::string("a\0b", 3)).Add(tensor);
  EXPECT_EQ(message.size(), 7u);
  EXPECT_THAT(message.integer(0), IsOkAndHolds(7));
  EXPECT_THAT(message.integer(1), IsOkAndHolds(1));
  EXPECT_THAT(message.integer(2), IsOkAndHolds(4'000'000'000));
  EXPECT_THAT(message.number(3), IsOkAndHolds(0.25));
  EXPECT_THAT(message.string(4), IsOkAndHolds("text"));
  EXPECT_THAT(message.string(5), IsOkAndHolds(absl::string_view("a\0b", 3)));
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor back, message.tensor(6));
  EXPECT_EQ(back.storage(), tensor.storage());
}

TEST(TensorMessageTest, AFieldOfAnotherKindIsRefusedByName) {
  TensorMessage message(Tensor{});
  message.Add(1.5);
  EXPECT_THAT(message.integer(0),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("field 0 is a tensor, not an "
                                 "integer")));
  EXPECT_THAT(message.string(1), StatusIs(absl::StatusCode::kInvalidArgument,
                                          HasSubstr("a number, not a string")));
  EXPECT_THAT(message.number(0), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(message.tensor(1), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(TensorMessageTest, AFieldThatIsNotThereIsOutOfRange) {
  TensorMessage message;
  EXPECT_TRUE(message.empty());
  EXPECT_THAT(message.tensor(0),
              StatusIs(absl::StatusCode::kOutOfRange,
                       HasSubstr("the message has 0 fields")));
  message.Add("only");
  EXPECT_THAT(message.string(1), StatusIs(absl::StatusCode::kOutOfRange));
}

TEST(TensorMessageTest, CopiesShareTensorsAndNotStrings) {
  TENON_ASSERT_OK_AND_ASSIGN(Tensor tensor,
                             Tensor::Create(kDtypeOf<int64_t>, {1}));
  TensorMessage message(tensor);
  message.Add("a string that is too long to lie in the object itself");
  const TensorMessage copy = message;
  const TensorMessage moved = std::move(message);
  EXPECT_EQ(copy.tensor(0)->storage(), moved.tensor(0)->storage());
  EXPECT_NE(copy.string(1)->data(), moved.string(1)->data());
}

}  // namespace
}  // namespace tenon

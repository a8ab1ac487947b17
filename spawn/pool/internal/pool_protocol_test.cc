// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0
#include "tenon/spawn/pool/internal/pool_protocol.h"

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/arguments/argument.h"
#include "tenon/spawn/arguments/tensor_parcel.h"
#include "tenon/spawn/testing/mutate_testing.h"

namespace tenon::spawn {
namespace {

PackedArguments Packed(std::string bytes, size_t fds) {
  PackedArguments packed = {.bytes = std::move(bytes), .fds = {}};
  for (size_t i = 0; i < fds; ++i) packed.fds.emplace_back(dup(STDERR_FILENO));
  return packed;
}

PoolBatch Batch() {
  PoolBatch batch = {.id = 7, .function = "Decode", .calls = {}};
  batch.calls.push_back(Packed("one", 1));
  batch.calls.push_back(Packed("two", 0));
  return batch;
}

PoolAnswers Answers() {
  PoolAnswers answers = {.id = 7, .rss_bytes = 4096, .answers = {}};
  answers.answers.push_back({.value = Packed("image", 2)});
  answers.answers.push_back(
      {.status = absl::NotFoundError("no image"), .stack = "#0 in Decode()"});
  return answers;
}

TensorClaimer& Claimer() {
  static TensorClaimer& claimer = *new TensorClaimer;
  return claimer;
}

// The message that the other side receives.
template <typename T>
absl::StatusOr<Message> Sent(const T& what,
                             absl::Status (*send)(Channel&, const T&,
                                                  Deadline)) {
  TENON_ASSIGN_OR_RETURN(auto ends, Channel::CreatePair());
  TENON_RETURN_IF_ERROR(send(ends.first, what, Deadline::Passed()));
  return ends.second.Receive(Deadline::Passed());
}

TEST(PoolProtocolTest, BatchesTravel) {
  TENON_ASSERT_OK_AND_ASSIGN(Message message, Sent(Batch(), SendBatch));
  TENON_ASSERT_OK_AND_ASSIGN(const PoolBatch batch,
                             ReadBatch(std::move(message), Claimer()));
  EXPECT_EQ(batch.id, 7u);
  EXPECT_EQ(batch.function, "Decode");
  ASSERT_EQ(batch.calls.size(), 2u);
  EXPECT_EQ(batch.calls[0].bytes, "one");
  EXPECT_EQ(batch.calls[0].fds.size(), 1u);
  EXPECT_EQ(batch.calls[1].bytes, "two");
  EXPECT_TRUE(batch.calls[1].fds.empty());
}

TEST(PoolProtocolTest, AnswersTravel) {
  TENON_ASSERT_OK_AND_ASSIGN(Message message, Sent(Answers(), SendAnswers));
  TENON_ASSERT_OK_AND_ASSIGN(const PoolAnswers answers,
                             ReadAnswers(std::move(message), Claimer()));
  EXPECT_EQ(answers.id, 7u);
  EXPECT_EQ(answers.rss_bytes, 4096);
  ASSERT_EQ(answers.answers.size(), 2u);
  EXPECT_EQ(answers.answers[0].value.bytes, "image");
  EXPECT_EQ(answers.answers[0].value.fds.size(), 2u);
  EXPECT_THAT(answers.answers[1].status,
              StatusIs(absl::StatusCode::kNotFound, "no image"));
  EXPECT_EQ(answers.answers[1].stack, "#0 in Decode()");
}

TEST(PoolProtocolTest, DescriptorsMustBeAsManyAsAreSaid) {
  TENON_ASSERT_OK_AND_ASSIGN(Message fewer, Sent(Answers(), SendAnswers));
  fewer.fds.pop_back();
  EXPECT_THAT(ReadAnswers(std::move(fewer), Claimer()),
              StatusIs(absl::StatusCode::kDataLoss));
  TENON_ASSERT_OK_AND_ASSIGN(Message more, Sent(Batch(), SendBatch));
  more.fds.emplace_back(dup(STDERR_FILENO));
  EXPECT_THAT(ReadBatch(std::move(more), Claimer()),
              StatusIs(absl::StatusCode::kDataLoss));
}

TEST(PoolProtocolTest, RoomIsForTheFirstAndForWhatFitsBesideIt) {
  MessageRoom room;
  EXPECT_TRUE(room.Take(Packed("", 252)));
  EXPECT_TRUE(room.Take(Packed("", 0)));
  EXPECT_FALSE(room.Take(Packed("", 1)));
  MessageRoom other;
  EXPECT_TRUE(other.Take(Packed("", 300))) << "its error is its own";
  EXPECT_FALSE(other.Take(Packed("", 0)));
}

TEST(PoolProtocolFuzzTest, AnythingIsRefusedOrMeansItself) {
  Mutator mutator(20260717);
  TENON_ASSERT_OK_AND_ASSIGN(const Message good, Sent(Answers(), SendAnswers));
  const size_t fds = CountOpenFds();
  int accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    Message message = {.bytes = mutator.Mutate(good.bytes), .fds = {}};
    const std::string bytes = message.bytes;
    for (int fd = 0; fd < 2; ++fd) message.fds.emplace_back(dup(STDERR_FILENO));
    const absl::StatusOr<PoolAnswers> answers =
        ReadAnswers(std::move(message), Claimer());
    if (!answers.ok()) {
      ASSERT_THAT(answers, StatusIs(absl::StatusCode::kDataLoss));
      continue;
    }
    ++accepted;
    TENON_ASSERT_OK_AND_ASSIGN(const Message again,
                               Sent(*answers, SendAnswers));
    ASSERT_EQ(again.bytes, bytes);
  }
  EXPECT_GT(accepted, 100) << "the mutations hardly reach the last field";
  EXPECT_LT(accepted, 19'900) << "the mutations hardly break anything";
  EXPECT_EQ(CountOpenFds(), fds);
}

}  // namespace
}  // namespace tenon::spawn

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/worker/messages.h"

#include <cstdint>
#include <random>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/data/field.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;

WorkerSetup SomeSetup() {
  return {.dataset = "photos",
          .dataset_config = std::string("with\0nul", 8),
          .fields = {{"image", DtypeOf<float>(), {3, 4}},
                     {"label", DtypeOf<int64_t>(), {}}},
          .batch_size = 64,
          .seed = 7,
          .on_error = OnSampleError::kSkip,
          .strategy = SharingStrategy::kFileSystem,
          .name_prefix = "tenon-x"};
}

const Task kTask = {.ticket = 1,
                    .epoch = 2,
                    .first_position = int64_t{1} << 40,
                    .count = 4,
                    .list = 5,
                    .slot = 6};

SampleFailed SomeFailure() {
  return {.ticket = 9,
          .position = 8,
          .index = 7,
          .status = absl::DataLossError("rotten")};
}

BatchDone SomeBatch() {
  return {.ticket = 3,
          .filled = 60,
          .status = absl::OkStatus(),
          .has_segment = true,
          .segment_name = "tenon-x-1"};
}

TEST(MessagesTest, SetupComesBack) {
  const WorkerSetup setup = SomeSetup();
  TENON_ASSERT_OK_AND_ASSIGN(const auto back, DecodeWorkerSetup(Encode(setup)));
  EXPECT_EQ(back.dataset, setup.dataset);
  EXPECT_EQ(back.dataset_config, setup.dataset_config);
  EXPECT_EQ(back.fields, setup.fields);
  EXPECT_EQ(back.batch_size, setup.batch_size);
  EXPECT_EQ(back.seed, setup.seed);
  EXPECT_EQ(back.on_error, setup.on_error);
  EXPECT_EQ(back.strategy, setup.strategy);
  EXPECT_EQ(back.name_prefix, setup.name_prefix);
}

TEST(MessagesTest, TaskComesBack) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto back, DecodeTask(Encode(kTask)));
  EXPECT_EQ(back.ticket, kTask.ticket);
  EXPECT_EQ(back.epoch, kTask.epoch);
  EXPECT_EQ(back.first_position, kTask.first_position);
  EXPECT_EQ(back.count, kTask.count);
  EXPECT_EQ(back.list, kTask.list);
  EXPECT_EQ(back.slot, kTask.slot);
}

TEST(MessagesTest, SampleFailedComesBack) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto back,
                             DecodeWorkerMessage(Encode(SomeFailure())));
  const auto& failed = std::get<SampleFailed>(back);
  EXPECT_EQ(failed.ticket, 9u);
  EXPECT_EQ(failed.position, 8);
  EXPECT_EQ(failed.index, 7);
  EXPECT_THAT(failed.status, StatusIs(StatusCode::kDataLoss, "rotten"));
}

TEST(MessagesTest, BatchDoneComesBack) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto back,
                             DecodeWorkerMessage(Encode(SomeBatch())));
  const auto& done = std::get<BatchDone>(back);
  EXPECT_EQ(done.ticket, 3u);
  EXPECT_EQ(done.filled, 60);
  EXPECT_THAT(done.status, IsOk());
  EXPECT_TRUE(done.has_segment);
  EXPECT_EQ(done.segment_name, "tenon-x-1");
}

TEST(MessagesTest, AnEndlessErrorTextFitsAMessage) {
  SampleFailed failed = SomeFailure();
  failed.status = absl::InternalError(std::string(1 << 20, 'x'));
  EXPECT_LT(Encode(failed).size(), 8192u);
}

// A message cut anywhere, or with something behind it, is no message.
TEST(MessagesTest, CutAndProlongedMessagesAreRefused) {
  const auto check = [](const std::string& whole, auto decode) {
    for (size_t size = 0; size < whole.size(); ++size) {
      EXPECT_THAT(decode(absl::string_view(whole).substr(0, size)),
                  StatusIs(StatusCode::kDataLoss));
    }
    EXPECT_THAT(decode(whole + 'x'), StatusIs(StatusCode::kDataLoss));
  };
  check(Encode(SomeSetup()), DecodeWorkerSetup);
  check(Encode(kTask), DecodeTask);
  check(Encode(SomeFailure()), DecodeWorkerMessage);
  check(Encode(SomeBatch()), DecodeWorkerMessage);
}

TEST(MessagesTest, UnknownTypesAndEnumsAreRefused) {
  std::string message = Encode(SomeBatch());
  message[0] = 77;
  EXPECT_THAT(DecodeWorkerMessage(message), StatusIs(StatusCode::kDataLoss));
}

// Any bytes at all cost an error at most.
TEST(MessagesTest, MutatedMessagesNeverHarm) {
  std::mt19937 random(20260101);
  for (const std::string& seed : {Encode(SomeSetup()), Encode(kTask),
                                  Encode(SomeFailure()), Encode(SomeBatch())}) {
    for (int i = 0; i < 20'000; ++i) {
      std::string mutated = seed;
      for (unsigned n = random() % 4 + 1; n > 0; --n) {
        mutated[random() % mutated.size()] = static_cast<char>(random());
      }
      DecodeWorkerSetup(mutated).status().IgnoreError();
      DecodeTask(mutated).status().IgnoreError();
      DecodeWorkerMessage(mutated).status().IgnoreError();
    }
  }
}

}  // namespace
}  // namespace tenon::loader

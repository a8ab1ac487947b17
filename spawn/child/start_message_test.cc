// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/child/start_message.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/settings/child_settings.h"
#include "tenon/spawn/testing/mutate_testing.h"

namespace tenon::spawn {
namespace {

using ::testing::HasSubstr;

StartMessage Example() {
  return {.entry = std::string("decode\0 images", 14),
          .index = std::numeric_limits<int32_t>::min(),
          .ignore_interrupt = true,
          .sharing_strategy = SharingStrategy::kFileSystem,
          .settings = {.name = "decoder",
                       .limits = {{7, 1 << 20, uint64_t{1} << 40}},
                       .cpus = {0, 3}},
          .inherited = std::string("a\0b", 3),
          .ancestor_count = 2,
          .has_crash_record = true,
          .argument = "short",
          .argument_bytes = uint64_t{10} << 30,
          .fd_count = 300};
}

void ExpectSame(const StartMessage& a, const StartMessage& b) {
  EXPECT_EQ(a.entry, b.entry);
  EXPECT_EQ(a.index, b.index);
  EXPECT_EQ(a.ignore_interrupt, b.ignore_interrupt);
  EXPECT_EQ(a.sharing_strategy, b.sharing_strategy);
  EXPECT_EQ(EncodeChildSettings(a.settings), EncodeChildSettings(b.settings));
  EXPECT_EQ(a.inherited, b.inherited);
  EXPECT_EQ(a.ancestor_count, b.ancestor_count);
  EXPECT_EQ(a.has_crash_record, b.has_crash_record);
  EXPECT_EQ(a.argument, b.argument);
  EXPECT_EQ(a.argument_bytes, b.argument_bytes);
  EXPECT_EQ(a.fd_count, b.fd_count);
}

TEST(StartMessageTest, Travels) {
  for (const StartMessage& message : {Example(), StartMessage{}}) {
    TENON_ASSERT_OK_AND_ASSIGN(const StartMessage decoded,
                               DecodeStartMessage(EncodeStartMessage(message)));
    ExpectSame(decoded, message);
  }
}

TEST(StartMessageTest, EveryShorterOrLongerMessageIsRefused) {
  const std::string whole = EncodeStartMessage(Example());
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THAT(DecodeStartMessage(absl::string_view(whole).substr(0, size)),
                StatusIs(absl::StatusCode::kDataLoss))
        << size << " of " << whole.size() << " bytes";
  }
  EXPECT_THAT(DecodeStartMessage(whole + '\0'),
              StatusIs(absl::StatusCode::kDataLoss));
}

TEST(StartMessageTest, OtherVersionIsRefused) {
  std::string bytes = EncodeStartMessage(Example());
  ++bytes[0];
  EXPECT_THAT(DecodeStartMessage(bytes),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("version 6, this program reads version 5")));
}

TEST(StartMessageTest, UnknownStrategyIsRefused) {
  StartMessage message = Example();
  message.sharing_strategy = static_cast<SharingStrategy>(2);
  EXPECT_THAT(DecodeStartMessage(EncodeStartMessage(message)),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("strategy 2")));
}

TEST(StartMessageFuzzTest, AnythingIsRefusedOrMeansItself) {
  Mutator mutator(20260101);
  int accepted = 0;
  for (int i = 0; i < 200'000; ++i) {
    const std::string bytes = mutator.Mutate(EncodeStartMessage(Example()));
    const absl::StatusOr<StartMessage> message = DecodeStartMessage(bytes);
    if (!message.ok()) {
      ASSERT_THAT(message, StatusIs(absl::StatusCode::kDataLoss));
      continue;
    }
    ++accepted;
    ASSERT_EQ(EncodeStartMessage(*message), bytes);
  }
  EXPECT_GT(accepted, 1000) << "the mutations hardly reach the last field";
  EXPECT_LT(accepted, 199'000) << "the mutations hardly break anything";
}

}  // namespace
}  // namespace tenon::spawn

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/futures/callback_failure.h"

#include <unistd.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/futures/future.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::futures {
namespace {

using ::testing::HasSubstr;

absl::Status* last_seen = nullptr;

void Remember(const absl::Status& error) noexcept { *last_seen = error; }

// A callback that fails with `error`, of a future of its own.
void FailOneCallback(const absl::Status& error) {
  Promise<int> promise;
  promise.future().AddDoneCallback([&](const auto&) { return error; });
  ASSERT_THAT(promise.SetValue(1), IsOk());
}

TEST(CallbackFailureTest, ByDefaultItIsOneLineOnStderr) {
  testing::internal::CaptureStderr();
  FailOneCallback(absl::DataLossError("torn\nin two"));
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "tenon: a callback failed, and no future carries its error: "
            "DATA_LOSS: torn in two\n");
}

TEST(CallbackFailureTest, TheHandlerGetsWhatIsThrownAndWhatIsReturned) {
  absl::Status seen;
  last_seen = &seen;
  const uint64_t count = CallbackFailureCount();
  EXPECT_EQ(SetCallbackFailureHandler(Remember), nullptr);
  FailOneCallback(absl::NotFoundError("no such file"));
  EXPECT_THAT(seen, StatusIs(absl::StatusCode::kNotFound, "no such file"));

  Promise<void> promise;
  const Future<void> future = promise.future();
  future.AddDoneCallback(
      [](const auto&) { throw std::runtime_error("no such tensor"); });
  ASSERT_THAT(promise.SetValue(), IsOk());
  EXPECT_THAT(
      seen, StatusIs(absl::StatusCode::kUnknown, HasSubstr("no such tensor")));
  future.AddDoneCallback([](const auto&) { throw 3; });
  EXPECT_THAT(seen, StatusIs(absl::StatusCode::kUnknown,
                             HasSubstr("not a std::exception")));

  EXPECT_EQ(CallbackFailureCount(), count + 3);
  EXPECT_EQ(SetCallbackFailureHandler(nullptr), &Remember);
}

TEST(CallbackFailureTest, ACallbackThatReturnsOkHasNotFailed) {
  const uint64_t count = CallbackFailureCount();
  FailOneCallback(absl::OkStatus());
  EXPECT_EQ(CallbackFailureCount(), count);
}

TEST(CallbackFailureTest, WithStderrClosedItIsStillCounted) {
  EXPECT_TRUE(PassesInChild([] {
    const uint64_t count = CallbackFailureCount();
    ASSERT_EQ(close(STDERR_FILENO), 0);
    FailOneCallback(absl::DataLossError("torn"));
    EXPECT_EQ(CallbackFailureCount(), count + 1);
  }));
}

}  // namespace
}  // namespace tenon::futures

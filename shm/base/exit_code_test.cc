// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/exit_code.h"

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace tenon {
namespace {

TEST(ExitCodeTest, AnErrorIsPrintedOnce) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(ExitCode(absl::OkStatus()), 0);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  testing::internal::CaptureStderr();
  EXPECT_EQ(ExitCode(absl::NotFoundError("no camera")), 1);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "NOT_FOUND: no camera\n");
}

}  // namespace
}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/examples/testing/program.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

TEST(BroadcastTest, ThreeReadOneTensor) {
  Program program({"examples/broadcast"});
  EXPECT_EQ(program.Wait().exit_code, 0) << program.output();
  for (const char* const line :
       {"reader 0: 0.5\n", "reader 1: 0.5\n", "reader 2: 0.5\n"}) {
    EXPECT_THAT(program.output(), HasSubstr(line));
  }
  EXPECT_TRUE(program.GroupIsGone());
}

}  // namespace
}  // namespace tenon

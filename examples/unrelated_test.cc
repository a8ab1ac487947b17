// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/examples/testing/program.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

TEST(UnrelatedTest, TwoProgramsMeetByName) {
  Program server({"examples/unrelated_server"});
  ASSERT_TRUE(server.WaitForOutput("waiting for it")) << server.output();
  const std::string output = server.output();
  EXPECT_THAT(output, HasSubstr("run //examples:unrelated_client -- @"));
  const size_t name = output.find('@');
  ASSERT_NE(output.find('\n', name), std::string::npos) << output;
  Program client({"examples/unrelated_client",
                  output.substr(name, output.find('\n', name) - name)});
  EXPECT_EQ(client.Wait().exit_code, 0) << client.output();
  EXPECT_THAT(client.output(), HasSubstr("released it: sum 42\n"));
  EXPECT_EQ(server.Wait().exit_code, 0) << server.output();
  EXPECT_THAT(server.output(),
              HasSubstr(absl::StrCat("connected: process ", client.pid())));
  EXPECT_THAT(server.output(),
              HasSubstr("claimed; blocks in use here: 1, then 0\n"));
  EXPECT_TRUE(server.GroupIsGone());
  EXPECT_TRUE(client.GroupIsGone());
}

TEST(UnrelatedTest, NoServerIsThere) {
  Program client({"examples/unrelated_client", "@tenon.no.server.is.there"});
  EXPECT_EQ(client.Wait().exit_code, 1);
  EXPECT_THAT(client.output(), HasSubstr("UNAVAILABLE"));
  Program usage({"examples/unrelated_client"});
  EXPECT_EQ(usage.Wait().exit_code, 2);
}

}  // namespace
}  // namespace tenon

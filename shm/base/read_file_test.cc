// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/read_file.h"

#include <unistd.h>

#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

TEST(ReadFileTest, ReadsAllOfAFileThatIsLongerThanItsBuffer) {
  const std::string path = absl::StrCat(testing::TempDir(), "/read_file_test");
  std::string contents;
  for (int i = 0; i < 3000; ++i) absl::StrAppend(&contents, i, " ");
  std::ofstream(path) << contents;

  EXPECT_THAT(ReadFile(path), IsOkAndHolds(contents));
  EXPECT_THAT(ReadFile(path, 5000), IsOkAndHolds(contents.substr(0, 5000)));
  EXPECT_THAT(ReadFile(path, 0), IsOkAndHolds(""));
  unlink(path.c_str());
}

TEST(ReadFileTest, ReadsFilesOfProc) {
  const auto stat = ReadFile("/proc/self/stat");
  ASSERT_THAT(stat, IsOk());
  EXPECT_TRUE(absl::StartsWith(*stat, absl::StrCat(getpid(), " ("))) << *stat;
}

TEST(ReadFileTest, AFileThatIsMissingIsNotFound) {
  EXPECT_THAT(ReadFile("/proc/self/no-such-file"),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("open(/proc/self/no-such-file)")));
}

TEST(ReadFileTest, AFileThatOpensAndCannotBeReadIsAnError) {
  EXPECT_THAT(std::string(ReadFile("/proc").status().message()),
              HasSubstr("read(/proc): Is a directory [EISDIR]"));
}

}  // namespace
}  // namespace tenon

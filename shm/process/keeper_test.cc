// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/process/keeper.h"

#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/keeper_name.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

std::string OwnName() {
  const UniqueFd file(open("/proc/self/comm", O_RDONLY | O_CLOEXEC));
  char name[32];
  const ssize_t size = read(file.get(), name, sizeof(name));
  return size < 0 ? "" : std::string(name, static_cast<size_t>(size));
}

TEST(KeeperTest, IsNamedAfterItsPid) {
  EXPECT_TRUE(PassesInChild([] {
    EXPECT_THAT(BecomeKeeper(), IsOk());
    EXPECT_EQ(OwnName(), absl::StrCat(kKeeperName, getpid(), "\n"));
  }));
}

// Linux has no pid above 4194304.
TEST(KeeperTest, TheNameHasRoomForEveryPid) {
  EXPECT_LE(std::string(kKeeperName).size() + 7, 15u);
}

TEST(KeeperTest, OnlyTheMainThreadNamesTheProcess) {
  const std::string before = OwnName();
  std::thread([] {
    EXPECT_THAT(BecomeKeeper(),
                StatusIs(absl::StatusCode::kFailedPrecondition));
  }).join();
  EXPECT_EQ(OwnName(), before);
}

}  // namespace
}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/child/entry.h"

#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon::spawn {
namespace {

using ::testing::ElementsAre;

absl::Status First(Child&) { return absl::OkStatus(); }
absl::Status Second(Child&) { return absl::CancelledError("second"); }

// Not in the order of their names, and two in one file.
TENON_SPAWN_ENTRY("entry_test.second", Second);
TENON_SPAWN_ENTRY("entry_test.first", First);

TEST(EntryTest, IsFoundByItsName) {
  EXPECT_EQ(FindEntry("entry_test.first"), &First);
  EXPECT_EQ(FindEntry("entry_test.second"), &Second);
}

TEST(EntryTest, IsNotFoundByAnotherName) {
  EXPECT_EQ(FindEntry("entry_test"), nullptr);
  EXPECT_EQ(FindEntry("entry_test.first "), nullptr);
  EXPECT_EQ(FindEntry(""), nullptr);
}

TEST(EntryTest, NamesAreSorted) {
  EXPECT_THAT(EntryNames(),
              ElementsAre("entry_test.first", "entry_test.second"));
}

TEST(EntryDeathTest, SameNameTwice) {
  EXPECT_DEATH(RegisterEntry("entry_test.first", Second),
               "entry_test.first.*already registered");
}

TEST(EntryDeathTest, NullFunction) {
  EXPECT_DEATH(RegisterEntry("entry_test.null", nullptr),
               "entry_test.null.*null");
}

TEST(ChildTest, HasWhatItWasGiven) {
  std::vector<UniqueFd> fds;
  fds.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
  Child child(-7, std::string("a\0b", 3), std::move(fds));
  EXPECT_EQ(child.index(), -7);
  EXPECT_EQ(child.argument(), std::string("a\0b", 3));
  EXPECT_EQ(child.fd_count(), 1u);
}

TEST(ChildTest, EachDescriptorCanBeTakenOnce) {
  std::vector<UniqueFd> fds;
  fds.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int number = fds[0].get();
  Child child(0, "", std::move(fds));
  {
    const UniqueFd taken = child.TakeFd(0);
    EXPECT_EQ(taken.get(), number);
    EXPECT_FALSE(child.TakeFd(0).valid());
    EXPECT_FALSE(child.TakeFd(1).valid());
    EXPECT_EQ(child.fd_count(), 1u);
    EXPECT_GE(fcntl(number, F_GETFD), 0);
  }
  EXPECT_EQ(fcntl(number, F_GETFD), -1) << "it was the taker's to close";
}

TEST(ChildTest, ClosesWhatWasNotTaken) {
  int number = -1;
  {
    std::vector<UniqueFd> fds;
    fds.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
    number = fds[0].get();
    const Child child(0, "", std::move(fds));
    EXPECT_GE(fcntl(number, F_GETFD), 0);
  }
  EXPECT_EQ(fcntl(number, F_GETFD), -1);
}

}  // namespace
}  // namespace tenon::spawn

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/unique_fd.h"

#include <errno.h>
#include <fcntl.h>

#include <type_traits>
#include <utility>

#include "gtest/gtest.h"

namespace tenon {
namespace {

static_assert(!std::is_copy_constructible_v<UniqueFd>);
static_assert(!std::is_copy_assignable_v<UniqueFd>);
static_assert(!std::is_convertible_v<int, UniqueFd>);
static_assert(std::is_nothrow_move_constructible_v<UniqueFd>);
static_assert(std::is_nothrow_move_assignable_v<UniqueFd>);
static_assert(sizeof(UniqueFd) == sizeof(int));

int OpenNull() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

bool IsOpen(int fd) { return fcntl(fd, F_GETFD) >= 0; }

TEST(UniqueFdTest, OwnsNothingAtFirst) {
  UniqueFd fd;
  EXPECT_EQ(fd.get(), -1);
  EXPECT_FALSE(fd.valid());
  fd.Reset();
  EXPECT_FALSE(fd.valid());
}

TEST(UniqueFdTest, ClosesWhenDestroyed) {
  const int raw = OpenNull();
  {
    UniqueFd fd(raw);
    EXPECT_EQ(fd.get(), raw);
    EXPECT_TRUE(fd.valid());
    EXPECT_TRUE(IsOpen(raw));
  }
  EXPECT_FALSE(IsOpen(raw));
}

TEST(UniqueFdTest, DescriptorZeroIsOneLikeAnyOther) {
  const UniqueFd saved(fcntl(0, F_DUPFD_CLOEXEC, 3));
  UniqueFd zero(0);
  EXPECT_TRUE(zero.valid());
  zero.Reset();
  EXPECT_FALSE(IsOpen(0));
  if (saved.valid()) {
    EXPECT_EQ(dup2(saved.get(), 0), 0);
  }
}

TEST(UniqueFdTest, ReleaseGivesUpWithoutClosing) {
  UniqueFd fd(OpenNull());
  const int raw = fd.Release();
  EXPECT_FALSE(fd.valid());
  EXPECT_TRUE(IsOpen(raw));
  UniqueFd closes_it(raw);
}

TEST(UniqueFdTest, ResetClosesTheOldAndOwnsTheNew) {
  UniqueFd fd(OpenNull());
  const int old = fd.get();
  const int fresh = OpenNull();
  fd.Reset(fresh);
  EXPECT_FALSE(IsOpen(old));
  EXPECT_EQ(fd.get(), fresh);
  EXPECT_TRUE(IsOpen(fresh));
}

TEST(UniqueFdTest, MoveConstructionMovesTheOwnership) {
  UniqueFd from(OpenNull());
  const int raw = from.get();
  UniqueFd to(std::move(from));
  EXPECT_EQ(to.get(), raw);
  EXPECT_EQ(from.get(), -1);
  EXPECT_TRUE(IsOpen(raw));
}

TEST(UniqueFdTest, MoveAssignmentClosesWhatWasOwnedAtOnce) {
  UniqueFd from(OpenNull());
  UniqueFd to(OpenNull());
  const int kept = from.get();
  const int closed = to.get();
  to = std::move(from);
  EXPECT_EQ(to.get(), kept);
  EXPECT_EQ(from.get(), -1);
  EXPECT_TRUE(IsOpen(kept));
  EXPECT_FALSE(IsOpen(closed));
}

TEST(UniqueFdTest, SelfMoveKeepsTheDescriptor) {
  UniqueFd fd(OpenNull());
  UniqueFd& same = fd;
  fd = std::move(same);
  EXPECT_TRUE(IsOpen(fd.get()));
}

TEST(UniqueFdTest, ErrnoSurvivesTheClose) {
  errno = ENOSPC;
  {
    // close() fails with EBADF.
    UniqueFd fd(1 << 20);
  }
  EXPECT_EQ(errno, ENOSPC);
}

TEST(UniqueFdDeathTest, ResetToItsOwnDescriptorIsAProgrammingError) {
  UniqueFd fd(OpenNull());
  EXPECT_DEATH(fd.Reset(fd.get()), "the descriptor it owns");
}

}  // namespace
}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/query/ledger_files.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/arena/internal/arena_table.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/memfd.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

// A file that /proc shows like the memfd of a table, on a file system that any
// user may have mounted.
UniqueFd OpenNamesake() {
  const UniqueFd config(fsopen("tmpfs", FSOPEN_CLOEXEC));
  if (!config.valid() ||
      fsconfig(config.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) {
    return UniqueFd();
  }
  const UniqueFd mount(fsmount(config.get(), FSMOUNT_CLOEXEC, 0));
  const std::string name = std::string("memfd:") + ArenaTableLayout::kLabel;
  UniqueFd file(openat(mount.get(), name.c_str(),
                       O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  EXPECT_TRUE(file.valid()) << std::strerror(errno);
  EXPECT_EQ(unlinkat(mount.get(), name.c_str(), 0), 0);
  return file;
}

TEST(LedgerFilesTest, AMemfdThatIsNoTableIsNoted) {
  TENON_ASSERT_OK_AND_ASSIGN(const UniqueFd fd,
                             OpenMemfd(ArenaTableLayout::kLabel, 0, "a memfd"));
  LedgerFiles files;
  ASSERT_THAT(files.Inspect(getpid()), IsOk());
  EXPECT_THAT(files.tables(), IsEmpty());
  EXPECT_THAT(files.left_out(), SizeIs(1));
}

TEST(LedgerFilesTest, AFileOfAnotherFileSystemIsNotAsked) {
  const UniqueFd namesake = OpenNamesake();
  if (!namesake.valid()) {
    GTEST_SKIP() << "may not make a file system: " << std::strerror(errno);
  }
  const std::string shown = "/proc/self/fd/" + std::to_string(namesake.get());
  char link[64] = {};
  ASSERT_GT(readlink(shown.c_str(), link, sizeof(link) - 1), 0);
  ASSERT_STREQ(link, "/memfd:tenon.arena (deleted)");
  LedgerFiles files;
  ASSERT_THAT(files.Inspect(getpid()), IsOk());
  EXPECT_THAT(files.tables(), IsEmpty());
  EXPECT_THAT(files.left_out(), IsEmpty());
}

}  // namespace
}  // namespace tenon

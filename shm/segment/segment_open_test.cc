// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Files that a hostile process plants under the name of a segment.

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/name_token.h"
#include "tenon/shm/segment/proof/segment_trust_testing.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

using absl::StatusCode::kFailedPrecondition;
using absl::StatusCode::kInvalidArgument;
using absl::StatusCode::kPermissionDenied;

// A file with a name in /dev/shm that is not a segment of Tenon.
class OpenTest : public testing::Test {
 protected:
  OpenTest()
      : name_(UniqueTestPrefix()),
        path_("/dev/shm/" + name_),
        fds_before_(CountOpenFds()) {}
  ~OpenTest() override {
    if (unlink(path_.c_str()) != 0) rmdir(path_.c_str());
  }

  void PlantFile(off_t size, mode_t mode) {
    const UniqueFd fd(
        open(path_.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
    ASSERT_TRUE(fd.valid());
    ASSERT_EQ(ftruncate(fd.get(), size), 0);
    ASSERT_EQ(fchmod(fd.get(), mode), 0);
  }

  void ExpectOpenRefused(absl::StatusCode code, const std::string& text = "") {
    for (SegmentKind kind : kBothKinds) {
      EXPECT_THAT(Segment::Open(name_, kind), StatusIs(code, HasSubstr(text)));
    }
    EXPECT_LE(CountOpenFds(), fds_before_);
  }

  const std::string name_;
  const std::string path_;
  const size_t fds_before_;
};

TEST_F(OpenTest, TakesWhatLooksLikeOurs) {
  PlantFile(kSize, 0600);
  for (SegmentKind kind : kBothKinds) {
    TENON_ASSERT_OK_AND_ASSIGN(const Segment segment,
                               Segment::Open(name_, kind));
    EXPECT_EQ(segment.size_bytes(), kSize);
    EXPECT_EQ(segment.kind(), kind);
    EXPECT_EQ(segment.name(), name_);
    EXPECT_THAT(segment.MapReadOnly(), IsOk());
  }
  EXPECT_EQ(access(path_.c_str(), F_OK), 0) << "it is not ours to remove";
}

TEST_F(OpenTest, OwnerWrittenIsOpenedReadOnly) {
  PlantFile(kSize, 0600);
  TENON_ASSERT_OK_AND_ASSIGN(const Segment segment,
                             Segment::Open(name_, kOwnerWritten));
  EXPECT_EQ(fcntl(segment.fd(), F_GETFL) & O_ACCMODE, O_RDONLY);
}

TEST_F(OpenTest, RefusesMalformedNames) {
  for (const std::string& name :
       {std::string(), std::string("."), std::string(".."),
        std::string(".hidden"), std::string("/" + name_),
        std::string("../shm/" + name_), std::string("a/b"),
        std::string("a\0b", 3), std::string(201, 'x'),
        std::string(1 << 20, 'x')}) {
    for (SegmentKind kind : kBothKinds) {
      EXPECT_THAT(Segment::Open(name, kind), StatusIs(kInvalidArgument));
    }
  }
}

TEST_F(OpenTest, SaysThatThereIsNone) {
  ExpectOpenRefused(absl::StatusCode::kNotFound, name_);
}

TEST_F(OpenTest, RefusesASymbolicLink) {
  const std::string prefix = name_ + "-target";
  TENON_ASSERT_OK_AND_ASSIGN(
      const Segment target,
      Segment::CreateSharedWritable(
          kSize,
          {.strategy = SharingStrategy::kFileSystem, .name_prefix = prefix}));
  ASSERT_EQ(symlink(target.name().c_str(), path_.c_str()), 0);
  for (SegmentKind kind : kBothKinds) {
    EXPECT_THAT(Segment::Open(name_, kind),
                StatusIs(kFailedPrecondition, HasSubstr("symbolic links")));
  }
}

TEST_F(OpenTest, RefusesAPipeWithoutWaitingForItsOtherEnd) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  ExpectOpenRefused(kFailedPrecondition, "is a pipe");
}

TEST_F(OpenTest, RefusesASocket) {
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {.sun_family = AF_UNIX};
  ASSERT_LT(path_.size(), sizeof(address.sun_path));
  std::memcpy(address.sun_path, path_.c_str(), path_.size());
  ASSERT_EQ(
      bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)),
      0);
  for (SegmentKind kind : kBothKinds) {
    EXPECT_THAT(Segment::Open(name_, kind), StatusIs(kFailedPrecondition));
  }
}

TEST_F(OpenTest, RefusesADirectory) {
  ASSERT_EQ(mkdir(path_.c_str(), 0700), 0);
  for (SegmentKind kind : kBothKinds) {
    EXPECT_THAT(Segment::Open(name_, kind),
                testing::AnyOf(StatusIs(kFailedPrecondition),
                               StatusIs(kPermissionDenied)));
  }
}

TEST_F(OpenTest, RefusesAnEmptyFile) {
  PlantFile(0, 0600);
  ExpectOpenRefused(kFailedPrecondition, "0 bytes");
}

TEST_F(OpenTest, RefusesAFileThatOthersMayUse) {
  PlantFile(kSize, 0644);
  ExpectOpenRefused(kPermissionDenied, "mode 0644");
}

TEST_F(OpenTest, RefusesAFileThatItsGroupMayWrite) {
  PlantFile(kSize, 0620);
  ExpectOpenRefused(kPermissionDenied, "mode 0620");
}

TEST_F(OpenTest, RefusesASegmentThatIsStillBeingCreated) {
  PlantFile(kSize, kUnfinishedNameMode);
  ExpectOpenRefused(kPermissionDenied);
}

TEST_F(OpenTest, RefusesAFileWithASecondName) {
  const std::string second = path_ + ".second";
  for (const mode_t mode : {mode_t{0600}, kFinishedNameMode}) {
    PlantFile(kSize, mode);
    ASSERT_EQ(link(path_.c_str(), second.c_str()), 0);
    ExpectOpenRefused(kPermissionDenied, "has 2 names (hard links)");
    ASSERT_EQ(unlink(second.c_str()), 0);
    EXPECT_THAT(Segment::Open(name_, SegmentKind::kOwnerWritten), IsOk());
    unlink(path_.c_str());
  }
}

TEST_F(OpenTest, RefusesAnotherUsersFileAlsoForRoot) {
  if (!CanBecomeAnotherUser()) GTEST_SKIP() << kNoOtherUser;
  PlantFile(kSize, 0600);
  ASSERT_EQ(chown(path_.c_str(), kNobody, kNobody), 0);
  ExpectOpenRefused(kPermissionDenied, absl::StrCat("user ", kNobody));
}

TEST_F(OpenTest, AnotherUserIsRefused) {
  if (!CanBecomeAnotherUser()) GTEST_SKIP() << kNoOtherUser;
  PlantFile(kSize, 0600);
  EXPECT_TRUE(PassesInChild([&] {
    ASSERT_TRUE(BecomeAnotherUser());
    ExpectOpenRefused(kPermissionDenied, "[EACCES]");
  }));
}

}  // namespace
}  // namespace tenon

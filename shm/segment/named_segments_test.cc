// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Which names are held, and which are reclaimed: holders of every kind, and
// files that are not ours. All names begin with a prefix of the test: other
// tests share /dev/shm.

#include "tenon/shm/segment/named_segments.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/segment/name_token.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/segment_files.h"
#include "tenon/shm/segment/segment_options.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr size_t kBytes = 10000;

std::string PathOfName(const std::string& name) { return "/dev/shm/" + name; }

// A file as Segment makes them, whose creator has died.
void PlantDead(const std::string& name, mode_t mode = kFinishedNameMode) {
  const UniqueFd fd(open(PathOfName(name).c_str(),
                         O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  ASSERT_TRUE(fd.valid()) << name;
  ASSERT_EQ(ftruncate(fd.get(), kBytes), 0);
  ASSERT_EQ(fchmod(fd.get(), mode), 0);
}

bool Exists(const std::string& name) {
  struct stat file;
  return lstat(PathOfName(name).c_str(), &file) == 0;
}

class NamedSegmentsTest : public testing::Test {
 protected:
  ~NamedSegmentsTest() override {
    EXPECT_THAT(ListShmNames(prefix_), IsOkAndHolds(IsEmpty()));
    EXPECT_EQ(CountOpenFds(), fds_before_);
  }

  SegmentOptions Options() const {
    return {.strategy = SharingStrategy::kFileSystem, .name_prefix = prefix_};
  }
  absl::StatusOr<Segment> Create() const {
    return Segment::CreateSharedWritable(kBytes, Options());
  }

  // As ListNamedSegments() shows it.
  std::optional<NamedSegment> Find(const std::string& name) const {
    const auto all = ListNamedSegments();
    EXPECT_THAT(all, IsOk());
    if (!all.ok()) return std::nullopt;
    for (const NamedSegment& segment : *all) {
      if (segment.name == name) return segment;
    }
    return std::nullopt;
  }

  void ExpectHeld(const std::string& name) const {
    const auto found = Find(name);
    ASSERT_TRUE(found.has_value()) << name;
    EXPECT_TRUE(found->is_held) << name;
    EXPECT_THAT(ReclaimDeadName(name), IsOkAndHolds(false));
    EXPECT_TRUE(Exists(name));
  }
  void ExpectDead(const std::string& name) const {
    const auto found = Find(name);
    ASSERT_TRUE(found.has_value()) << name;
    EXPECT_FALSE(found->is_held) << name;
    EXPECT_THAT(ReclaimDeadName(name), IsOkAndHolds(true));
    EXPECT_FALSE(Exists(name));
  }
  void ExpectNotOurs(const std::string& name) const {
    EXPECT_FALSE(Find(name).has_value()) << name;
    EXPECT_THAT(ReclaimDeadName(name), IsOkAndHolds(false));
    EXPECT_TRUE(Exists(name));
  }

  const std::string prefix_ = UniqueTestPrefix();
  const size_t fds_before_ = CountOpenFds();
};

TEST_F(NamedSegmentsTest, TheCreatorHoldsItByItsDescriptor) {
  TENON_ASSERT_OK_AND_ASSIGN(const Segment segment, Create());
  ExpectHeld(segment.name());
  const auto found = Find(segment.name());
  EXPECT_EQ(found->size_bytes, kBytes);
  EXPECT_GE(found->allocated_bytes, kBytes);
  EXPECT_TRUE(found->is_finished);
  EXPECT_LT(absl::AbsDuration(absl::Now() - found->created), absl::Minutes(1));
  struct stat file;
  ASSERT_EQ(fstat(segment.fd(), &file), 0);
  EXPECT_EQ(found->inode, file.st_ino);
  EXPECT_EQ(found->device, file.st_dev);
}

TEST_F(NamedSegmentsTest, AMappingAloneHoldsIt) {
  TENON_ASSERT_OK_AND_ASSIGN(Segment segment, Create());
  {
    TENON_ASSERT_OK_AND_ASSIGN(const ReadOnlyMapping mapping,
                               segment.MapReadOnly());
    ASSERT_THAT(segment.CloseFd(), IsOk());
    ExpectHeld(segment.name());
  }
  ExpectDead(segment.name());
  EXPECT_THAT(segment.MapReadOnly(), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(NamedSegmentsTest, AMappingByNameHoldsItAgain) {
  TENON_ASSERT_OK_AND_ASSIGN(Segment segment, Create());
  ASSERT_THAT(segment.CloseFd(), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const WritableMapping mapping,
                             segment.MapWritable());
  ExpectHeld(segment.name());
}

TEST_F(NamedSegmentsTest, AnOpenerHoldsItAfterTheCreatorHasDied) {
  for (SegmentKind kind :
       {SegmentKind::kOwnerWritten, SegmentKind::kSharedWritable}) {
    PlantDead(prefix_);
    std::optional<ReadOnlyMapping> mapping;
    {
      TENON_ASSERT_OK_AND_ASSIGN(Segment opened, Segment::Open(prefix_, kind));
      ExpectHeld(prefix_);
      TENON_ASSERT_OK_AND_ASSIGN(mapping, opened.MapReadOnly());
    }
    ExpectHeld(prefix_);
    mapping.reset();
    ExpectDead(prefix_);
  }
}

TEST_F(NamedSegmentsTest, AForkedChildThatMapsItHoldsIt) {
  int created[2];
  ASSERT_EQ(pipe(created), 0);
  int end[2];
  ASSERT_EQ(pipe(end), 0);
  // The creator dies at once; its child lives on with the inherited mapping.
  EXPECT_TRUE(PassesInChild([&] {
    TENON_ASSERT_OK_AND_ASSIGN(Segment segment, Create());
    TENON_ASSERT_OK_AND_ASSIGN(const auto mapping, segment.MapReadOnly());
    ASSERT_THAT(segment.CloseFd(), IsOk());
    if (fork() == 0) {
      close(end[1]);
      char byte;
      _exit(static_cast<int>(read(end[0], &byte, 1)));
    }
    ASSERT_EQ(write(created[1], segment.name().data(), segment.name().size()),
              static_cast<ssize_t>(segment.name().size()));
    _exit(0);
  }));
  char text[256];
  const ssize_t size = read(created[0], text, sizeof(text));
  ASSERT_GT(size, 0);
  const std::string name(text, static_cast<size_t>(size));
  ExpectHeld(name);
  close(end[1]);  // The child ends.
  EXPECT_TRUE(Becomes([&] { return !Find(name)->is_held; }));
  ExpectDead(name);
  for (const int fd : {created[0], created[1], end[0]}) close(fd);
}

TEST_F(NamedSegmentsTest, AFilledSegmentIsHeldToo) {
  const std::vector<std::byte> contents(kBytes, std::byte{1});
  TENON_ASSERT_OK_AND_ASSIGN(
      const Segment segment,
      Segment::CreateFilled(contents, SegmentKind::kOwnerWritten, Options()));
  ExpectHeld(segment.name());
}

TEST_F(NamedSegmentsTest, OneThatIsBeingCreatedIsHeldOrDead) {
  {
    // The mode permits no process of this user to open it for reading later.
    const UniqueFd creator(open(PathOfName(prefix_).c_str(),
                                O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
                                kUnfinishedNameMode));
    ASSERT_TRUE(creator.valid());
    const auto found = Find(prefix_);
    ASSERT_TRUE(found.has_value());
    EXPECT_FALSE(found->is_finished);
    EXPECT_FALSE(found->is_held);
    ASSERT_THAT(HoldName(creator.get(), "x"), IsOk());
    ExpectHeld(prefix_);
  }
  ExpectDead(prefix_);
}

TEST_F(NamedSegmentsTest, AnUnfinishedNameIsReclaimedWhateverTheUmask) {
  const pid_t creator = fork();
  if (creator == 0) {
    umask(0777);
    SetCrashPointHook([](const CrashPoint& point) {
      if (std::string(point.name()) == "segment.named.held") raise(SIGKILL);
    });
    _exit(Create().ok() ? 1 : 2);
  }
  int status = 0;
  ASSERT_EQ(waitpid(creator, &status, 0), creator);
  ASSERT_TRUE(WIFSIGNALED(status));
  TENON_ASSERT_OK_AND_ASSIGN(const auto names, ListShmNames(prefix_));
  ASSERT_THAT(names, SizeIs(1));
  ExpectDead(names[0]);
}

TEST_F(NamedSegmentsTest, FilesOfOtherProgramsAreNotTouched) {
  // Names as Tenon makes them, and private, but without the sticky bit.
  TENON_ASSERT_OK_AND_ASSIGN(const std::string name, MakeShmName(prefix_));
  for (mode_t mode : {0600, 0400, 0200, 0644, 01644, 01777, 01000, 03600}) {
    PlantDead(name, mode);
    ExpectNotOurs(name);
    ASSERT_EQ(unlink(PathOfName(name).c_str()), 0);
  }
}

TEST_F(NamedSegmentsTest, FilesOfOtherTypesAreNotTouched) {
  const std::string target = absl::StrCat(prefix_, "-target");
  const std::string path = PathOfName(prefix_);
  ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
  ASSERT_EQ(chmod(path.c_str(), kFinishedNameMode), 0);
  ExpectNotOurs(prefix_);
  ASSERT_EQ(rmdir(path.c_str()), 0);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  ASSERT_EQ(chmod(path.c_str(), kFinishedNameMode), 0);
  ExpectNotOurs(prefix_);
  ASSERT_EQ(unlink(path.c_str()), 0);
  PlantDead(target);
  ASSERT_EQ(symlink(PathOfName(target).c_str(), path.c_str()), 0);
  ExpectNotOurs(prefix_);
  ExpectDead(target);
  ASSERT_EQ(unlink(path.c_str()), 0);
}

TEST_F(NamedSegmentsTest, AnotherUsersNameIsNotTouchedAlsoByRoot) {
  if (!CanBecomeAnotherUser()) GTEST_SKIP() << kNoOtherUser;
  PlantDead(prefix_);
  EXPECT_TRUE(PassesInChild([&] {
    ASSERT_TRUE(BecomeAnotherUser());
    ExpectNotOurs(prefix_);
  }));
  ASSERT_EQ(chown(PathOfName(prefix_).c_str(), kNobody, kNobody), 0);
  ExpectNotOurs(prefix_);
  EXPECT_TRUE(PassesInChild([&] {
    ASSERT_TRUE(BecomeAnotherUser());
    ExpectDead(prefix_);
  }));
}

TEST_F(NamedSegmentsTest, AnotherUsersUnfinishedNameIsReclaimedByThatUser) {
  if (!CanBecomeAnotherUser()) GTEST_SKIP() << kNoOtherUser;
  EXPECT_TRUE(PassesInChild([&] {
    ASSERT_TRUE(BecomeAnotherUser());
    PlantDead(prefix_, kUnfinishedNameMode);
    EXPECT_THAT(Segment::Open(prefix_, SegmentKind::kOwnerWritten),
                StatusIs(absl::StatusCode::kPermissionDenied));
    ExpectDead(prefix_);
  }));
}

TEST_F(NamedSegmentsTest, ListingDoesNotDisturbAnOpener) {
  PlantDead(prefix_);
  // A lister that is stopped at any moment has locked nothing.
  const UniqueFd lister(open(PathOfName(prefix_).c_str(), O_WRONLY));
  EXPECT_THAT(IsNameHeld(lister.get(), "x"), IsOkAndHolds(false));
  EXPECT_THAT(Segment::Open(prefix_, SegmentKind::kOwnerWritten), IsOk());
  ExpectDead(prefix_);
}

TEST_F(NamedSegmentsTest, ANameThatIsBeingRemovedCannotBeOpened) {
  PlantDead(prefix_);
  {
    const UniqueFd remover(open(PathOfName(prefix_).c_str(), O_WRONLY));
    EXPECT_THAT(LockDeadName(remover.get(), "x"), IsOkAndHolds(true));
    EXPECT_THAT(Segment::Open(prefix_, SegmentKind::kOwnerWritten),
                StatusIs(absl::StatusCode::kNotFound,
                         testing::HasSubstr("have ended")));
    // A second one does not wait for the first.
    EXPECT_THAT(ReclaimDeadName(prefix_), IsOkAndHolds(false));
  }
  // The first was killed before it removed the name.
  EXPECT_THAT(Segment::Open(prefix_, SegmentKind::kOwnerWritten), IsOk());
  ExpectDead(prefix_);
}

TEST_F(NamedSegmentsTest, RefusesMalformedNames) {
  EXPECT_THAT(ReclaimDeadName("../x"),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ReclaimDeadName(absl::StrCat(prefix_, "-none")),
              IsOkAndHolds(false));
}

// What a process that reclaims does to a new name before its creator holds it.
class CreationRaceTest : public NamedSegmentsTest {
 protected:
  void SetUp() override {
    active = this;
    SetCrashPointHook([](const CrashPoint& point) {
      if (std::string(point.name()) == "segment.named.created") active->Race();
    });
  }
  void TearDown() override { SetCrashPointHook(nullptr); }

  void Race() {
    const auto names = ListShmNames(prefix_);
    ASSERT_THAT(names, IsOkAndHolds(SizeIs(1)));
    if (stolen_.size() == times_) return;
    stolen_.push_back(names->at(0));
    if (!only_locks_) {
      EXPECT_THAT(ReclaimDeadName(stolen_.back()), IsOkAndHolds(true));
      return;
    }
    const std::string path = PathOfName(stolen_.back());
    locks_.emplace_back(open(path.c_str(), O_WRONLY | O_CLOEXEC));
    EXPECT_THAT(LockDeadName(locks_.back().get(), "x"), IsOkAndHolds(true));
    EXPECT_EQ(unlink(path.c_str()), 0);
  }

  inline static CreationRaceTest* active = nullptr;
  size_t times_ = 1;
  bool only_locks_ = false;  // At the moment at which the creator looks.
  std::vector<std::string> stolen_;
  std::vector<UniqueFd> locks_;
};

TEST_F(CreationRaceTest, AReclaimedNewNameIsReplacedByAnother) {
  for (const bool only_locks : {false, true}) {
    only_locks_ = only_locks;
    stolen_.clear();
    TENON_ASSERT_OK_AND_ASSIGN(const Segment segment, Create());
    ASSERT_THAT(stolen_, SizeIs(1));
    EXPECT_NE(segment.name(), stolen_[0]);
    ExpectHeld(segment.name());
    EXPECT_THAT(ListShmNames(prefix_),
                IsOkAndHolds(ElementsAre(segment.name())));
    locks_.clear();
  }
}

TEST_F(CreationRaceTest, EndsWithAnErrorIfItNeverWins) {
  times_ = 100;
  EXPECT_THAT(Create(), StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(stolen_, SizeIs(8));
}

}  // namespace
}  // namespace tenon

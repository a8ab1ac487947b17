// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Names that programs choose: SegmentOptions::name, PublishAs(),
// OpenOrCreate().

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <thread>
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
#include "tenon/shm/segment/named_segments.h"
#include "tenon/shm/segment/open_or_create.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/segment_options.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using absl::StatusCode::kAlreadyExists;
using absl::StatusCode::kFailedPrecondition;
using absl::StatusCode::kInvalidArgument;
using absl::StatusCode::kNotFound;

constexpr size_t kChosenBytes = 8192;
constexpr auto kWritable = SegmentKind::kSharedWritable;

class ChosenNameTest : public testing::Test {
 protected:
  ~ChosenNameTest() override {
    EXPECT_THAT(ListShmNames(name_), IsOkAndHolds(IsEmpty()));
    EXPECT_EQ(CountOpenFds(), fds_before_);
  }

  // Its random name begins with name_, too, for the check above.
  SegmentOptions Named() const { return {.name_prefix = name_, .name = name_}; }
  absl::StatusOr<Segment> Create() const {
    return Segment::CreateSharedWritable(kChosenBytes, Named());
  }
  // By a process that is killed.
  void CreateInDying() const {
    const pid_t child = fork();
    if (child == 0) {
      const auto made = Create();
      if (made.ok()) raise(SIGKILL);
      _exit(1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    ASSERT_THAT(ListShmNames(name_), IsOkAndHolds(ElementsAre(name_)));
  }

  // As a process that removes the name does.
  UniqueFd OpenFile() const {
    return UniqueFd(open(("/dev/shm/" + name_).c_str(), O_WRONLY | O_CLOEXEC));
  }

  const std::string name_ = UniqueTestPrefix() + ".frames";
  const size_t fds_before_ = CountOpenFds();
};

TEST_F(ChosenNameTest, ProgramsMeetByIt) {
  TENON_ASSERT_OK_AND_ASSIGN(const Segment made, Create());
  EXPECT_EQ(made.name(), name_);
  EXPECT_EQ(made.strategy(), SharingStrategy::kFileSystem);
  EXPECT_THAT(ListShmNames(name_), IsOkAndHolds(ElementsAre(name_)));
  EXPECT_TRUE(PassesInChild([&] {
    TENON_ASSERT_OK_AND_ASSIGN(const Segment opened,
                               Segment::Open(name_, kWritable));
    TENON_ASSERT_OK_AND_ASSIGN(const auto mapping, opened.MapWritable());
    mapping.data()[0] = std::byte{42};
  }));
  TENON_ASSERT_OK_AND_ASSIGN(const auto mapping, made.MapReadOnly());
  EXPECT_EQ(mapping.data()[0], std::byte{42});
}

TEST_F(ChosenNameTest, EveryWayToCreateTakesIt) {
  const std::vector<std::byte> contents(kChosenBytes, std::byte{7});
  for (int way = 0; way < 4; ++way) {
    std::optional<Segment> made;
    if (way == 0) {
      TENON_ASSERT_OK_AND_ASSIGN(made, Create());
    } else if (way == 1) {
      TENON_ASSERT_OK_AND_ASSIGN(
          made, Segment::CreateFilled(contents, kWritable, Named()));
    } else {
      TENON_ASSERT_OK_AND_ASSIGN(
          Segment::OwnerWritten owned,
          way == 2 ? Segment::CreateOwnerWritten(kChosenBytes, Named())
                   : Segment::CreateOwnerWritten(contents, Named()));
      made = std::move(owned.segment);
    }
    TENON_ASSERT_OK_AND_ASSIGN(
        const Segment opened, Segment::Open(name_, SegmentKind::kOwnerWritten));
    EXPECT_EQ(opened.size_bytes(), kChosenBytes);
  }
}

TEST_F(ChosenNameTest, OneThatIsInUseIsNotTaken) {
  TENON_ASSERT_OK_AND_ASSIGN(const Segment made, Create());
  EXPECT_THAT(Create(), StatusIs(kAlreadyExists,
                                 AllOf(HasSubstr(name_), HasSubstr("in use"),
                                       HasSubstr("8192 bytes"))));
  EXPECT_THAT(ListShmNames(name_), IsOkAndHolds(SizeIs(1)));
}

TEST_F(ChosenNameTest, AFileOfAnotherProgramIsLeftAlone) {
  const std::string path = "/dev/shm/" + name_;
  {
    const UniqueFd fd(
        open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    ASSERT_TRUE(fd.valid());
  }
  EXPECT_THAT(Create(), StatusIs(kAlreadyExists, HasSubstr("another program")));
  EXPECT_THAT(RemoveSegmentName(name_), IsOk());
  ASSERT_EQ(unlink(path.c_str()), 0) << "it is still there";
}

TEST_F(ChosenNameTest, AnotherUserCanOccupyItAndGetsNothing) {
  if (!CanBecomeAnotherUser()) GTEST_SKIP() << kNoOtherUser;
  const std::string path = "/dev/shm/" + name_;
  for (const mode_t mode : {mode_t{0666}, kFinishedNameMode}) {
    EXPECT_TRUE(PassesInChild([&] {
      ASSERT_TRUE(BecomeAnotherUser());
      const UniqueFd fd(
          open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
      ASSERT_TRUE(fd.valid());
      ASSERT_EQ(ftruncate(fd.get(), kChosenBytes), 0);
      ASSERT_EQ(fchmod(fd.get(), mode), 0);
    }));
    EXPECT_THAT(Create(), StatusIs(kAlreadyExists, HasSubstr("user")));
    EXPECT_THAT(Segment::Open(name_, SegmentKind::kOwnerWritten),
                StatusIs(absl::StatusCode::kPermissionDenied));
    EXPECT_THAT(Segment::OpenOrCreateSharedWritable(kChosenBytes, Named()),
                StatusIs(absl::StatusCode::kPermissionDenied));
    EXPECT_THAT(RemoveSegmentName(name_), IsOk());
    ASSERT_EQ(unlink(path.c_str()), 0) << "it is still there";
  }
}

TEST_F(ChosenNameTest, TheLastHolderRemovesIt) {
  std::optional<Segment> opened;
  {
    TENON_ASSERT_OK_AND_ASSIGN(const Segment made, Create());
    TENON_ASSERT_OK_AND_ASSIGN(opened, Segment::Open(name_, kWritable));
  }
  // The creator has gone; others may still come.
  TENON_ASSERT_OK_AND_ASSIGN(Segment second, Segment::Open(name_, kWritable));
  opened.reset();
  EXPECT_THAT(ListShmNames(name_), IsOkAndHolds(SizeIs(1)));
  TENON_ASSERT_OK_AND_ASSIGN(
      Segment other, Segment::CreateSharedWritable(
                         4096, {.name_prefix = name_, .name = name_ + "2"}));
  second = std::move(other);  // Assignment ends the hold, too.
  EXPECT_THAT(ListShmNames(name_), IsOkAndHolds(ElementsAre(name_ + "2")));
}

TEST_F(ChosenNameTest, AMappingThatOutlivesItsSegmentHoldsIt) {
  std::optional<ReadOnlyMapping> mapping;
  {
    TENON_ASSERT_OK_AND_ASSIGN(const Segment made, Create());
    TENON_ASSERT_OK_AND_ASSIGN(mapping, made.MapReadOnly());
  }
  EXPECT_THAT(Segment::Open(name_, kWritable), IsOk());
  mapping.reset();
  // No Segment was left to remove the name; it does not exist all the same.
  EXPECT_THAT(Segment::Open(name_, kWritable), StatusIs(kNotFound));
}

TEST_F(ChosenNameTest, OneWhoseHoldersWereKilledDoesNotExist) {
  CreateInDying();
  EXPECT_THAT(Segment::Open(name_, kWritable), StatusIs(kNotFound));
  EXPECT_THAT(ListShmNames(name_), IsOkAndHolds(IsEmpty()));
  CreateInDying();
  TENON_ASSERT_OK_AND_ASSIGN(const Segment made, Create());
}

TEST_F(ChosenNameTest, UnlinkFreesTheNameAndNotTheMemory) {
  TENON_ASSERT_OK_AND_ASSIGN(Segment made, Create());
  TENON_ASSERT_OK_AND_ASSIGN(Segment opened, Segment::Open(name_, kWritable));
  // Any holder may.
  ASSERT_THAT(opened.Unlink(), IsOk());
  EXPECT_THAT(opened.Unlink(), IsOk());
  EXPECT_THAT(Segment::Open(name_, kWritable), StatusIs(kNotFound));
  TENON_ASSERT_OK_AND_ASSIGN(const Segment next, Create());
  // The name is the new segment's: neither a call nor an end of the old one's
  // holders removes it.
  ASSERT_THAT(made.Unlink(), IsOk());
  EXPECT_THAT(made.MapReadOnly(), IsOk());
  { const Segment gone = std::move(opened); }
  EXPECT_THAT(Segment::Open(name_, kWritable), IsOk());
  EXPECT_THAT(RemoveSegmentName(name_), IsOk());
  EXPECT_THAT(Segment::Open(name_, kWritable), StatusIs(kNotFound));
}

TEST_F(ChosenNameTest, AForkedChildDoesNotRemoveIt) {
  TENON_ASSERT_OK_AND_ASSIGN(Segment made, Create());
  EXPECT_TRUE(PassesInChild([&] {
    EXPECT_THAT(made.Unlink(), StatusIs(kFailedPrecondition));
    EXPECT_THAT(made.PublishAs(name_ + "2"), StatusIs(kFailedPrecondition));
    { const Segment inherited = std::move(made); }
  }));
  EXPECT_THAT(Segment::Open(name_, kWritable), IsOk());
}

TEST_F(ChosenNameTest, PublishesWhatIsComplete) {
  TENON_ASSERT_OK_AND_ASSIGN(
      Segment made, Segment::CreateSharedWritable(
                        kChosenBytes, {.strategy = SharingStrategy::kFileSystem,
                                       .name_prefix = name_}));
  {
    TENON_ASSERT_OK_AND_ASSIGN(const auto mapping, made.MapWritable());
    std::memset(mapping.data(), 5, kChosenBytes);
    ASSERT_THAT(made.CloseFd(), IsOk());
    EXPECT_THAT(Segment::Open(name_, kWritable), StatusIs(kNotFound));
    ASSERT_THAT(made.PublishAs(name_), IsOk());
    EXPECT_EQ(made.name(), name_);
    EXPECT_THAT(ListShmNames(name_), IsOkAndHolds(ElementsAre(name_)));
    EXPECT_THAT(made.MapReadOnly(), IsOk()) << "by its new name";
    EXPECT_THAT(made.PublishAs(name_ + "2"),
                StatusIs(kFailedPrecondition, HasSubstr("random name")));
    TENON_ASSERT_OK_AND_ASSIGN(const Segment opened,
                               Segment::Open(name_, kWritable));
    TENON_ASSERT_OK_AND_ASSIGN(const auto theirs, opened.MapReadOnly());
    EXPECT_EQ(theirs.data()[kChosenBytes - 1], std::byte{5});
  }
}

TEST_F(ChosenNameTest, AFailedPublishKeepsTheRandomName) {
  TENON_ASSERT_OK_AND_ASSIGN(const Segment holder, Create());
  TENON_ASSERT_OK_AND_ASSIGN(
      Segment made,
      Segment::CreateSharedWritable(
          1, {.strategy = SharingStrategy::kFileSystem, .name_prefix = name_}));
  EXPECT_THAT(made.PublishAs(name_), StatusIs(kAlreadyExists));
  EXPECT_THAT(made.PublishAs("../x"), StatusIs(kInvalidArgument));
  EXPECT_TRUE(IsMadeShmName(made.name()));
  EXPECT_THAT(Segment::Open(made.name(), kWritable), IsOk());
}

TEST_F(ChosenNameTest, RefusesMalformedNames) {
  const std::string made =
      absl::StrCat(name_, "-0123456789abcdef0123456789abcdef");
  for (const std::string& bad : {std::string("a/b"), std::string(".x"), made}) {
    EXPECT_THAT(Segment::CreateSharedWritable(1, {.name = bad}),
                StatusIs(kInvalidArgument, HasSubstr("name")))
        << bad;
  }
  EXPECT_THAT(
      Segment::CreateSharedWritable(
          1, {.strategy = SharingStrategy::kFileDescriptor, .name = name_}),
      StatusIs(kInvalidArgument, HasSubstr("leave `strategy` unset")));
  EXPECT_THAT(Segment::OpenOrCreateSharedWritable(1, {}),
              StatusIs(kInvalidArgument));
}

TEST_F(ChosenNameTest, OpenOrCreateChecksTheSize) {
  bool created = false;
  TENON_ASSERT_OK_AND_ASSIGN(
      const Segment first,
      Segment::OpenOrCreateSharedWritable(kChosenBytes, Named(), &created));
  EXPECT_TRUE(created);
  TENON_ASSERT_OK_AND_ASSIGN(
      const Segment second,
      Segment::OpenOrCreateSharedWritable(kChosenBytes, Named(), &created));
  EXPECT_FALSE(created);
  EXPECT_THAT(Segment::OpenOrCreateSharedWritable(1, Named(), &created),
              StatusIs(kFailedPrecondition,
                       HasSubstr("exists with 8192 bytes; want 1")));
  EXPECT_FALSE(created);
}

TEST_F(ChosenNameTest, OpenOrCreateHasOneWinnerInEachRound) {
  constexpr int kProcesses = 8;
  constexpr int kRounds = 20;
  for (int round = 0; round < kRounds; ++round) {
    // Every other round begins with the name of a dead process.
    if (round % 2 == 1) CreateInDying();
    int start[2];
    ASSERT_EQ(pipe(start), 0);
    std::vector<pid_t> children;
    for (int i = 0; i < kProcesses; ++i) {
      children.push_back(fork());
      if (children.back() != 0) continue;
      close(start[1]);
      char byte;
      if (read(start[0], &byte, 1) != 0) _exit(3);
      bool created = false;
      const auto segment =
          Segment::OpenOrCreateSharedWritable(kChosenBytes, Named(), &created);
      if (!segment.ok()) _exit(2);
      const auto mapping = segment->MapWritable();
      if (!mapping.ok()) _exit(2);
      auto* arrived = reinterpret_cast<int*>(mapping->data());
      __atomic_add_fetch(arrived, 1, __ATOMIC_SEQ_CST);
      // All are holders at once, of the same memory.
      if (!Becomes([&] {
            return __atomic_load_n(arrived, __ATOMIC_SEQ_CST) == kProcesses;
          })) {
        _exit(4);
      }
      _exit(created ? 1 : 0);  // Without destructors.
    }
    close(start[1]);
    int winners = 0;
    for (const pid_t child : children) {
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFEXITED(status));
      ASSERT_LE(WEXITSTATUS(status), 1);
      winners += WEXITSTATUS(status);
    }
    EXPECT_EQ(winners, 1) << "round " << round;
    close(start[0]);
    EXPECT_THAT(ReclaimDeadName(name_), IsOkAndHolds(true));
  }
}

// What other processes do between two steps of this one.
class ChosenNameRaceTest : public ChosenNameTest {
 protected:
  void At(const char* point, std::function<void()> race) {
    at_ = point;
    race_ = std::move(race);
    active = this;
    SetCrashPointHook([](const CrashPoint& now) {
      if (now.name() != active->at_ || !active->race_) return;
      std::exchange(active->race_, nullptr)();
    });
  }
  void TearDown() override {
    SetCrashPointHook(nullptr);
    EXPECT_FALSE(race_) << "the point was not reached";
  }

  inline static ChosenNameRaceTest* active = nullptr;
  std::string at_;
  std::function<void()> race_;
};

TEST_F(ChosenNameTest, ARemoverThatIsKilledLeavesItDead) {
  CreateInDying();
  const UniqueFd looker = OpenFile();
  std::optional<UniqueFd> remover = OpenFile();
  ASSERT_THAT(LockDeadName(remover->get(), "x"), IsOkAndHolds(true));
  // Its exclusive lock is no holder's.
  EXPECT_THAT(IsNameHeld(looker.get(), "x"), IsOkAndHolds(false));
  std::thread end([&] {
    absl::SleepFor(absl::Milliseconds(20));
    remover.reset();
  });
  EXPECT_THAT(Segment::Open(name_, kWritable), StatusIs(kNotFound));
  end.join();
  EXPECT_THAT(ListShmNames(name_), IsOkAndHolds(IsEmpty()));
}

TEST_F(ChosenNameTest, CreationWaitsForARemover) {
  CreateInDying();
  std::optional<UniqueFd> remover = OpenFile();
  ASSERT_THAT(LockDeadName(remover->get(), "x"), IsOkAndHolds(true));
  EXPECT_THAT(Create(),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr(name_), HasSubstr("stopped process"))));
  EXPECT_THAT(ListShmNames(name_), IsOkAndHolds(ElementsAre(name_)));
  std::thread end([&] {
    absl::SleepFor(absl::Milliseconds(20));
    remover.reset();
  });
  EXPECT_THAT(Create(), IsOk());
  end.join();
}

TEST_F(ChosenNameRaceTest, TheLastHolderEndsBeforeAnOpenerHolds) {
  // Then the opener is a holder in time, or the name is gone.
  auto made = Create();
  ASSERT_THAT(made, IsOk());
  At("segment.open.opened", [&] { made = absl::CancelledError("ended"); });
  EXPECT_THAT(Segment::Open(name_, kWritable), StatusIs(kNotFound));
  made = Create();
  ASSERT_THAT(made, IsOk());
  At("segment.open.seen_held", [&] { made = absl::CancelledError("ended"); });
  // It is removed with the end of its last holder, before the opener's lock.
  EXPECT_THAT(Segment::Open(name_, kWritable), StatusIs(kNotFound));
}

TEST_F(ChosenNameRaceTest, TheNameIsReplacedBeforeAnOpenerHolds) {
  for (const char* point : {"segment.open.opened", "segment.open.seen_held"}) {
    TENON_ASSERT_OK_AND_ASSIGN(Segment old, Create());
    std::optional<Segment> fresh;
    At(point, [&] {
      ASSERT_THAT(old.Unlink(), IsOk());
      TENON_ASSERT_OK_AND_ASSIGN(
          fresh, Segment::CreateSharedWritable(
                     4096, {.name_prefix = name_, .name = name_}));
    });
    TENON_ASSERT_OK_AND_ASSIGN(const Segment opened,
                               Segment::Open(name_, kWritable));
    EXPECT_EQ(opened.size_bytes(), 4096u);
  }
}

TEST_F(ChosenNameRaceTest, AnotherProcessIsFasterToPublish) {
  std::optional<Segment> faster;
  At("segment.publish.begun",
     [&] { TENON_ASSERT_OK_AND_ASSIGN(faster, Create()); });
  EXPECT_THAT(Create(), StatusIs(kAlreadyExists));
  EXPECT_THAT(ListShmNames(name_), IsOkAndHolds(ElementsAre(name_)));
  faster.reset();
  bool created = true;
  At("segment.publish.begun",
     [&] { TENON_ASSERT_OK_AND_ASSIGN(faster, Create()); });
  EXPECT_THAT(
      Segment::OpenOrCreateSharedWritable(kChosenBytes, Named(), &created),
      IsOk());
  EXPECT_FALSE(created);
}

TEST_F(ChosenNameRaceTest, AStoppedRemoverIsAnErrorInTime) {
  TENON_ASSERT_OK_AND_ASSIGN(Segment made, Create());
  const UniqueFd remover = OpenFile();
  EXPECT_THAT(LockNameRemoval(remover.get(), "x"), IsOkAndHolds(true));
  EXPECT_THAT(made.Unlink(), StatusIs(absl::StatusCode::kUnavailable,
                                      HasSubstr("stopped process")));
}

TEST(OpenOrCreateTest, GivesUpOnNamesThatComeAndGo) {
  int opens = 0, creates = 0;
  const auto result = OpenOrCreate(
      [&]() -> absl::StatusOr<int> {
        ++opens;
        return absl::NotFoundError("");
      },
      [&]() -> absl::StatusOr<int> {
        ++creates;
        return absl::AlreadyExistsError("");
      });
  EXPECT_THAT(result, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(opens, 100);
  EXPECT_EQ(creates, 100);
}

}  // namespace
}  // namespace tenon

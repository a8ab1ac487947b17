// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Named segments among processes that are killed at random, some of them in
// other pid namespaces, all of which reclaim while they work. In the end
// /dev/shm holds what other programs put there and nothing else, and no living
// process has missed a name that it held.
//
// TENON_NAMES_SECONDS=30 TENON_NAMES_CLIENTS=50 for a long run.

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/named_segments.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm/testing/mount_namespace_testing.h"
#include "tenon/shm/testing/pid_namespace_testing.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr size_t kMostHeld = 12;
constexpr int kChosenNames = 8;
constexpr int kBoardSlots = 64;

int64_t FromEnvironment(const char* variable, int64_t otherwise) {
  int64_t number;
  const char* text = getenv(variable);
  return text != nullptr && absl::SimpleAtoi(text, &number) ? number
                                                            : otherwise;
}

// Shared by all processes of the test.
struct Board {
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> created{0};
  std::atomic<uint64_t> opened{0};
  std::atomic<uint64_t> reclaimed{0};
  std::atomic<uint64_t> lost{0};    // Names that a living holder missed.
  std::atomic<uint64_t> failed{0};  // Calls that must not fail.
  char failure[256] = {};
  // Random names for others to open. A torn one is refused by Open().
  char names[kBoardSlots][kMaxShmNameLength + 1] = {};
};

void Fail(Board& board, const absl::Status& status) {
  if (board.failed.fetch_add(1) == 0) {
    strncpy(board.failure, status.ToString().c_str(),
            sizeof(board.failure) - 1);
  }
}

// One process that creates, opens, checks and releases until it is killed.
class Client {
 public:
  Client(Board& board, unsigned seed) : board_(board), random_(seed) {}

  [[noreturn]] void Run() {
    while (!board_.stop) {
      const unsigned what = Below(20);
      if (held_.size() == kMostHeld || (what < 5 && !held_.empty())) {
        held_.erase(held_.begin() + Below(held_.size()));
      } else if (what < 11) {
        Create();
      } else if (what < 14) {
        OpenOther();
      } else if (what < 18) {
        MeetAtChosenName();
      } else if (what < 19) {
        Reclaim();
      }
      CheckHeld();
    }
    _exit(0);
  }

 private:
  struct Held {
    Segment segment;
    Segment::Id id;
    bool must_exist;  // Only its holders may remove the name.
  };

  unsigned Below(size_t end) { return static_cast<unsigned>(random_() % end); }

  void Keep(absl::StatusOr<Segment> segment, bool must_exist) {
    if (!segment.ok()) return Fail(board_, segment.status());
    const absl::StatusOr<Segment::Id> id = segment->Identify();
    if (!id.ok()) return Fail(board_, id.status());
    held_.push_back({*std::move(segment), *id, must_exist});
  }

  void Create() {
    auto segment = Segment::CreateSharedWritable(
        4096 * (1 + Below(4)), {.strategy = SharingStrategy::kFileSystem});
    board_.created.fetch_add(1);
    if (segment.ok()) {
      strcpy(board_.names[Below(kBoardSlots)], segment->name().c_str());
    }
    Keep(std::move(segment), true);
  }

  void OpenOther() {
    char name[kMaxShmNameLength + 1] = {};
    strncpy(name, board_.names[Below(kBoardSlots)], kMaxShmNameLength);
    auto segment = Segment::Open(name, SegmentKind::kSharedWritable);
    if (!segment.ok()) return;  // Its creator has ended.
    board_.opened.fetch_add(1);
    Keep(std::move(segment), false);
  }

  void MeetAtChosenName() {
    const std::string name = absl::StrCat("chosen.", Below(kChosenNames));
    Keep(Segment::OpenOrCreateSharedWritable(4096, {.name = name}), true);
  }

  void Reclaim() {
    const auto removed = ReclaimDeadNames();
    if (!removed.ok()) return Fail(board_, removed.status());
    board_.reclaimed.fetch_add(removed->size());
  }

  void CheckHeld() {
    for (const Held& held : held_) {
      struct stat file;
      const std::string path = "/dev/shm/" + held.segment.name();
      if (held.must_exist &&
          (stat(path.c_str(), &file) != 0 || file.st_ino != held.id.inode)) {
        board_.lost.fetch_add(1);
      }
    }
  }

  Board& board_;
  std::minstd_rand random_;
  std::vector<Held> held_;
};

// Returns a pid whose SIGKILL kills the client.
pid_t StartClient(Board& board, unsigned seed) {
  const bool in_own_namespace = seed % 3 == 0;
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid != 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  if (in_own_namespace && unshare(CLONE_NEWPID) == 0) {
    const pid_t inner = fork();
    if (inner != 0) {
      int status;
      waitpid(inner, &status, 0);
      _exit(1);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // Pid 1 there.
  }
  Client(board, seed).Run();
}

void KillAndReap(pid_t pid) {
  ASSERT_EQ(kill(pid, SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFSIGNALED(status)) << "a client ended by itself";
}

bool PlantForeignFile(const char* path) {
  const UniqueFd fd(open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  return fd.valid() && write(fd.get(), "foreign", 7) == 7;
}

// False while there is a process in a pid namespace whose starter was killed
// before it could be tied to its life: it ends when it is told to stop.
bool AllHaveEnded() {
  const auto names = ListNamedSegments();
  if (!names.ok()) return false;
  for (const NamedSegment& name : *names) {
    if (name.is_held) return false;
  }
  return true;
}

TEST(NamedSegmentsStressTest, NothingIsLeftAndNothingIsLost) {
  if (!CanEnterOwnPidNamespace()) GTEST_SKIP() << kNoPidNamespace;
  const SharedObject<Board> board;
  const auto clients =
      static_cast<size_t>(FromEnvironment("TENON_NAMES_CLIENTS", 10));
  const Deadline end =
      Deadline::After(absl::Seconds(FromEnvironment("TENON_NAMES_SECONDS", 4)));
  uint64_t kills = 0;
  EXPECT_TRUE(PassesInChild([&] {
    ASSERT_TRUE(EnterOwnMountNamespace());
    ASSERT_TRUE(MountTmpfs("/dev/shm", "size=256m"));
    ASSERT_TRUE(PlantForeignFile("/dev/shm/psm_1234"));
    ASSERT_TRUE(
        PlantForeignFile("/dev/shm/tenon-0123456789abcdef0123456789abcdef"));
    unsigned seed = 1;
    std::vector<pid_t> running;
    while (running.size() < clients) {
      running.push_back(StartClient(*board, seed++));
    }
    std::minstd_rand random(7);
    while (!end.has_passed()) {
      absl::SleepFor(absl::Milliseconds(1 + random() % 40));
      pid_t& victim = running[random() % running.size()];
      KillAndReap(victim);
      ++kills;
      victim = StartClient(*board, seed++);
    }
    for (const pid_t pid : running) KillAndReap(pid);
    board->stop = true;
    ASSERT_TRUE(Becomes(AllHaveEnded));
    TENON_ASSERT_OK_AND_ASSIGN(const auto removed, ReclaimDeadNames());
    std::cout << kills << " kills, " << board->created << " created, "
              << board->opened << " opened, " << board->reclaimed
              << " reclaimed meanwhile, " << removed.size() << " in the end\n";
    EXPECT_THAT(ListNamedSegments(), IsOkAndHolds(IsEmpty()));
    EXPECT_THAT(ListShmNames("psm_1234"), IsOkAndHolds(SizeIs(1)));
    EXPECT_THAT(ListShmNames("tenon"), IsOkAndHolds(SizeIs(1)));
    EXPECT_THAT(ListShmNames("chosen"), IsOkAndHolds(IsEmpty()));
    EXPECT_GT(kills, 10u);
  }));
  EXPECT_EQ(board->lost, 0u);
  EXPECT_EQ(board->failed, 0u) << board->failure;
  EXPECT_GT(board->created, 200u);
  EXPECT_GT(board->opened, 0u);
  EXPECT_GT(board->reclaimed, 0u);
}

}  // namespace
}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Descriptors that a hostile process sends as segments.

#include <fcntl.h>
#include <linux/memfd.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/proof/segment_trust_testing.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using absl::StatusCode::kFailedPrecondition;
using absl::StatusCode::kInvalidArgument;
using absl::StatusCode::kPermissionDenied;

constexpr int kFixed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// Adopt() of `fd` fails with `code` and `text` for both kinds, and closes it.
void ExpectRefused(const UniqueFd& fd, absl::StatusCode code,
                   const std::string& text) {
  for (SegmentKind kind : kBothKinds) {
    const size_t before = CountOpenFds();
    EXPECT_THAT(Segment::Adopt(UniqueFd(dup(fd.get())), kind),
                StatusIs(code, HasSubstr(text)));
    // Perhaps in a thread, so that the call never waits for the file's server.
    EXPECT_TRUE(Becomes([&] { return CountOpenFds() <= before; }));
  }
}

UniqueFd MakeMemfd(off_t size, int seals, unsigned flags = MFD_ALLOW_SEALING) {
  UniqueFd fd(memfd_create("segment_adopt_test", MFD_CLOEXEC | flags));
  if (!fd.valid()) return fd;
  EXPECT_EQ(ftruncate(fd.get(), size), 0);
  if (seals != 0) {
    EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  }
  return fd;
}

TEST(AdoptTest, TakesWhatIsSealedAndMakesItCloseOnExec) {
  const UniqueFd fd = MakeMemfd(kSize, kFixed | F_SEAL_FUTURE_WRITE);
  for (SegmentKind kind : kBothKinds) {
    const int raw = dup(fd.get());
    TENON_ASSERT_OK_AND_ASSIGN(const Segment segment,
                               Segment::Adopt(UniqueFd(raw), kind));
    EXPECT_EQ(segment.fd(), raw);
    EXPECT_EQ(segment.size_bytes(), kSize);
    EXPECT_EQ(fcntl(raw, F_GETFD), FD_CLOEXEC);
  }
}

TEST(AdoptTest, LeavesTheFlagOfADescriptorThatIsCloseOnExec) {
  const UniqueFd fd = MakeMemfd(kSize, kFixed);
  // Without the flag, to see that it is left.
  const int raw = dup(fd.get());
  TENON_ASSERT_OK_AND_ASSIGN(
      const Segment segment,
      Segment::Adopt(UniqueFd(raw), kSharedWritable, CloseOnExec::kIsSet));
  EXPECT_EQ(fcntl(raw, F_GETFD), 0);
  EXPECT_EQ(segment.size_bytes(), kSize);
  // All else is checked.
  EXPECT_THAT(
      Segment::Adopt(MakeMemfd(kSize, 0), kSharedWritable, CloseOnExec::kIsSet),
      StatusIs(kFailedPrecondition));
}

TEST(AdoptTest, TakesAReadOnlyDescriptorForReading) {
  const UniqueFd fd = MakeMemfd(kSize, kFixed);
  TENON_ASSERT_OK_AND_ASSIGN(
      const Segment segment,
      Segment::Adopt(Reopen(fd.get(), O_RDONLY), kSharedWritable));
  EXPECT_THAT(segment.MapReadOnly(), IsOk());
  EXPECT_THAT(segment.MapWritable(), StatusIs(kPermissionDenied));
}

TEST(AdoptTest, RefusesAMemfdWithoutSeals) {
  ExpectRefused(MakeMemfd(kSize, 0), kFailedPrecondition,
                "F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW");
}

TEST(AdoptTest, RefusesAMemfdThatCannotBeSealed) {
  ExpectRefused(MakeMemfd(kSize, 0, 0), kFailedPrecondition,
                "F_SEAL_SHRINK, F_SEAL_GROW");
}

TEST(AdoptTest, RefusesEachMissingSeal) {
  const std::pair<int, const char*> seals[] = {
      {F_SEAL_SHRINK, "lacks required seals: F_SEAL_SHRINK"},
      {F_SEAL_GROW, "lacks required seals: F_SEAL_GROW"},
      {F_SEAL_SEAL, "lacks required seals: F_SEAL_SEAL"},
  };
  for (const auto& [seal, text] : seals) {
    const int others = (kFixed | F_SEAL_FUTURE_WRITE) & ~seal;
    ExpectRefused(MakeMemfd(kSize, others), kFailedPrecondition, text);
  }
}

TEST(AdoptTest, RefusesAMemfdWithTheSealAgainstShrinkingAlone) {
  ExpectRefused(MakeMemfd(kSize, F_SEAL_SHRINK), kFailedPrecondition,
                "lacks required seals: F_SEAL_SEAL, F_SEAL_GROW");
}

TEST(AdoptTest, RefusesSharedWritableMemoryAsOwnerWritten) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const Segment segment,
      Segment::CreateSharedWritable(
          kSize, {.strategy = SharingStrategy::kFileDescriptor}));
  EXPECT_THAT(
      Segment::Adopt(UniqueFd(dup(segment.fd())), kOwnerWritten),
      StatusIs(kFailedPrecondition, AllOf(HasSubstr("F_SEAL_FUTURE_WRITE"),
                                          Not(HasSubstr("F_SEAL_SHRINK")))));
}

TEST(AdoptTest, RefusesAnEmptyMemfd) {
  ExpectRefused(MakeMemfd(0, kFixed | F_SEAL_FUTURE_WRITE), kInvalidArgument,
                "0 bytes");
}

TEST(AdoptTest, RefusesADiskFile) {
  std::string path = testing::TempDir() + "/segment_adopt_test.XXXXXX";
  const UniqueFd fd(mkostemp(path.data(), O_CLOEXEC));
  ASSERT_TRUE(fd.valid()) << path;
  unlink(path.c_str());
  ASSERT_EQ(ftruncate(fd.get(), kSize), 0);
  for (SegmentKind kind : kBothKinds) {
    // Where the temporary directory is a tmpfs, the seals are missing.
    EXPECT_THAT(
        Segment::Adopt(UniqueFd(dup(fd.get())), kind),
        testing::AnyOf(StatusIs(kInvalidArgument, HasSubstr("not memory")),
                       StatusIs(kFailedPrecondition)));
  }
}

TEST(AdoptTest, RefusesAProcFile) {
  ExpectRefused(UniqueFd(open("/proc/self/maps", O_RDONLY | O_CLOEXEC)),
                kInvalidArgument, "/maps', not memory");
}

TEST(AdoptTest, RefusesAFileInDevShm) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const Segment segment,
      Segment::CreateSharedWritable(kSize,
                                    {.strategy = SharingStrategy::kFileSystem,
                                     .name_prefix = UniqueTestPrefix()}));
  ExpectRefused(UniqueFd(dup(segment.fd())), kFailedPrecondition,
                "F_SEAL_SHRINK, F_SEAL_GROW");
}

TEST(AdoptTest, RefusesPipes) {
  int fds[2];
  ASSERT_EQ(pipe2(fds, O_CLOEXEC), 0);
  ExpectRefused(UniqueFd(fds[0]), kInvalidArgument, "is 'pipe:[");
  ExpectRefused(UniqueFd(fds[1]), kInvalidArgument, "is 'pipe:[");
}

TEST(AdoptTest, RefusesSockets) {
  ExpectRefused(UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)),
                kInvalidArgument, "is 'socket:[");
}

TEST(AdoptTest, RefusesDevices) {
  ExpectRefused(UniqueFd(open("/dev/zero", O_RDWR | O_CLOEXEC)),
                kInvalidArgument, "is '/dev/zero'");
}

TEST(AdoptTest, RefusesDirectories) {
  ExpectRefused(UniqueFd(open("/dev/shm", O_DIRECTORY | O_CLOEXEC)),
                kInvalidArgument, "is '/dev/shm'");
}

TEST(AdoptTest, RefusesWhatIsNotOpen) {
  ExpectRefused(UniqueFd(), kInvalidArgument, "not an open file descriptor");
  for (SegmentKind kind : kBothKinds) {
    EXPECT_THAT(Segment::Adopt(UniqueFd(1 << 20), kind),
                StatusIs(kInvalidArgument));
  }
}

TEST(AdoptTest, RefusesADescriptorThatIsOnlyAPath) {
  const UniqueFd fd = MakeMemfd(kSize, kFixed | F_SEAL_FUTURE_WRITE);
  ExpectRefused(Reopen(fd.get(), O_PATH), kFailedPrecondition, "F_GET_SEALS");
}

TEST(AdoptTest, RefusesHugePagesThatAreNotThere) {
  const UniqueFd fd = MakeMemfd(2 << 20, kFixed | F_SEAL_FUTURE_WRITE,
                                MFD_ALLOW_SEALING | MFD_HUGETLB | MFD_HUGE_2MB);
  if (!fd.valid()) GTEST_SKIP() << "no huge pages of 2 MiB here";
  ExpectRefused(fd, kInvalidArgument, "huge pages");
}

enum AdoptOutcome { kRefused, kAdopted, kAdoptedWithWrongSize, kNotTraced };

// In a traced child: adopts `fd` as owner-written, and exits with the outcome.
[[noreturn]] void AdoptAndExit(int fd) {
  if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(kNotTraced);
  raise(SIGSTOP);
  const absl::StatusOr<Segment> segment =
      Segment::Adopt(UniqueFd(fd), kOwnerWritten);
  if (!segment.ok()) _exit(kRefused);
  struct stat file;
  if (fstat(fd, &file) != 0) _exit(kAdoptedWithWrongSize);
  const auto real_size = static_cast<size_t>(file.st_size);
  _exit(segment->size_bytes() == real_size ? kAdopted : kAdoptedWithWrongSize);
}

// Shrinks and seals the memory that a child adopts when the child has stopped
// at the entry to or the exit from a system call for the `stops`-th time. Empty
// if the child has ended before.
std::optional<AdoptOutcome> AdoptWhileItIsShrunk(int stops) {
  const UniqueFd fd = MakeMemfd(kSize, 0);
  const pid_t child = fork();
  if (child == 0) AdoptAndExit(fd.get());
  int status = 0;
  for (int i = 0; i <= stops; ++i) {
    EXPECT_EQ(waitpid(child, &status, 0), child);
    if (WIFEXITED(status)) break;
    if (i == stops) break;
    EXPECT_EQ(ptrace(PTRACE_SYSCALL, child, 0, 0), 0);
  }
  if (WIFEXITED(status)) {
    if (WEXITSTATUS(status) == kNotTraced) return kNotTraced;
    return std::nullopt;
  }
  EXPECT_EQ(ftruncate(fd.get(), kPage), 0);
  EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, kFixed | F_SEAL_FUTURE_WRITE), 0);
  EXPECT_EQ(ptrace(PTRACE_CONT, child, 0, 0), 0);
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  return static_cast<AdoptOutcome>(WEXITSTATUS(status));
}

// The peer shrinks the memory, then seals it, between any two system calls of
// the receiver. A size read before the seals were checked would be wrong.
TEST(AdoptTest, SizeIsTheOneThatIsSealed) {
  int adopted = 0;
  int refused = 0;
  for (int stops = 0; stops < 1000; ++stops) {
    const std::optional<AdoptOutcome> outcome = AdoptWhileItIsShrunk(stops);
    if (!outcome.has_value()) break;
    if (*outcome == kNotTraced) GTEST_SKIP() << "no tracing here";
    EXPECT_NE(*outcome, kAdoptedWithWrongSize) << "at stop " << stops;
    adopted += *outcome == kAdopted;
    refused += *outcome == kRefused;
  }
  EXPECT_GT(adopted, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// What a hostile process tries: to change a segment that it was given, to pass
// off something else as one, and to plant something under its name. (Each
// attempt needs only the descriptor, so most are made by the test itself.)

#include <fcntl.h>
#include <linux/memfd.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/mapping.h"
#include "tenon/shm/process_testing.h"
#include "tenon/shm/segment.h"
#include "tenon/shm/sharing_strategy.h"
#include "tenon/shm/status_matchers.h"
#include "tenon/shm/unique_fd.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;
constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;
constexpr auto kPermissionDenied = absl::StatusCode::kPermissionDenied;

constexpr SegmentKind kOwnerWritten = SegmentKind::kOwnerWritten;
constexpr SegmentKind kSharedWritable = SegmentKind::kSharedWritable;
constexpr SegmentKind kBothKinds[] = {kOwnerWritten, kSharedWritable};
constexpr size_t kSize = 3 * 4096;
constexpr off_t kPage = 4096;
constexpr int kFixed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// Succeeds if `result` says that a call failed with `error`.
testing::AssertionResult FailsWith(int error, ssize_t result) {
  const int got = errno;
  if (result != -1) return testing::AssertionFailure() << "it worked";
  if (got == error) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "it failed with " << strerror(got);
}

UniqueFd Reopen(int fd, int flags) {
  const std::string path = absl::StrCat("/proc/self/fd/", fd);
  return UniqueFd(open(path.c_str(), flags | O_CLOEXEC));
}

// mmap() with the result of a system call.
ssize_t TryMap(int fd, int protection, int flags = MAP_SHARED) {
  void* data = mmap(nullptr, kSize, protection, flags, fd, 0);
  if (data == MAP_FAILED) return -1;
  munmap(data, kSize);
  return 0;
}

// An owner-written segment full of 'A', and the descriptor that a peer of it
// has received. Whatever the peer does, the contents stay.
class OwnerWrittenSegmentTest : public testing::Test {
 protected:
  void SetUp() override {
    TENON_ASSERT_OK_AND_ASSIGN(
        owned_, Segment::CreateOwnerWritten(
                    kSize, {.strategy = SharingStrategy::kFileDescriptor}));
    std::memset(owned_->mapping.data(), 'A', kSize);
    peer_.Reset(dup(owned_->segment.fd()));
  }

  void TearDown() override {
    struct stat file;
    ASSERT_EQ(fstat(peer_.get(), &file), 0);
    EXPECT_EQ(file.st_size, static_cast<off_t>(kSize));
    for (std::byte byte : owned_->mapping.bytes()) {
      ASSERT_EQ(byte, std::byte{'A'});
    }
  }

  int peer() const { return peer_.get(); }

  std::optional<Segment::OwnerWritten> owned_;
  UniqueFd peer_;
};

TEST_F(OwnerWrittenSegmentTest, CannotBeShrunk) {
  EXPECT_TRUE(FailsWith(EPERM, ftruncate(peer(), kPage)));
  EXPECT_TRUE(FailsWith(EPERM, ftruncate(peer(), 0)));
}

TEST_F(OwnerWrittenSegmentTest, CannotBeGrown) {
  EXPECT_TRUE(FailsWith(EPERM, ftruncate(peer(), kSize + kPage)));
  EXPECT_TRUE(FailsWith(EPERM, fallocate(peer(), 0, kSize, kPage)));
}

TEST_F(OwnerWrittenSegmentTest, CannotBeTruncatedByOpeningIt) {
  EXPECT_FALSE(Reopen(peer(), O_RDWR | O_TRUNC).valid());
}

TEST_F(OwnerWrittenSegmentTest, CannotBePunched) {
  const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  EXPECT_TRUE(FailsWith(EPERM, fallocate(peer(), mode, 0, kPage)));
}

TEST_F(OwnerWrittenSegmentTest, CannotBeZeroed) {
  EXPECT_EQ(fallocate(peer(), FALLOC_FL_ZERO_RANGE, 0, kPage), -1);
}

TEST_F(OwnerWrittenSegmentTest, CannotBeMappedWritable) {
  EXPECT_TRUE(FailsWith(EPERM, TryMap(peer(), PROT_READ | PROT_WRITE)));
  EXPECT_TRUE(FailsWith(EPERM, TryMap(peer(), PROT_WRITE)));
}

TEST_F(OwnerWrittenSegmentTest, ReadOnlyMappingCannotBeMadeWritable) {
  void* data = mmap(nullptr, kSize, PROT_READ, MAP_SHARED, peer(), 0);
  ASSERT_NE(data, MAP_FAILED);
  EXPECT_TRUE(FailsWith(EACCES, mprotect(data, kSize, PROT_READ | PROT_WRITE)));
  munmap(data, kSize);
}

TEST_F(OwnerWrittenSegmentTest, PagesCannotBeRemovedThroughAMapping) {
  void* data = mmap(nullptr, kSize, PROT_READ, MAP_SHARED, peer(), 0);
  ASSERT_NE(data, MAP_FAILED);
  EXPECT_EQ(madvise(data, kSize, MADV_REMOVE), -1);
  munmap(data, kSize);
}

TEST_F(OwnerWrittenSegmentTest, CannotBeWritten) {
  EXPECT_TRUE(FailsWith(EPERM, write(peer(), "B", 1)));
  EXPECT_TRUE(FailsWith(EPERM, pwrite(peer(), "B", 1, kPage)));
}

TEST_F(OwnerWrittenSegmentTest, CannotBeWrittenByTheKernelForAPeer) {
  const UniqueFd source(memfd_create("source", MFD_CLOEXEC));
  ASSERT_EQ(write(source.get(), "B", 1), 1);
  off_t offset = 0;
  EXPECT_TRUE(FailsWith(EPERM, sendfile(peer(), source.get(), &offset, 1)));
}

TEST_F(OwnerWrittenSegmentTest, ReopeningItGivesNoMore) {
  const UniqueFd again = Reopen(peer(), O_RDWR);
  ASSERT_TRUE(again.valid());
  EXPECT_TRUE(FailsWith(EPERM, pwrite(again.get(), "B", 1, 0)));
  EXPECT_TRUE(FailsWith(EPERM, TryMap(again.get(), PROT_READ | PROT_WRITE)));
  EXPECT_TRUE(FailsWith(EPERM, ftruncate(again.get(), kPage)));
}

TEST_F(OwnerWrittenSegmentTest, SealsCannotBeChanged) {
  EXPECT_TRUE(FailsWith(EPERM, fcntl(peer(), F_ADD_SEALS, F_SEAL_WRITE)));
}

TEST_F(OwnerWrittenSegmentTest, PrivateMappingIsACopy) {
  void* data =
      mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE, peer(), 0);
  ASSERT_NE(data, MAP_FAILED);
  std::memset(data, 'B', kSize);
  munmap(data, kSize);
}

TEST_F(OwnerWrittenSegmentTest, SoItIsInAnotherProcess) {
  EXPECT_TRUE(PassesInChild([&] {
    TENON_ASSERT_OK_AND_ASSIGN(
        const Segment received,
        Segment::Adopt(UniqueFd(dup(peer())), kOwnerWritten));
    EXPECT_TRUE(FailsWith(EPERM, ftruncate(received.fd(), 0)));
    EXPECT_TRUE(FailsWith(EPERM, pwrite(received.fd(), "B", 1, 0)));
    EXPECT_TRUE(FailsWith(EPERM, TryMap(received.fd(), PROT_WRITE)));
    EXPECT_THAT(WritableMapping::Map(received.fd(), kSize, "x"),
                StatusIs(kPermissionDenied));
  }));
}

TEST_F(OwnerWrittenSegmentTest, OwnersMappingGoesOnWriting) {
  std::memset(owned_->mapping.data(), 'C', kSize);
  TENON_ASSERT_OK_AND_ASSIGN(const ReadOnlyMapping reader,
                             owned_->segment.MapReadOnly());
  EXPECT_EQ(reader.data()[kSize - 1], std::byte{'C'});
  std::memset(owned_->mapping.data(), 'A', kSize);
}

TEST_F(OwnerWrittenSegmentTest, PassedOffAsSharedWritableItStaysReadOnly) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const Segment received,
      Segment::Adopt(UniqueFd(dup(peer())), kSharedWritable));
  EXPECT_THAT(received.MapWritable(), StatusIs(kPermissionDenied));
  EXPECT_THAT(received.MapReadOnly(), IsOk());
}

TEST(SharedWritableSegmentTest, AllMayWriteAndNobodyMayChangeTheSize) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const Segment segment,
      Segment::CreateSharedWritable(
          kSize, {.strategy = SharingStrategy::kFileDescriptor}));
  const int fd = segment.fd();
  EXPECT_TRUE(FailsWith(EPERM, ftruncate(fd, kPage)));
  EXPECT_TRUE(FailsWith(EPERM, ftruncate(fd, kSize + kPage)));
  EXPECT_TRUE(FailsWith(EPERM, fallocate(fd, 0, kSize, kPage)));
  EXPECT_TRUE(FailsWith(EPERM, fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE)));
  EXPECT_FALSE(Reopen(fd, O_RDWR | O_TRUNC).valid());
  EXPECT_EQ(pwrite(fd, "B", 1, 0), 1);
  EXPECT_EQ(TryMap(fd, PROT_READ | PROT_WRITE), 0);
}

// Adopt() of `fd` says `code` and `text` for both kinds, and closes it.
void ExpectRefused(const UniqueFd& fd, absl::StatusCode code,
                   const std::string& text) {
  for (SegmentKind kind : kBothKinds) {
    const size_t before = CountOpenFds();
    EXPECT_THAT(Segment::Adopt(UniqueFd(dup(fd.get())), kind),
                StatusIs(code, HasSubstr(text)));
    // Perhaps by a thread, so that nobody waits for whose file it is.
    EXPECT_TRUE(Becomes([&] { return CountOpenFds() <= before; }));
  }
}

UniqueFd MakeMemfd(off_t size, int seals, unsigned flags = MFD_ALLOW_SEALING) {
  UniqueFd fd(memfd_create("segment_trust_test", MFD_CLOEXEC | flags));
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
      {F_SEAL_SHRINK, "missing F_SEAL_SHRINK"},
      {F_SEAL_GROW, "missing F_SEAL_GROW"},
      {F_SEAL_SEAL, "missing F_SEAL_SEAL"},
  };
  for (const auto& [seal, text] : seals) {
    const int others = (kFixed | F_SEAL_FUTURE_WRITE) & ~seal;
    ExpectRefused(MakeMemfd(kSize, others), kFailedPrecondition, text);
  }
}

TEST(AdoptTest, RefusesAMemfdWithTheSealAgainstShrinkingAlone) {
  ExpectRefused(MakeMemfd(kSize, F_SEAL_SHRINK), kFailedPrecondition,
                "missing F_SEAL_SEAL, F_SEAL_GROW");
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
  std::string path = testing::TempDir() + "/segment_trust_test.XXXXXX";
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

// In a traced child: adopts `fd` as owner-written, and exits with how it went.
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
// at the entry to or the exit from a system call for the `stops`-th time.
// Nothing if the child has ended before.
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

// Something with a name in /dev/shm that is no segment of ours.
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
  PlantFile(kSize, 0400);
  ExpectOpenRefused(kPermissionDenied);
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

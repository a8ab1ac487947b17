// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/pages/reserve_pages.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstddef>
#include <iterator>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr auto kResourceExhausted = absl::StatusCode::kResourceExhausted;
constexpr size_t kMiB = size_t{1} << 20;

UniqueFd MakeEmptyMemfd() {
  UniqueFd fd(memfd_create("reserve_pages_test", MFD_CLOEXEC));
  EXPECT_TRUE(fd.valid());
  return fd;
}

struct stat Stat(const UniqueFd& fd) {
  struct stat file;
  EXPECT_EQ(fstat(fd.get(), &file), 0);
  return file;
}

size_t Allocated(const UniqueFd& fd) {
  return static_cast<size_t>(Stat(fd).st_blocks) * 512;
}

TEST(SetFileSizeTest, SetsTheSizeAndAllocatesNothing) {
  const UniqueFd fd = MakeEmptyMemfd();
  EXPECT_THAT(SetFileSize(fd.get(), 5 * kMiB, "x"), IsOk());
  EXPECT_EQ(Stat(fd).st_size, static_cast<off_t>(5 * kMiB));
  EXPECT_EQ(Allocated(fd), 0u);
}

TEST(SetFileSizeTest, FileSizeLimitIsAnErrorAndNoSignal) {
  EXPECT_TRUE(PassesInChild([] {
    ASSERT_NE(signal(SIGXFSZ, SIG_DFL), SIG_ERR);  // The default action kills.
    rlimit limit;
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = kMiB;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    const UniqueFd fd = MakeEmptyMemfd();
    EXPECT_THAT(SetFileSize(fd.get(), kMiB, "x"), IsOk());
    EXPECT_THAT(
        SetFileSize(fd.get(), kMiB + 1, "segment 'x'"),
        StatusIs(kResourceExhausted,
                 AllOf(HasSubstr("segment 'x'"),
                       HasSubstr("1048576 bytes (1.0 MiB), RLIMIT_FSIZE"))));
  }));
}

TEST(SetFileSizeTest, OtherErrorsAreTold) {
  EXPECT_THAT(SetFileSize(-1, 1, "x"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("ftruncate(x)")));
}

TEST(ReservePagesTest, AllocatesTheWholeRange) {
  for (size_t size : {size_t{1}, size_t{4096}, kMiB, 16 * kMiB, 50 * kMiB}) {
    const UniqueFd fd = MakeEmptyMemfd();
    ASSERT_THAT(SetFileSize(fd.get(), size, "x"), IsOk());
    EXPECT_THAT(ReservePages(fd.get(), 0, size, "x"), IsOk());
    EXPECT_GE(Allocated(fd), size);
    EXPECT_EQ(Stat(fd).st_size, static_cast<off_t>(size));
  }
}

TEST(ReservePagesTest, AShorterFileGrows) {
  for (size_t size : {size_t{1}, size_t{5000}, 17 * kMiB + 1}) {
    const UniqueFd fd = MakeEmptyMemfd();
    EXPECT_THAT(ReservePages(fd.get(), 0, size, "x"), IsOk());
    EXPECT_GE(Allocated(fd), size);
    EXPECT_EQ(Stat(fd).st_size, static_cast<off_t>(size));
    const UniqueFd written = MakeEmptyMemfd();
    const std::vector<std::byte> contents(size, std::byte{7});
    EXPECT_THAT(WritePages(written.get(), contents, "x"), IsOk());
    EXPECT_GE(Allocated(written), size);
    EXPECT_EQ(Stat(written).st_size, static_cast<off_t>(size));
  }
}

TEST(ReservePagesTest, AllocatesNoMoreThanTheRange) {
  const UniqueFd fd = MakeEmptyMemfd();
  ASSERT_THAT(SetFileSize(fd.get(), 3 * kMiB, "x"), IsOk());
  EXPECT_THAT(ReservePages(fd.get(), kMiB, kMiB, "x"), IsOk());
  EXPECT_EQ(Allocated(fd), kMiB);
  EXPECT_EQ(lseek(fd.get(), 0, SEEK_END), static_cast<off_t>(3 * kMiB));
}

TEST(ReservePagesTest, NothingIsNothing) {
  const UniqueFd fd = MakeEmptyMemfd();
  EXPECT_THAT(ReservePages(fd.get(), 0, 0, "x"), IsOk());
  EXPECT_EQ(Allocated(fd), 0u);
}

TEST(ReservePagesTest, WorksInsideASealedSize) {
  const UniqueFd fd(
      memfd_create("reserve_pages_test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_THAT(SetFileSize(fd.get(), 2 * kMiB, "x"), IsOk());
  ASSERT_EQ(
      fcntl(fd.get(), F_ADD_SEALS,
            F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL),
      0);
  EXPECT_THAT(ReservePages(fd.get(), kMiB, kMiB, "x"), IsOk());
  EXPECT_EQ(Allocated(fd), kMiB);
  EXPECT_THAT(ReservePages(fd.get(), kMiB, 2 * kMiB, "x"),
              StatusIs(absl::StatusCode::kPermissionDenied));
}

TEST(ReservePagesTest, MoreThanTheMachineHasIsRefusedBeforeItBegins) {
  const size_t absurd = size_t{1} << 50;
  const UniqueFd fd = MakeEmptyMemfd();
  ASSERT_THAT(SetFileSize(fd.get(), absurd, "x"), IsOk());
  EXPECT_THAT(ReservePages(fd.get(), 0, absurd, "segment 'x'"),
              StatusIs(kResourceExhausted,
                       AllOf(HasSubstr("segment 'x'"),
                             HasSubstr(" of memory are available"))));
  EXPECT_EQ(Allocated(fd), 0u);
}

TEST(ReservePagesTest, ErrorsAreTold) {
  EXPECT_THAT(ReservePages(-1, 0, 1, "x"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AnyOf(HasSubstr("fallocate(x)"),
                             HasSubstr("fstatfs(x)"))));  // If it checks.
  EXPECT_THAT(
      ReservePages(-1, 0, 1 << 30, "x"),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("fstatfs(x)")));
}

// Makes fallocate() of more than `bytes` fail with EINTR, like a kernel (such
// as Debian 12's) that cannot finish it between two signals.
void InterruptFallocateOver(unsigned bytes) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fallocate, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[3])),
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, bytes, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINTR),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {.len = std::size(program), .filter = program};
  ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
}

TEST(ReservePagesTest, StepsBecomeAsSmallAsSignalsDemand) {
  for (unsigned bytes : {4096u, 100000u, 1u << 20}) {
    EXPECT_TRUE(PassesInChild([bytes] {
      InterruptFallocateOver(bytes);
      const UniqueFd fd = MakeEmptyMemfd();
      ASSERT_THAT(SetFileSize(fd.get(), 20 * kMiB, "x"), IsOk());
      ASSERT_EQ(fallocate(fd.get(), 0, 0, bytes + 1), -1);
      ASSERT_EQ(errno, EINTR);
      EXPECT_THAT(ReservePages(fd.get(), 0, 20 * kMiB, "x"), IsOk());
      EXPECT_EQ(Allocated(fd), 20 * kMiB);
    })) << bytes;
  }
}

volatile sig_atomic_t signals_seen = 0;
void CountSignal(int) { signals_seen = signals_seen + 1; }

// The same with real signals. Newer kernels delay them.
TEST(ReservePagesTest, MakesProgressThroughAStormOfSignals) {
  EXPECT_TRUE(PassesInChild([] {
    struct sigaction action = {};
    action.sa_handler = CountSignal;
    ASSERT_EQ(sigaction(SIGALRM, &action, nullptr), 0);
    const timeval interval = {.tv_sec = 0, .tv_usec = 500};
    const itimerval timer = {.it_interval = interval, .it_value = interval};
    const UniqueFd fd = MakeEmptyMemfd();
    ASSERT_THAT(SetFileSize(fd.get(), 128 * kMiB, "x"), IsOk());
    ASSERT_EQ(setitimer(ITIMER_REAL, &timer, nullptr), 0);
    EXPECT_THAT(ReservePages(fd.get(), 0, 128 * kMiB, "x"), IsOk());
    EXPECT_EQ(Allocated(fd), 128 * kMiB);
    EXPECT_GT(signals_seen, 0) << "the storm was none";
  }));
}

TEST(WritePagesTest, WritesAllAndNoMore) {
  for (size_t size : {size_t{1}, size_t{4096}, size_t{5000}, 17 * kMiB + 1}) {
    const std::vector<std::byte> contents(size, std::byte{7});
    const UniqueFd fd = MakeEmptyMemfd();
    ASSERT_THAT(SetFileSize(fd.get(), size, "x"), IsOk());
    ASSERT_THAT(WritePages(fd.get(), contents, "x"), IsOk());
    EXPECT_EQ(Stat(fd).st_size, static_cast<off_t>(size));
    EXPECT_GE(Allocated(fd), size);
    std::vector<std::byte> found(size + 1);
    EXPECT_EQ(pread(fd.get(), found.data(), size + 1, 0),
              static_cast<ssize_t>(size));
    found.resize(size);
    EXPECT_EQ(found, contents);
  }
}

TEST(WritePagesTest, NothingIsNoError) {
  EXPECT_THAT(WritePages(MakeEmptyMemfd().get(), {}, "x"), IsOk());
}

// Memory of another process may vanish: a mapping behind the end of its file.
TEST(WritePagesTest, ContentsThatCannotBeReadAreAnErrorAndNoCrash) {
  const UniqueFd source = MakeEmptyMemfd();
  ASSERT_EQ(ftruncate(source.get(), 4096), 0);
  void* data = mmap(nullptr, 8192, PROT_READ, MAP_SHARED, source.get(), 0);
  ASSERT_NE(data, MAP_FAILED);
  const UniqueFd fd = MakeEmptyMemfd();
  EXPECT_THAT(
      WritePages(fd.get(), {static_cast<const std::byte*>(data), 8192}, "'x'"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("pwrite('x')"), HasSubstr("[EFAULT]"))));
  munmap(data, 8192);
}

TEST(WritePagesTest, MoreThanTheMachineHasIsNotBegun) {
  const size_t size_bytes = size_t{1} << 45;
  void* data = mmap(nullptr, size_bytes, PROT_READ,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) GTEST_SKIP() << "no such address space here";
  const UniqueFd fd = MakeEmptyMemfd();
  EXPECT_THAT(
      WritePages(fd.get(), {static_cast<const std::byte*>(data), size_bytes},
                 "x"),
      StatusIs(kResourceExhausted, HasSubstr("cannot reserve")));
  EXPECT_EQ(Allocated(fd), 0u);
  munmap(data, size_bytes);
}

TEST(AllocatePagesTest, DoesNotLookAtWhatIsLeft) {
  const UniqueFd fd = MakeEmptyMemfd();
  EXPECT_THAT(AllocatePages(fd.get(), 0, 17 * kMiB, "x"), IsOk());
  EXPECT_EQ(Allocated(fd), 17 * kMiB);
  EXPECT_THAT(AllocatePages(-1, 0, 4096, "x"),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

}  // namespace
}  // namespace tenon

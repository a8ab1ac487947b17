// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/report/crash_record.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/monotonic_ns.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/report/crash_layout.h"
#include "tenon/spawn/testing/mutate_testing.h"

namespace tenon::spawn {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

UniqueFd CopyOf(const UniqueFd& fd) {
  return UniqueFd(fcntl(fd.get(), F_DUPFD_CLOEXEC, 3));
}

std::string BytesOf(const UniqueFd& fd) {
  std::ifstream file(absl::StrCat("/proc/self/fd/", fd.get()),
                     std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

[[gnu::noinline]] void RaiseHere(int signal) { raise(signal); }

// The status of a child that records into `record` and raises `signal`, if any.
int EndOfChild(const UniqueFd& record, int signal) {
  const pid_t pid = fork();
  if (pid == 0) {
    const rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    alarm(60);
    if (!RecordCrashes(CopyOf(record)).ok()) _exit(9);
    if (signal != 0) RaiseHere(signal);
    _exit(7);
  }
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return status;
}

class RecordCrashesTest : public testing::TestWithParam<int> {};

TEST_P(RecordCrashesTest, TheSignalTheTimeAndThePlaceAreRecorded) {
  TENON_ASSERT_OK_AND_ASSIGN(const UniqueFd record, CreateCrashRecord());
  const int64_t before = MonotonicNs();
  const int status = EndOfChild(record, GetParam());
  ASSERT_TRUE(WIFSIGNALED(status)) << "exit code " << WEXITSTATUS(status);
  EXPECT_EQ(WTERMSIG(status), GetParam());
  TENON_ASSERT_OK_AND_ASSIGN(const auto crash, ReadCrashRecord(record.get()));
  ASSERT_TRUE(crash.has_value());
  EXPECT_EQ(crash->signal, GetParam());
  EXPECT_GE(crash->time_ns, before);
  EXPECT_LE(crash->time_ns, MonotonicNs());
  EXPECT_THAT(crash->stack, StartsWith("#0 0x"));
  // The child's maps are this program's.
  EXPECT_THAT(crash->stack, HasSubstr("_test+0x"));
}

INSTANTIATE_TEST_SUITE_P(Signals, RecordCrashesTest,
                         testing::Values(SIGSEGV, SIGBUS, SIGFPE, SIGILL,
                                         SIGABRT, SIGTRAP, SIGSYS));

TEST(CrashRecordFileTest, WithoutACrashItIsEmpty) {
  TENON_ASSERT_OK_AND_ASSIGN(const UniqueFd record, CreateCrashRecord());
  EXPECT_NE(fcntl(record.get(), F_GETFD) & FD_CLOEXEC, 0);
  const int exited = EndOfChild(record, 0);
  ASSERT_TRUE(WIFEXITED(exited));
  EXPECT_EQ(WEXITSTATUS(exited), 7);
  TENON_ASSERT_OK_AND_ASSIGN(const auto none, ReadCrashRecord(record.get()));
  EXPECT_FALSE(none.has_value());
  // SIGKILL cannot be recorded.
  EXPECT_EQ(WTERMSIG(EndOfChild(record, SIGKILL)), SIGKILL);
  TENON_ASSERT_OK_AND_ASSIGN(const auto killed, ReadCrashRecord(record.get()));
  EXPECT_FALSE(killed.has_value());
}

TEST(CrashRecordFileTest, OtherDescriptorsAreErrors) {
  EXPECT_FALSE(ReadCrashRecord(-1).ok());
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reading(ends[0]);
  const UniqueFd writing(ends[1]);
  EXPECT_FALSE(ReadCrashRecord(reading.get()).ok()) << "read() would block";
}

// A child may enlarge its record as it likes: the parent reads a bounded part.
TEST(CrashRecordFileTest, AHugeRecordIsReadInPart) {
  TENON_ASSERT_OK_AND_ASSIGN(const UniqueFd record, CreateCrashRecord());
  const CrashHeader header = {.signal = SIGABRT};
  ASSERT_EQ(write(record.get(), &header, sizeof(header)),
            static_cast<ssize_t>(sizeof(header)));
  ASSERT_EQ(ftruncate(record.get(), off_t{1} << 40), 0);
  TENON_ASSERT_OK_AND_ASSIGN(const auto crash, ReadCrashRecord(record.get()));
  ASSERT_TRUE(crash.has_value());
  EXPECT_EQ(crash->signal, SIGABRT);
  EXPECT_EQ(crash->stack, "");
}

TEST(CrashRecordTest, AnythingIsRefusedOrRead) {
  EXPECT_THAT(ParseCrashRecord("short"), StatusIs(absl::StatusCode::kDataLoss));
  CrashHeader header;
  header.frames = 2;
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
  EXPECT_THAT(ParseCrashRecord(bytes), StatusIs(absl::StatusCode::kDataLoss));
  bytes.append(16, '\x11');
  bytes.append("1111111111110000-1111111111112000 r-xp 00001000 0 0   /x y\n");
  TENON_ASSERT_OK_AND_ASSIGN(const CrashRecord record, ParseCrashRecord(bytes));
  EXPECT_THAT(record.stack, HasSubstr("#1 0x1111111111111111 in "
                                      "(/x y+0x2111)\n"));
  for (const char* maps : {"", "\n", "-", "1-2", "g-h r 0 /", "1- /"}) {
    EXPECT_EQ(DescribeAddress(1, maps), "?") << maps;
  }
}

TEST(CrashRecordFileTest, BadHeadersAreRefused) {
  const std::string addresses(kMaxCrashFrames * 8 + 8, '\0');
  const auto parse = [&](const CrashHeader& header) {
    return ParseCrashRecord(
        std::string(reinterpret_cast<const char*>(&header), sizeof(header)) +
        addresses);
  };
  EXPECT_THAT(parse({.frames = kMaxCrashFrames}), IsOk());
  EXPECT_THAT(parse({.frames = kMaxCrashFrames + 1}),
              StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(parse({.frames = ~0u}), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(parse({.magic = 0}), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(CrashRecordFuzzTest, ARecordOfACrashMutatedIsRefusedOrRead) {
  TENON_ASSERT_OK_AND_ASSIGN(const UniqueFd record, CreateCrashRecord());
  ASSERT_TRUE(WIFSIGNALED(EndOfChild(record, SIGABRT)));
  // The frames and the first maps.
  const std::string whole = BytesOf(record).substr(0, 1500);
  ASSERT_THAT(ParseCrashRecord(whole), IsOk());
  Mutator mutator(20261122);
  int refused = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::string bytes = mutator.Mutate(whole);
    const absl::StatusOr<CrashRecord> crash = ParseCrashRecord(bytes);
    if (!crash.ok()) {
      ASSERT_THAT(crash, StatusIs(absl::StatusCode::kDataLoss));
      ++refused;
    }
  }
  EXPECT_GT(refused, 10);
  EXPECT_LT(refused, 990);
}

TEST(DescribeAddressTest, AFunctionOfALibraryHasItsName) {
  std::ifstream file("/proc/self/maps");
  const std::string maps(std::istreambuf_iterator<char>(file), {});
  const auto address = reinterpret_cast<uintptr_t>(&clock_gettime);
  EXPECT_THAT(DescribeAddress(address, maps), HasSubstr("(/"));
  // The last byte of a range is in it, the byte after it is not.
  const std::string one = "1000-2000 r-xp 00003000 08:01 5   /no/such/file";
  EXPECT_EQ(DescribeAddress(0x1000, one), "(/no/such/file+0x3000)");
  EXPECT_EQ(DescribeAddress(0x1fff, one), "(/no/such/file+0x3fff)");
  EXPECT_EQ(DescribeAddress(0x2000, one), "?");
  EXPECT_EQ(DescribeAddress(0xfff, one), "?");
  EXPECT_EQ(DescribeAddress(0x1000, "1000-2000 rw-p 0 0:0 0   [stack]"), "?");
}

}  // namespace
}  // namespace tenon::spawn

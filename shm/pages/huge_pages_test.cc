// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/pages/huge_pages.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/pages/reserve_pages.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/seccomp_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint32_t kMadvCollapse = 25;

// A file of tmpfs that counts up.
UniqueFd MakeFull(size_t size_bytes) {
  UniqueFd fd(memfd_create("huge_pages_test", MFD_CLOEXEC));
  EXPECT_THAT(SetFileSize(fd.get(), size_bytes, "x"), IsOk());
  std::vector<std::byte> bytes(size_bytes);
  for (size_t i = 0; i < size_bytes; ++i) bytes[i] = std::byte(i / 4096 % 251);
  EXPECT_THAT(WritePages(fd.get(), bytes, "x"), IsOk());
  return fd;
}

// The bytes of the mapping at `address` that the page table maps by huge pages.
size_t MappedHugeBytes(const void* address) {
  std::ostringstream start;
  start << std::hex << reinterpret_cast<uintptr_t>(address) << "-";
  std::ifstream smaps("/proc/self/smaps");
  bool here = false;
  for (std::string line; std::getline(smaps, line);) {
    here = here || line.rfind(start.str(), 0) == 0;
    if (here && line.rfind("ShmemPmdMapped:", 0) == 0) {
      return std::stoul(line.substr(line.find(':') + 1)) * 1024;
    }
  }
  return 0;
}

TEST(CollapsePagesTest, JoinsAllButTheRestAndKeepsTheContents) {
  const size_t size_bytes = 2 * kHugePageBytes + 3 * 4096 + 1;
  const UniqueFd fd = MakeFull(size_bytes);
  const absl::Status joined = CollapsePages(fd.get(), size_bytes, "x");
  if (absl::IsFailedPrecondition(joined) || absl::IsResourceExhausted(joined)) {
    GTEST_SKIP() << joined;
  }
  ASSERT_THAT(joined, IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(
      const ReadOnlyMapping mapping,
      ReadOnlyMapping::Map(fd.get(), size_bytes, "x",
                           {.align_to_huge_pages = true}));
  for (size_t i = 0; i < size_bytes; i += 4095) {
    ASSERT_EQ(mapping.data()[i], std::byte(i / 4096 % 251)) << i;
  }
  EXPECT_EQ(MappedHugeBytes(mapping.data()), 2 * kHugePageBytes);
}

TEST(CollapsePagesTest, NeedsOneAtLeast) {
  const UniqueFd fd = MakeFull(kHugePageBytes - 1);
  EXPECT_THAT(CollapsePages(fd.get(), kHugePageBytes - 1, "'x'"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("'x'"), HasSubstr("2 MiB"))));
}

TEST(CollapsePagesTest, KernelsThatCannotSayWhatTheyNeed) {
  EXPECT_TRUE(PassesInChild([] {
    ASSERT_TRUE(FailSystemCall({.number = SYS_madvise,
                                .argument = 2,
                                .value = kMadvCollapse,
                                .error = EINVAL}));
    const UniqueFd fd = MakeFull(kHugePageBytes);
    EXPECT_THAT(
        CollapsePages(fd.get(), kHugePageBytes, "x"),
        StatusIs(absl::StatusCode::kFailedPrecondition,
                 AllOf(HasSubstr("Linux 6.1"), HasSubstr("shmem_enabled"))));
  }));
}

TEST(CollapsePagesTest, MemoryInPiecesIsNamed) {
  EXPECT_TRUE(PassesInChild([] {
    ASSERT_TRUE(FailSystemCall({.number = SYS_madvise,
                                .argument = 2,
                                .value = kMadvCollapse,
                                .error = ENOMEM}));
    const UniqueFd fd = MakeFull(kHugePageBytes);
    EXPECT_THAT(CollapsePages(fd.get(), kHugePageBytes, "x"),
                StatusIs(absl::StatusCode::kResourceExhausted,
                         HasSubstr("compact_memory")));
  }));
}

TEST(CollapsePagesTest, BusyPagesAreTriedAFewTimesOnly) {
  EXPECT_TRUE(PassesInChild([] {
    ASSERT_TRUE(FailSystemCall({.number = SYS_madvise,
                                .argument = 2,
                                .value = kMadvCollapse,
                                .error = EAGAIN}));
    const UniqueFd fd = MakeFull(kHugePageBytes);
    EXPECT_THAT(CollapsePages(fd.get(), kHugePageBytes, "x"),
                StatusIs(absl::StatusCode::kUnavailable));
  }));
}

TEST(ReserveHugetlbPagesTest, TakesThemAllOrNamesThePool) {
  const size_t size_bytes = size_t{1} << 40;
  const UniqueFd fd(
      memfd_create("huge_pages_test", MFD_CLOEXEC | MFD_HUGETLB | (21u << 26)));
  if (!fd.valid()) GTEST_SKIP() << "no huge pages of 2 MiB here";
  ASSERT_THAT(SetFileSize(fd.get(), kHugePageBytes, "x"), IsOk());
  const absl::Status one = ReserveHugetlbPages(fd.get(), kHugePageBytes, "x");
  if (one.ok()) {
    struct stat file;
    ASSERT_EQ(fstat(fd.get(), &file), 0);
    EXPECT_EQ(static_cast<size_t>(file.st_blocks) * 512, kHugePageBytes);
  } else {
    EXPECT_THAT(one, StatusIs(absl::StatusCode::kResourceExhausted,
                              HasSubstr("vm.nr_hugepages")));
  }
  ASSERT_THAT(SetFileSize(fd.get(), size_bytes, "x"), IsOk());
  EXPECT_THAT(ReserveHugetlbPages(fd.get(), size_bytes, "x"),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr(" free; "),
                             HasSubstr("sysctl -w vm.nr_hugepages"))));
}

}  // namespace
}  // namespace tenon

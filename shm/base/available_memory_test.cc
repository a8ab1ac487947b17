// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/available_memory.h"

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/testing/process_testing.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMiB = 1 << 20;
constexpr char kMeminfo[] =
    "MemTotal:       8000000 kB\n"
    "MemFree:           1000 kB\n"
    "MemAvailable:      4096 kB\n"
    "SwapTotal:         9999 kB\n"
    "SwapFree:          1024 kB\n";
constexpr uint64_t kSwap = kMiB;

// A simulated machine: its files under /proc and /sys.
class AvailableMemoryTest : public testing::Test {
 protected:
  AvailableMemoryTest()
      : root_(absl::StrCat(testing::TempDir(), "/", UniqueTestPrefix())) {}
  ~AvailableMemoryTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file(root_ + path);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  void WriteCgroup2(const std::string& directory, const std::string& limit,
                    uint64_t used, const std::string& stat = "") {
    Write(directory + "/memory.max", limit + "\n");
    Write(directory + "/memory.current", absl::StrCat(used, "\n"));
    if (!stat.empty()) Write(directory + "/memory.stat", stat);
  }

  uint64_t Bytes() const { return GetAvailableMemory(root_).bytes; }
  std::string BoundBy() const { return GetAvailableMemory(root_).bound_by; }

  std::string root_;
};

TEST_F(AvailableMemoryTest, NothingKnownIsNoBound) {
  EXPECT_EQ(Bytes(), std::numeric_limits<uint64_t>::max());
}

TEST_F(AvailableMemoryTest, MachineHasWhatIsAvailableAndSwap) {
  Write("/proc/meminfo", kMeminfo);
  EXPECT_EQ(Bytes(), 4 * kMiB + kSwap);
  EXPECT_EQ(BoundBy(),
            "MemAvailable and SwapFree of the machine, which has 8192000000 "
            "bytes (7.6 GiB) and 10238976 bytes (9.7 MiB) of swap; add some: "
            "swapon <file>");
}

TEST_F(AvailableMemoryTest, TheLimitIsAllThatThereIs) {
  EXPECT_EQ(GetMemoryLimit(root_).bytes, std::numeric_limits<uint64_t>::max());
  Write("/proc/meminfo", kMeminfo);
  EXPECT_EQ(GetMemoryLimit(root_).bytes, uint64_t{8009999} * 1024);
  EXPECT_THAT(GetMemoryLimit(root_).bound_by,
              HasSubstr("MemTotal and SwapTotal of the machine"));
  Write("/proc/self/cgroup", "0::/job\n");
  WriteCgroup2("/sys/fs/cgroup/job", "33554432", 30 * kMiB);
  EXPECT_EQ(GetMemoryLimit(root_).bytes, 32 * kMiB + uint64_t{9999} * 1024);
  EXPECT_THAT(GetMemoryLimit(root_).bound_by,
              HasSubstr("memory.max of the cgroup /sys/fs/cgroup/job"));
}

TEST_F(AvailableMemoryTest, MachineWithoutSwap) {
  Write("/proc/meminfo", "MemAvailable:      4096 kB\n");
  EXPECT_EQ(Bytes(), 4 * kMiB);
}

TEST_F(AvailableMemoryTest, MachineInDisorderIsNoBound) {
  for (const char* text : {"", "MemAvailable:", "MemAvailable: many kB\n",
                           "MemAvailable: -1 kB\n"}) {
    Write("/proc/meminfo", text);
    EXPECT_EQ(Bytes(), std::numeric_limits<uint64_t>::max()) << text;
  }
}

TEST_F(AvailableMemoryTest, Cgroup2HasItsLimitLessWhatIsUsedAndNotCache) {
  Write("/proc/meminfo", kMeminfo);
  Write("/proc/self/cgroup", "0::/a\n");
  WriteCgroup2("/sys/fs/cgroup/a", absl::StrCat(3 * kMiB), 2 * kMiB);
  EXPECT_EQ(Bytes(), kMiB + kSwap);
  EXPECT_EQ(BoundBy(),
            "memory.max of the cgroup /sys/fs/cgroup/a: 3145728 bytes (3.0 "
            "MiB); raise "
            "it: echo <more> > /sys/fs/cgroup/a/memory.max");
  WriteCgroup2("/sys/fs/cgroup/a", absl::StrCat(3 * kMiB), 2 * kMiB,
               "anon 7\nfile 9\ninactive_file 1000\nactive_file 24\n");
  EXPECT_EQ(Bytes(), kMiB + 1024 + kSwap);
}

TEST_F(AvailableMemoryTest, CacheCannotMakeMoreThanTheLimit) {
  Write("/proc/meminfo", kMeminfo);
  Write("/proc/self/cgroup", "0::/a\n");
  WriteCgroup2("/sys/fs/cgroup/a", absl::StrCat(kMiB), 0,
               "inactive_file 999999999\nactive_file 18446744073709551615\n");
  EXPECT_EQ(Bytes(), kMiB + kSwap);
}

TEST_F(AvailableMemoryTest, CgroupOverItsLimitHasOnlySwap) {
  Write("/proc/meminfo", kMeminfo);
  Write("/proc/self/cgroup", "0::/a\n");
  WriteCgroup2("/sys/fs/cgroup/a", absl::StrCat(kMiB), 2 * kMiB);
  EXPECT_EQ(Bytes(), kSwap);
}

TEST_F(AvailableMemoryTest, TheNarrowestOfTheCgroupsAroundCounts) {
  Write("/proc/meminfo", kMeminfo);
  Write("/proc/self/cgroup", "0::/a/b/c\n");
  WriteCgroup2("/sys/fs/cgroup/a/b/c", "max", 0);
  WriteCgroup2("/sys/fs/cgroup/a", absl::StrCat(kMiB), 0);
  EXPECT_EQ(Bytes(), kMiB + kSwap);
  WriteCgroup2("/sys/fs/cgroup", "4096", 0);
  EXPECT_EQ(Bytes(), 4096 + kSwap);
  EXPECT_THAT(
      BoundBy(),
      HasSubstr(
          "memory.max of the cgroup /sys/fs/cgroup: 4096 bytes (4.0 KiB)"));
}

TEST_F(AvailableMemoryTest, CgroupWithoutLimitLeavesTheMachine) {
  Write("/proc/meminfo", kMeminfo);
  Write("/proc/self/cgroup", "0::/\n");
  WriteCgroup2("/sys/fs/cgroup", "max", 12345);
  EXPECT_EQ(Bytes(), 4 * kMiB + kSwap);
}

TEST_F(AvailableMemoryTest, Cgroup1IsFoundAmongItsControllers) {
  Write("/proc/meminfo", kMeminfo);
  Write("/proc/self/cgroup",
        "9:cpu,memory:/a\n3:cpuset:/b\n0::/\ngarbage\n1:memory:relative\n");
  const std::string directory = "/sys/fs/cgroup/memory/a";
  Write(directory + "/memory.limit_in_bytes", absl::StrCat(2 * kMiB, "\n"));
  Write(directory + "/memory.usage_in_bytes", absl::StrCat(kMiB, "\n"));
  Write(directory + "/memory.stat",
        "inactive_file 5\ntotal_inactive_file 10\ntotal_active_file 20\n");
  EXPECT_EQ(Bytes(), kMiB + 30 + kSwap);
  EXPECT_EQ(BoundBy(),
            "memory.limit_in_bytes of the cgroup /sys/fs/cgroup/memory/a: "
            "2097152 bytes (2.0 MiB); raise it: echo <more> > "
            "/sys/fs/cgroup/memory/a/memory.limit_in_bytes");
}

TEST_F(AvailableMemoryTest, CgroupOfTheHostIsSeenAsTheMountInAContainer) {
  Write("/proc/meminfo", kMeminfo);
  Write("/proc/self/cgroup", "4:memory:/docker/0123\n");
  const std::string mount = "/sys/fs/cgroup/memory";
  Write(mount + "/memory.limit_in_bytes", absl::StrCat(kMiB, "\n"));
  Write(mount + "/memory.usage_in_bytes", "0\n");
  EXPECT_EQ(Bytes(), kMiB + kSwap);
}

TEST(AvailableMemoryOfThisMachineTest, IsSomethingSensible) {
  const AvailableMemory available = GetAvailableMemory();
  EXPECT_GT(available.bytes, kMiB);
  EXPECT_FALSE(available.bound_by.empty());
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const auto machine = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * page;
  const uint64_t tebibyte = uint64_t{1} << 40;
  EXPECT_LT(available.bytes, machine + 64 * tebibyte)
      << "swap, too, has an end";
}

}  // namespace
}  // namespace tenon

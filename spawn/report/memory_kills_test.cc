// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/report/memory_kills.h"

#include <cstdint>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "gtest/gtest.h"

namespace tenon::spawn {
namespace {

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

TEST(MemoryKillsTest, FileOfTheGroup) {
  EXPECT_EQ(MemoryEventsFile("0::/a/b\n"), "/sys/fs/cgroup/a/b/memory.events");
  EXPECT_EQ(MemoryEventsFile("8:pids:/\n4:cpu,memory:/x\n0::/\n"),
            "/sys/fs/cgroup/memory/x/memory.oom_control");
  EXPECT_EQ(MemoryEventsFile("0::/\n"), "/sys/fs/cgroup/memory.events");
  EXPECT_EQ(MemoryEventsFile("garbage"), "");
}

TEST(MemoryKillsTest, ControllersAreWholeNamesAndPathsHaveAnyCharacter) {
  EXPECT_EQ(MemoryEventsFile("5:name=memory,hugememory:/x\n"), "");
  EXPECT_EQ(MemoryEventsFile("0::/a:b c\n"),
            "/sys/fs/cgroup/a:b c/memory.events");
  EXPECT_EQ(MemoryEventsFile("7:memory:/\n"),
            "/sys/fs/cgroup/memory/memory.oom_control");
  EXPECT_EQ(MemoryEventsFile(""), "");
}

TEST(MemoryKillsTest, TheCountIsFoundAmongOtherLines) {
  EXPECT_EQ(ParseMemoryKills("low 0\noom 3\noom_kill 2\noom_group_kill 0\n"),
            2);
  EXPECT_EQ(ParseMemoryKills("oom 3\n"), std::nullopt);
}

TEST(MemoryKillsTest, MalformedCountsAreRejected) {
  EXPECT_EQ(ParseMemoryKills(""), std::nullopt);
  EXPECT_EQ(ParseMemoryKills("oom_kill \n"), std::nullopt);
  EXPECT_EQ(ParseMemoryKills("oom_kill many\n"), std::nullopt);
  EXPECT_EQ(ParseMemoryKills("oom_kill_disable 1\n"), std::nullopt);
  EXPECT_EQ(ParseMemoryKills("oom_kill 4"), 4);  // Cut off after it.
}

TEST(MemoryKillsTest, TheMemoryOfAGroupInWords) {
  EXPECT_EQ(DescribeMemory("4294967296\n", "4187593113\n"),
            "peak 3.9 of 4.0 GiB");
  EXPECT_EQ(DescribeMemory("4294967296\n", ""), "limit 4.0 GiB");
  EXPECT_EQ(DescribeMemory("max\n", "4187593113\n"), "");
  EXPECT_EQ(DescribeMemory("9223372036854771712\n", "4187593113\n"), "");
  EXPECT_EQ(DescribeMemory("", ""), "");
}

TEST(MemoryKillsTest, TheMemoryOfThisGroupIsALimitOrNothing) {
  const std::string text = DescribeGroupMemory();
  EXPECT_TRUE(text.empty() || text.ends_with(" GiB")) << text;
}

TEST(MemoryKillsTest, OfThisProcessItIsTheNumberInItsFile) {
  const std::string file = MemoryEventsFile(TextOf("/proc/self/cgroup"));
  // Kills of other processes of the group may come between.
  const std::optional<int64_t> before = ParseMemoryKills(TextOf(file));
  const std::optional<int64_t> count = CountMemoryKills();
  const std::optional<int64_t> after = ParseMemoryKills(TextOf(file));
  EXPECT_EQ(count.has_value(), before.has_value());
  EXPECT_GE(count, before);
  EXPECT_LE(count, after);
}

}  // namespace
}  // namespace tenon::spawn

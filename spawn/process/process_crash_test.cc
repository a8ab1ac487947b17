// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The location of a child's crash, and whether the kernel killed it for memory.

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/report/crash_record.h"
#include "tenon/spawn/report/memory_kills.h"
#include "tenon/spawn/report/process_error.h"
#include "tenon/spawn/testing/child_testing.h"

namespace tenon::spawn {
namespace {

using ::testing::HasSubstr;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

class ProcessCrashTest : public ChildTest {};

// Functions with known addresses: each does one thing, so that the compiler
// does not move a part of it elsewhere as unlikely.
[[noreturn, gnu::noinline]] void AbortHere() { abort(); }

// An unmapped address; the compiler must not see that.
volatile uintptr_t nowhere = 16;

[[gnu::noinline]] void WriteNowhere() {
  *reinterpret_cast<volatile int*>(uintptr_t{nowhere}) = 0;
}

void CrashBy(const std::string& way) {
  if (way == "abort") AbortHere();
  if (way == "segv") WriteNowhere();
  if (way == "trap") raise(SIGTRAP);
  if (way == "kill") raise(SIGKILL);
}

[[gnu::noinline]] int Recurse(int depth) {
  volatile char room[1024];
  room[0] = static_cast<char>(depth);
  return depth == 0 ? 0 : Recurse(depth + 1) + room[0];
}

// Several threads crash at once, by the same mistake.
void CrashTogether() {
  constexpr int kThreads = 8;
  std::atomic<int> waiting = kThreads;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      --waiting;
      while (waiting.load() > 0) {
      }
      WriteNowhere();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

absl::Status Crash(Child& child) {
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  if (child.argument() == "overflow") {
    return absl::InternalError(absl::StrCat(Recurse(1)));
  }
  if (child.argument() == "together") CrashTogether();
  CrashBy(child.argument());
  return absl::UnimplementedError(child.argument());
}
TENON_SPAWN_ENTRY("crash", Crash);

std::optional<ProcessExited> CrashOf(const std::string& way, bool stack) {
  absl::StatusOr<Process> child =
      Process::Start({.entry = "crash", .argument = way, .crash_stack = stack});
  if (!child.ok()) return std::nullopt;
  const absl::Status how = child->Join(Watchdog());
  const auto exited = GetProcessExited(how);
  if (exited) {
    EXPECT_THAT(std::string(how.message()), HasSubstr(exited->stack));
  }
  return exited;
}

// The offset in the test's own file, from a frame's text; 0 for another file.
uint64_t OffsetIn(absl::string_view described) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(described, absl::MaxSplits("_test+0x", 1));
  return strtoull(std::string(parts.second).c_str(), nullptr, 16);
}

bool HasFrameIn(const std::string& stack, void (*function)()) {
  std::ifstream file("/proc/self/maps");
  const std::string maps(std::istreambuf_iterator<char>(file), {});
  const uint64_t wanted =
      OffsetIn(DescribeAddress(reinterpret_cast<uintptr_t>(function), maps));
  EXPECT_NE(wanted, 0u);
  for (const absl::string_view line : absl::StrSplit(stack, '\n')) {
    const uint64_t offset = OffsetIn(line);
    if (offset >= wanted && offset < wanted + 1000) return true;
  }
  return false;
}

TEST_F(ProcessCrashTest, StackOfASegmentationFault) {
  if (kSanitized) GTEST_SKIP() << "the sanitizer handles SIGSEGV";
  const auto exited = CrashOf("segv", true);
  ASSERT_TRUE(exited.has_value());
  EXPECT_EQ(exited->signal_name, "SIGSEGV");
  EXPECT_TRUE(HasFrameIn(exited->stack, WriteNowhere)) << exited->stack;
}

TEST_F(ProcessCrashTest, StackOfOneOfSeveralThreadsThatCrashAtOnce) {
  if (kSanitized) GTEST_SKIP() << "the sanitizer handles SIGSEGV";
  for (int round = 0; round < 50; ++round) {
    const auto exited = CrashOf("together", true);
    ASSERT_TRUE(exited.has_value());
    EXPECT_EQ(exited->signal_name, "SIGSEGV");
    ASSERT_TRUE(HasFrameIn(exited->stack, WriteNowhere))
        << "round " << round << ": " << exited->stack;
  }
}

TEST_F(ProcessCrashTest, StackOfAnAbortHasNamesWhereTheyAreKnown) {
  const auto exited = CrashOf("abort", true);
  ASSERT_TRUE(exited.has_value());
  EXPECT_EQ(exited->signal_name, "SIGABRT");
  EXPECT_TRUE(HasFrameIn(exited->stack, AbortHere)) << exited->stack;
  if (!kSanitized) {
    EXPECT_THAT(exited->stack, HasSubstr("abort+0x"));
    EXPECT_THAT(exited->stack, HasSubstr("libc.so.6+0x"));
  }
}

TEST_F(ProcessCrashTest, StackThatHasOverflown) {
  if (kSanitized) GTEST_SKIP() << "the sanitizer handles SIGSEGV";
  const auto exited = CrashOf("overflow", true);
  ASSERT_TRUE(exited.has_value());
  EXPECT_EQ(exited->signal_name, "SIGSEGV");
  EXPECT_THAT(exited->stack, HasSubstr("#127 ")) << "and no more";
}

TEST_F(ProcessCrashTest, SignalThatWasSent) {
  const auto exited = CrashOf("trap", true);
  ASSERT_TRUE(exited.has_value());
  EXPECT_EQ(exited->signal_name, "SIGTRAP");
  EXPECT_NE(exited->stack, "");
}

TEST_F(ProcessCrashTest, NoStackWithoutACrashOrUnasked) {
  EXPECT_EQ(CrashOf("kill", true)->stack, "");
  EXPECT_EQ(CrashOf("abort", false)->stack, "");
}

absl::Status EatMemory(Child&) {
  constexpr size_t kBytes = size_t{256} << 20;
  void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(memory, 1, kBytes);
  return absl::OkStatus();
}
TENON_SPAWN_ENTRY("eat-memory", EatMemory);

bool Write(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.flush();
  return file.good();
}

// Joins the control group in the argument, and starts a process there that
// allocates memory.
absl::Status StartEater(Child& child) {
  if (!Write(child.argument() + "/cgroup.procs", absl::StrCat(getpid()))) {
    return absl::UnimplementedError("cannot enter the group");
  }
  absl::StatusOr<Process> eater = Process::Start({.entry = "eat-memory"});
  TENON_RETURN_IF_ERROR(eater.status());
  const absl::Status how = eater->Join(Watchdog());
  const auto exited = GetProcessExited(how);
  return Say(child, exited && exited->killed_for_memory
                        ? how.message()
                        : absl::StrCat("no: ", how.ToString()));
}
TENON_SPAWN_ENTRY("start-eater", StartEater);

TEST_F(ProcessCrashTest, KilledForMemoryIsTold) {
  std::ifstream file("/proc/self/cgroup");
  const std::string own(std::istreambuf_iterator<char>(file), {});
  const std::string events = MemoryEventsFile(own);
  const std::string group = absl::StrCat(events.substr(0, events.rfind('/')),
                                         "/tenon_crash_test_", getpid());
  if (events.empty() || mkdir(group.c_str(), 0755) != 0) {
    GTEST_SKIP() << "no memory cgroup may be made here";
  }
  const std::string limit = absl::StrCat(64 << 20);
  if (!Write(group + "/memory.limit_in_bytes", limit) &&
      !Write(group + "/memory.max", limit)) {
    rmdir(group.c_str());
    GTEST_SKIP() << "a cgroup made here has no limit of memory";
  }
  Write(group + "/memory.swap.max", "0");
  const auto told = AnswerOf({.entry = "start-eater", .argument = group});
  EXPECT_EQ(rmdir(group.c_str()), 0);
  if (absl::IsUnimplemented(told.status())) GTEST_SKIP() << told.status();
  EXPECT_THAT(told,
              IsOkAndHolds(HasSubstr("by the kernel for lack of memory")));
}

}  // namespace
}  // namespace tenon::spawn

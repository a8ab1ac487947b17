// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// `tenon ps` and `tenon mem` beside a process that owns an arena, and a process
// that holds a part of it.

#include "tenon/tools/tenon_tool.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/queue/queue.h"
#include "tenon/ipc/sync/mutex.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/attached_arena.h"
#include "tenon/shm/arena/block_descriptor.h"
#include "tenon/shm/arena/every_memory.h"
#include "tenon/shm/arena/memory_kind_id.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/base/version.h"
#include "tenon/shm/process/keeper.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/kill/peer.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm/value/value.h"
#include "tenon/spawn/child/role.h"
#include "tenon/tools/cli/json.h"

namespace tenon::tools {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr size_t kBlockBytes = 65536;
constexpr size_t kQuota = size_t{4} << 20;

struct Output {
  int exit_code;
  std::string out;
  std::string errors;
};

Output Tenon(const std::vector<std::string>& words) {
  std::ostringstream out, errors;
  const int exit_code = RunTenonTool(words, out, errors);
  return {exit_code, out.str(), errors.str()};
}

Json TenonJson(std::vector<std::string> words) {
  words.push_back("--json");
  const Output output = Tenon(words);
  EXPECT_EQ(output.exit_code, 0) << output.errors;
  EXPECT_EQ(output.errors, "");
  return Json::parse(output.out);
}

// The element with that "pid"; null if there is none.
Json WithPid(const Json& list, pid_t pid) {
  for (const Json& element : list) {
    if (element["pid"] == pid) return element;
  }
  return nullptr;
}

bool IsPlain(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return c == '\n' || absl::ascii_isprint(static_cast<unsigned char>(c));
  });
}

// Owns arena "frames": three blocks, two of which are sent to the holder. It
// also holds one of those two, and the third itself.
void BeOwner(Peer& self, const std::string& name) {
  prctl(PR_SET_NAME, name.c_str());
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto arena,
      Arena::Create({.name = "frames", .quota_bytes = kQuota}));
  std::vector<Block> blocks;
  std::vector<BlockDescriptor> messages;
  for (int i = 0; i < 3; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(blocks.emplace_back(),
                               arena->TryAllocate(kBlockBytes));
    TENON_ASSERT_OK_AND_ASSIGN(messages.emplace_back(), blocks[i].Describe());
  }
  TENON_ASSERT_OK_AND_ASSIGN(const ArenaOffer offer, arena->Offer(blocks[0]));
  for (const int fd : offer.fds) ASSERT_THAT(self.GiveFd("holder", fd), IsOk());
  const UniqueFd bytes(memfd_create("offer", MFD_CLOEXEC));
  std::string text(reinterpret_cast<const char*>(messages.data()),
                   2 * sizeof(BlockDescriptor));
  text += std::string(offer.bytes);
  ASSERT_EQ(write(bytes.get(), text.data(), text.size()),
            static_cast<ssize_t>(text.size()));
  ASSERT_THAT(self.GiveFd("holder", bytes.get()), IsOk());
  ASSERT_THAT(self.Await("holder", "holds"), IsOk());
  blocks.erase(blocks.begin());
  self.Step("ready");
  self.Await("test", "never").IgnoreError();
}

void BeHolder(Peer& self) {
  prctl(PR_SET_NAME, "holder");
  std::vector<UniqueFd> fds;
  for (int i = 0; i < 4; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(fds.emplace_back(), self.TakeFd("owner"));
  }
  char text[512];
  const ssize_t size = pread(fds[3].get(), text, sizeof(text), 0);
  fds.resize(3);
  BlockDescriptor messages[2];
  ASSERT_GT(size, static_cast<ssize_t>(sizeof(messages)));
  memcpy(messages, text, sizeof(messages));
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto attached,
      AttachedArena::Attach({text + sizeof(messages),
                             static_cast<size_t>(size) - sizeof(messages)},
                            std::move(fds)));
  TENON_ASSERT_OK_AND_ASSIGN(const Hold one, attached->Claim(messages[0]));
  TENON_ASSERT_OK_AND_ASSIGN(const Hold two, attached->Claim(messages[1]));
  self.Step("holds");
  self.Await("test", "never").IgnoreError();
}

class TenonToolTest : public testing::Test {
 protected:
  void Start(const std::string& owner_name = "owner") {
    TENON_ASSERT_OK_AND_ASSIGN(
        auto peers, MakePeers({"test", "owner", "holder"}, PeerMode::kProcesses,
                              Deadline::After(absl::Seconds(60))));
    const auto fork = [&](size_t index, auto body) {
      return ForkedChild::Fork(
          {.name = peers[index].name(), .watchdog = absl::Minutes(1)},
          [&, index, body](const Reporter&) {
            Peer self = std::move(peers[index]);
            peers.clear();
            body(self);
          });
    };
    TENON_ASSERT_OK_AND_ASSIGN(
        owner_, fork(1, [&](Peer& self) { BeOwner(self, owner_name); }));
    TENON_ASSERT_OK_AND_ASSIGN(holder_, fork(2, BeHolder));
    self_.emplace(std::move(peers[0]));
    peers.clear();
    ASSERT_THAT(self_->Await("owner", "ready"), IsOk());
  }

  pid_t owner() const { return owner_->pid(); }
  pid_t holder() const { return holder_->pid(); }
  // The owner's arena in the output of `mem`; null if missing.
  Json Arena() const {
    const Json arenas =
        TenonJson({"mem", "--pid", absl::StrCat(owner())})["arenas"];
    EXPECT_LE(arenas.size(), 1u);
    return arenas.empty() ? Json(nullptr) : arenas[0];
  }

  std::optional<Peer> self_;
  std::optional<ForkedChild> owner_;
  std::optional<ForkedChild> holder_;
};

TEST_F(TenonToolTest, MemSaysWhoHoldsWhat) {
  Start();
  const Json arena = Arena();
  EXPECT_EQ(arena["name"], "frames");
  EXPECT_EQ(arena["owner"]["pid"], owner());
  EXPECT_EQ(arena["owner"]["name"], "owner");
  EXPECT_EQ(arena["owner"]["state"], "running");
  EXPECT_EQ(arena["memory"], "CPU");
  EXPECT_EQ(arena["device"], nullptr);
  EXPECT_EQ(arena["strategy"], "file_descriptor");
  EXPECT_EQ(arena["shared_writable"], false);
  EXPECT_EQ(arena["quota_bytes"], kQuota);
  EXPECT_EQ(arena["segments"], 1);
  EXPECT_EQ(arena["in_use"], Json({{"blocks", 2}, {"bytes", 2 * kBlockBytes}}));
  EXPECT_EQ(arena["lent"], Json({{"blocks", 1}, {"bytes", kBlockBytes}}));
  EXPECT_EQ(arena["resting"], Json({{"blocks", 0}, {"bytes", 0}}));
  EXPECT_EQ(arena["in_use"]["bytes"].get<size_t>() +
                arena["lent"]["bytes"].get<size_t>() +
                arena["free"]["bytes"].get<size_t>(),
            arena["segment_bytes"].get<size_t>());
  ASSERT_EQ(arena["holders"].size(), 2u);
  for (const auto& [pid, is_owner] :
       {std::pair(owner(), true), std::pair(holder(), false)}) {
    const Json use = WithPid(arena["holders"], pid);
    EXPECT_EQ(use["is_owner"], is_owner);
    EXPECT_EQ(use["blocks"], 2);
    EXPECT_EQ(use["bytes"], 2 * kBlockBytes);
    EXPECT_EQ(use["state"], "running");
    EXPECT_GE(use["oldest_ms"], 0);
  }
  // The holder's is the same arena.
  EXPECT_EQ(
      TenonJson({"mem", "--pid", absl::StrCat(holder())})["arenas"][0]["id"],
      arena["id"]);
}

TEST_F(TenonToolTest, MemReadsWell) {
  Start();
  const Output output = Tenon({"mem", "--pid", absl::StrCat(owner())});
  EXPECT_EQ(output.exit_code, 0);
  const Json arena = Arena();
  const size_t segment = arena["segment_bytes"].get<size_t>() / 1024;
  const size_t free = arena["free"]["blocks"];
  EXPECT_THAT(
      output.out,
      StartsWith(absl::StrCat(
          "arena 'frames', owner ", owner(), " owner (running)\n",
          "  file_descriptor, owner-written, 1 segment of ", segment,
          ".0 KiB, quota 4.0 MiB\n",
          "  blocks: in use 2 (128.0 KiB), lent 1 (64.0 KiB), resting 0 (0 B), "
          "free ",
          free, " (", free * 64, free == 0 ? " B)\n" : ".0 KiB)\n",
          "  HOLDER  NAME")));
  EXPECT_THAT(output.out, HasSubstr("  running       2  128.0 KiB"));
  EXPECT_THAT(output.out, HasSubstr("owner (owner)"));
}

TEST(TenonToolMemoryTest, MemNamesMemoryThatIsNotTheCpus) {
  SetMemoryUnderTest(kTestMemory);
  const auto pool = CreateArena({.name = "pool"});
  SetMemoryUnderTest(MemoryKindId::kCpu);
  ASSERT_THAT(pool, IsOk());
  const std::string pid = absl::StrCat(getpid());
  const Json arenas = TenonJson({"mem", "--pid", pid})["arenas"];
  ASSERT_EQ(arenas.size(), 1u);
  EXPECT_EQ(arenas[0]["memory"], "kind 15");
  EXPECT_EQ(arenas[0]["device"], "74657374-0000-0000-0000-000000000000");
  EXPECT_THAT(
      Tenon({"mem", "--pid", pid}).out,
      StartsWith(absl::StrCat("arena 'pool' in memory of kind 15, device "
                              "74657374-0000-0000-0000-000000000000, owner ",
                              pid)));
}

TEST(TenonToolQueueTest, MemSaysHowMuchIsInAQueue) {
  const std::string name = absl::StrCat("jobs.", getpid());
  TENON_ASSERT_OK_AND_ASSIGN(
      auto queue, Queue<uint64_t>::Create({.name = name, .capacity = 8}));
  for (uint64_t i = 0; i < 3; ++i) {
    ASSERT_THAT(queue.Put(i, Deadline::Passed()), IsOk());
  }
  const Json json = TenonJson({"mem", "--pid", absl::StrCat(getpid())});
  ASSERT_EQ(json["queues"].size(), 1u);
  const Json& shown = json["queues"][0];
  EXPECT_EQ(shown["name"], name);
  EXPECT_EQ(shown["type"], "items");
  EXPECT_EQ(shown["items"], 3);
  EXPECT_EQ(shown["capacity"], 8);
  EXPECT_EQ(shown["closed"], false);
  EXPECT_EQ(shown["pids"], Json::array({getpid()}));
  const Output output = Tenon({"mem", "--pid", absl::StrCat(getpid())});
  EXPECT_THAT(output.out, HasSubstr("QUEUE"));
  EXPECT_THAT(output.out, HasSubstr(absl::StrCat(name, "  items")));
  EXPECT_THAT(output.out, HasSubstr("8 each"));
  EXPECT_THAT(output.out, HasSubstr("1 of 8"));
  ASSERT_THAT(queue.Close(), IsOk());
  EXPECT_THAT(Tenon({"mem", "--pid", absl::StrCat(getpid())}).out,
              HasSubstr(absl::StrCat(name, " (closed)")));
}

TEST(TenonToolSegmentsTest, MemTellsValuesLocksAndPlainSegments) {
  const std::string pid = absl::StrCat(getpid());
  TENON_ASSERT_OK_AND_ASSIGN(const auto value, Value<int64_t>::Create());
  TENON_ASSERT_OK_AND_ASSIGN(const auto mutex, Mutex::Create());
  TENON_ASSERT_OK_AND_ASSIGN(
      const Segment segment,
      Segment::CreateSharedWritable(1 << 20, {.name_prefix = "tenon.plain"}));
  const Json segments = TenonJson({"mem", "--pid", pid})["segments"];
  const auto with_kind = [&](const std::string& kind) {
    return std::count_if(segments.begin(), segments.end(),
                         [&](const Json& row) { return row["kind"] == kind; });
  };
  EXPECT_EQ(with_kind("value"), 1) << segments;
  EXPECT_EQ(with_kind("mutex"), 1) << segments;
  ASSERT_FALSE(segments.empty());
  // The largest one.
  EXPECT_EQ(segments[0]["label"], "tenon.plain");
  EXPECT_EQ(segments[0]["kind"], "memory");
  EXPECT_EQ(segments[0]["bytes"], 1 << 20);
  EXPECT_EQ(segments[0]["pids"], Json::array({getpid()}));
  const std::string text = Tenon({"mem", "--pid", pid}).out;
  EXPECT_THAT(text, HasSubstr("SEGMENT"));
  EXPECT_THAT(text, HasSubstr("tenon.plain  memory  1.0 MiB"));
}

// Beside a plain segment of the same label, and whatever its strategy.
TEST(TenonToolSegmentsTest, MemTellsSegmentsOfArenas) {
  const std::string pid = absl::StrCat(getpid());
  const std::string prefix = UniqueShmPrefix();
  TENON_ASSERT_OK_AND_ASSIGN(
      const Segment plain, Segment::CreateSharedWritable(
                               4096, {.strategy = SharingStrategy::kFileSystem,
                                      .name_prefix = prefix}));
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto named,
      Arena::Create({.name = "named",
                     .segment = {.strategy = SharingStrategy::kFileSystem,
                                 .name_prefix = prefix},
                     .quota_bytes = kQuota}));
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto plain_memfd,
      Arena::Create({.name = "frames", .quota_bytes = kQuota}));
  TENON_ASSERT_OK_AND_ASSIGN(const Block one, named->TryAllocate(4096));
  TENON_ASSERT_OK_AND_ASSIGN(const Block two, plain_memfd->TryAllocate(4096));
  const Json segments = TenonJson({"mem", "--pid", pid})["segments"];
  std::vector<std::string> kinds;
  for (const Json& row : segments) {
    kinds.push_back(absl::StrCat(
        row["kind"].get<std::string>(), " ",
        row["arena"].is_null() ? "-" : row["arena"].get<std::string>()));
  }
  EXPECT_THAT(kinds, testing::UnorderedElementsAre("arena named",
                                                   "arena frames", "memory -"))
      << segments;
  EXPECT_THAT(Tenon({"mem", "--pid", pid}).out, HasSubstr("  arena frames  "));
}

// A process shows the role that //spawn gives its children.
TEST(TenonToolRoleTest, PsTellsEntryIndexAndParent) {
  auto shown = ForkedChild::Fork({.name = "role"}, [](const Reporter&) {
    spawn::ShowRole(
        {.entry = "decode\nframes", .index = 3, .parent_pid = 4711});
    const Json self = WithPid(TenonJson({"ps"})["processes"], getpid());
    EXPECT_EQ(self["role"], Json({{"kind", "child"},
                                  {"entry", "decode\\nframes"},
                                  {"index", 3},
                                  {"parent_pid", 4711}}));
    EXPECT_EQ(self["segments"], 0);
    EXPECT_THAT(Tenon({"ps"}).out, HasSubstr("decode\\x5cnframes 3 of 4711"));
  });
  ASSERT_THAT(shown, IsOk());
  EXPECT_TRUE(shown->EndsWell());
}

// It has no memory of Tenon open.
TEST(TenonToolRoleTest, PsTellsKeepers) {
  auto keeper = ForkedChild::Fork({.name = "keeper"}, [](const Reporter&) {
    ASSERT_THAT(BecomeKeeper(), IsOk());
    const Json self = WithPid(TenonJson({"ps"})["processes"], getpid());
    EXPECT_EQ(self["role"], Json::object({{"kind", "keeper"}}));
    EXPECT_THAT(Tenon({"ps"}).out,
                ContainsRegex(absl::StrCat(getpid(), " +tenon-k", getpid(),
                                           " +keeper +running")));
  });
  ASSERT_THAT(keeper, IsOk());
  EXPECT_TRUE(keeper->EndsWell());
}

TEST_F(TenonToolTest, PsSaysWhatEachOwnsAndHolds) {
  Start();
  const Json processes = TenonJson({"ps"})["processes"];
  const Json own = WithPid(processes, owner());
  ASSERT_FALSE(own.is_null());
  EXPECT_EQ(own["name"], "owner");
  EXPECT_EQ(own["state"], "running");
  EXPECT_EQ(own["arenas_owned"], 1);
  EXPECT_EQ(own["bytes_owned"], Arena()["segment_bytes"]);
  EXPECT_EQ(own["attachments"], 0);
  EXPECT_EQ(own["bytes_held"], 0);
  EXPECT_EQ(own["segments"], 1);
  EXPECT_EQ(own["segment_bytes"], own["bytes_owned"]);
  const int64_t now_ms = absl::ToUnixMillis(absl::Now());
  EXPECT_GT(own["started_unix_ms"], now_ms - 120000);
  EXPECT_LE(own["started_unix_ms"], now_ms + 1000);
  const Json other = WithPid(processes, holder());
  ASSERT_FALSE(other.is_null());
  EXPECT_EQ(other["arenas_owned"], 0);
  EXPECT_EQ(other["attachments"], 1);
  EXPECT_EQ(other["blocks_held"], 2);
  EXPECT_EQ(other["bytes_held"], 2 * kBlockBytes);
  EXPECT_EQ(other["segments"], 1);
  EXPECT_EQ(other["segment_bytes"], own["segment_bytes"]);
  // Neither this process nor the tool itself appears.
  EXPECT_TRUE(WithPid(processes, getpid()).is_null());
  EXPECT_EQ(own["role"], nullptr);

  const std::string text = Tenon({"ps"}).out;
  EXPECT_THAT(text, HasSubstr("PID  NAME"));
  EXPECT_THAT(text, HasSubstr(absl::StrCat(owner(), "  owner")));
  EXPECT_THAT(text, HasSubstr(absl::StrCat(holder(), "  holder")));
}

TEST_F(TenonToolTest, AStoppedProcessIsShownAsStopped) {
  Start();
  ASSERT_EQ(kill(holder(), SIGSTOP), 0);
  const Deadline deadline = Deadline::After(absl::Seconds(20));
  Json use;
  do {
    use = WithPid(Arena()["holders"], holder());
  } while (use["state"] != "stopped" && !deadline.has_passed());
  EXPECT_EQ(use["state"], "stopped");
  EXPECT_EQ(use["bytes"], 2 * kBlockBytes);
  EXPECT_EQ(WithPid(TenonJson({"ps"})["processes"], holder())["state"],
            "stopped");
}

TEST_F(TenonToolTest, WhoIsKilledDisappears) {
  Start();
  const pid_t dead = holder();
  holder_->Kill();
  EXPECT_TRUE(WithPid(TenonJson({"ps"})["processes"], dead).is_null());
  EXPECT_TRUE(WithPid(Arena()["holders"], dead).is_null());
  EXPECT_EQ(Arena()["lent"]["blocks"], 0);
  const pid_t dead_owner = owner();
  owner_->Kill();
  const std::string asked = absl::StrCat(dead_owner);
  EXPECT_TRUE(WithPid(TenonJson({"ps"})["processes"], dead_owner).is_null());
  for (const Output& nothing : {Tenon({"mem", "--pid", asked}),
                                Tenon({"mem", "--pid", asked, "--json"}),
                                Tenon({"mem", "--pid", "2147483647"})}) {
    EXPECT_EQ(nothing.exit_code, 1);
    EXPECT_EQ(nothing.out, "");
    EXPECT_THAT(nothing.errors, StartsWith("tenon mem: --pid: "));
  }
  EXPECT_THAT(Tenon({"mem", "--pid", "2147483647"}).errors,
              HasSubstr("there is no process 2147483647"));
}

TEST_F(TenonToolTest, ADeadOwnersArenaIsShownByItsHolder) {
  Start();
  owner_->Kill();
  const std::string asked = absl::StrCat(holder());
  const Json arena = TenonJson({"mem", "--pid", asked})["arenas"][0];
  EXPECT_EQ(arena["name"], "frames");
  EXPECT_EQ(arena["owner"]["state"], "ended");
  EXPECT_EQ(WithPid(arena["holders"], holder())["bytes"], 2 * kBlockBytes);
  EXPECT_THAT(Tenon({"mem", "--pid", asked}).out, HasSubstr("owner ended"));
}

TEST_F(TenonToolTest, NamesCannotWriteToTheTerminal) {
  Start("\x1b[2J\xff\r\n");
  for (const char* command : {"ps", "mem"}) {
    const Output output = Tenon({command});
    EXPECT_TRUE(IsPlain(output.out)) << command;
    EXPECT_THAT(output.out, HasSubstr("\\x1b[2J\\xff"));
    EXPECT_TRUE(IsPlain(TenonJson({command}).dump(2, ' ', true)));
  }
  EXPECT_THAT(WithPid(TenonJson({"ps"})["processes"], owner())["name"]
                  .get<std::string>(),
              StartsWith("\x1b[2J\xef\xbf\xbd"));
}

TEST_F(TenonToolTest, AnotherUserSeesNothingOfIt) {
  if (!CanBecomeAnotherUser()) GTEST_SKIP() << kNoOtherUser;
  Start();
  EXPECT_TRUE(PassesInChild([&] {
    ASSERT_TRUE(BecomeAnotherUser());
    const Json processes = TenonJson({"ps"})["processes"];
    EXPECT_TRUE(WithPid(processes, owner()).is_null());
    EXPECT_TRUE(WithPid(processes, holder()).is_null());
    for (const pid_t pid : {owner(), holder()}) {
      const Output output = Tenon({"mem", "--pid", absl::StrCat(pid)});
      EXPECT_EQ(output.exit_code, 1);
      EXPECT_THAT(output.errors, HasSubstr("is of another user"));
    }
  }));
}

TEST_F(TenonToolTest, LookingChangesNothing) {
  Start();
  const auto held = [&] {
    return std::vector<Census>{TakeCensus(), TakeCensus({.pid = owner()}),
                               TakeCensus({.pid = holder()})};
  };
  const std::vector<Census> before = held();
  for (const char* command : {"ps", "mem"}) Tenon({command});
  const std::vector<Census> after = held();
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_TRUE(ExpectSame(before[i], after[i])) << i;
  }
}

TEST(TenonToolWordsTest, EveryCommandHasHelpWithExamples) {
  const Output all = Tenon({"help"});
  EXPECT_EQ(all.exit_code, 0);
  for (const std::string command : {"ps", "mem", "doctor"}) {
    EXPECT_THAT(all.out, HasSubstr(absl::StrCat("  ", command, " ")));
    const Output help = Tenon({"help", command});
    EXPECT_EQ(help.exit_code, 0);
    EXPECT_THAT(help.out, StartsWith(absl::StrCat("tenon ", command, ": ")));
    EXPECT_THAT(help.out,
                HasSubstr(absl::StrCat("\nExamples:\n  tenon ", command)));
    EXPECT_THAT(help.out, HasSubstr("--json"));
    EXPECT_EQ(Tenon({command, "--help"}).out, help.out);
    EXPECT_EQ(Tenon({command, "--json", "-h"}).out, help.out);
  }
  EXPECT_EQ(Tenon({"--help"}).out, all.out);
  EXPECT_EQ(Tenon({"--version"}).out, absl::StrCat("tenon ", kVersion, "\n"));
}

TEST(TenonToolWordsTest, WhatMakesNoSenseIsExitCode2AndSaysWhy) {
  const auto error = [](const std::vector<std::string>& words) {
    const Output output = Tenon(words);
    EXPECT_EQ(output.exit_code, 2);
    EXPECT_EQ(output.out, "");
    return output.errors;
  };
  EXPECT_EQ(error({}), "tenon: no command\nsee: tenon help\n");
  EXPECT_EQ(error({"docter"}),
            "tenon: unknown command 'docter'; did you mean 'doctor'?\n"
            "see: tenon help\n");
  EXPECT_THAT(error({"help", "men"}), HasSubstr("did you mean 'mem'?"));
  EXPECT_EQ(error({"ps", "--jsn"}),
            "tenon: unknown flag '--jsn'; did you mean '--json'?\n"
            "see: tenon help ps\n");
  EXPECT_EQ(error({"ps", "4711"}),
            "tenon: unexpected argument '4711'\nsee: tenon help ps\n");
  EXPECT_THAT(error({"mem", "--pid", "x"}), HasSubstr("--pid must be"));
  EXPECT_THAT(error({"mem", "--pid", "1.5"}), HasSubstr("whole number"));
  EXPECT_THAT(error({"mem", "--pid", "-1"}), HasSubstr("--pid must be"));
  EXPECT_THAT(error({"mem", "--watch=0"}), HasSubstr("--watch must be"));
  EXPECT_THAT(error({"mem", "--pid"}), HasSubstr("needs a value"));
  EXPECT_TRUE(IsPlain(error({"\x1b[31m"})));
}

TEST(TenonToolWordsTest, WatchingEndsWhenNobodyReads) {
  std::ostringstream out, errors;
  out.setstate(std::ios::badbit);
  EXPECT_EQ(RunTenonTool({"mem", "--watch", "0.1"}, out, errors), 0);
}

}  // namespace
}  // namespace tenon::tools

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A process whose tables and columns are made to cost QueryLedger() memory,
// time or descriptors, or to miscount blocks of others. It is named, and the
// report on honest processes is correct.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/arena_testing.h"
#include "tenon/shm/arena/attached_arena.h"
#include "tenon/shm/arena/block_descriptor.h"
#include "tenon/shm/arena/internal/arena_table.h"
#include "tenon/shm/arena/query/ledger_query.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/ledger/column_layout.h"
#include "tenon/shm/ledger/column_testing.h"
#include "tenon/shm/ledger/lease.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/kill/peer.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;
using Layout = ArenaTableLayout;

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kBlockBytes = 4096;
constexpr uint64_t kBlocks = uint64_t{1} << 18;  // Of the honest arena.
// More than a query needs, and far less than the size of the shown files.
// AddressSanitizer keeps freed memory.
#ifdef __SANITIZE_ADDRESS__
constexpr size_t kMostMemory = 600 * kMiB;
#else
constexpr size_t kMostMemory = 48 * kMiB;
#endif

// Control memory with the label `label` that begins with `content`.
UniqueFd MakeFile(const char* label, size_t bytes, const std::string& content) {
  UniqueFd fd(memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_TRUE(fd.valid());
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(pwrite(fd.get(), content.data(), content.size(), 0),
            static_cast<ssize_t>(content.size()));
  EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, kColumnSeals), 0);
  return fd;
}

template <typename T>
void Put(std::string& content, size_t at, const T& value) {
  if (content.size() < at + sizeof(T)) content.resize(at + sizeof(T));
  std::memcpy(content.data() + at, &value, sizeof(T));
}

UniqueFd MakeTable(const RandomId& arena, uint64_t max_blocks, size_t bytes,
                   const std::vector<ArenaSegment>& segments) {
  ArenaHeader header;
  header.arena = arena;
  header.owner_pid = static_cast<uint64_t>(getpid());
  header.max_blocks = max_blocks;
  std::strcpy(header.name, "hostile");
  std::string content;
  Put(content, 0, header);
  for (size_t i = 0; i < segments.size(); ++i) {
    Put(content, Layout::kSegmentsAt + i * sizeof(ArenaSegment), segments[i]);
  }
  return MakeFile(Layout::kLabel, bytes, content);
}

ArenaSegment Live(uint64_t id, uint64_t first_block, uint64_t block_count) {
  return {.id_and_state = id << 32 | ArenaSegment::kLive,
          .block_bytes = kBlockBytes,
          .block_count = block_count,
          .first_block = first_block};
}

// A column of this process with claims in these cells.
UniqueFd MakeColumn(const std::vector<ColumnDirectoryEntry>& directory,
                    const std::vector<BlockDescriptor>& held = {}) {
  ColumnHeader header = {};
  header.magic = ColumnLayout::kMagic;
  header.version = ColumnLayout::Version();
  header.id = RandomId::New().value();
  header.pid = static_cast<uint64_t>(getpid());
  std::string content;
  Put(content, 0, header);
  for (size_t i = 0; i < directory.size(); ++i) {
    Put(content, sizeof(header) + i * sizeof(ColumnDirectoryEntry),
        directory[i]);
  }
  for (const BlockDescriptor& block : held) {
    Put(content, ColumnLayout::CellAt(block.block), uint64_t{LeaseCell::kHeld});
  }
  return MakeFile(ColumnLayout::kLabel, ColumnLayout::kBytes, content);
}

size_t StatusBytes(absl::string_view field) {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    size_t kib;
    if (words[0] == field && absl::SimpleAtoi(words[1], &kib)) {
      return kib * 1024;
    }
  }
  ADD_FAILURE() << "no " << field;
  return 0;
}

using Files = std::vector<UniqueFd>;

class LedgerQueryHostileTest : public testing::Test {
 protected:
  void SetUp() override {
    TENON_ASSERT_OK_AND_ASSIGN(
        arena_, Arena::Create({.name = "honest", .max_blocks = kBlocks}));
    for (int i = 0; i < 3; ++i) {
      TENON_ASSERT_OK_AND_ASSIGN(blocks_.emplace_back(),
                                 arena_->TryAllocate(kBlockBytes));
      TENON_ASSERT_OK_AND_ASSIGN(messages_.emplace_back(),
                                 blocks_.back().Describe());
    }
    TENON_ASSERT_OK_AND_ASSIGN(offer_, arena_->Offer(blocks_[0]));
    holder_ = Start("holder", [&](const auto& go_on) {
      TENON_ASSERT_OK_AND_ASSIGN(const auto attached, AttachTo(offer_));
      TENON_ASSERT_OK_AND_ASSIGN(const Hold hold,
                                 attached->Claim(messages_[0]));
      go_on();
    });
  }

  pid_t Show(const std::function<Files()>& make) {
    return Start("hostile", [&](const auto& go_on) {
      const Files files = make();
      go_on();
    });
  }

  // With few descriptors, and little memory.
  void Check(const std::function<void(const LedgerReport&)>& check) {
    EXPECT_TRUE(PassesInChild([&] {
      const rlimit few = {CountOpenFds() + 16, CountOpenFds() + 16};
      ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
      const size_t before = StatusBytes("VmRSS:");
      TENON_ASSERT_OK_AND_ASSIGN(const LedgerReport report, QueryLedger());
      EXPECT_LT(StatusBytes("VmHWM:"), before + kMostMemory);
      ExpectHonestIsRight(report);
      check(report);
    }));
  }

  void ExpectHonestIsRight(const LedgerReport& report) {
    size_t found = 0;
    for (const ArenaReport& arena : report.arenas) {
      if (arena.name != "honest" || arena.arena != arena_->id()) continue;
      ++found;
      EXPECT_EQ(arena.owner, getppid());
      EXPECT_EQ(arena.in_use.blocks, 3u);
      EXPECT_EQ(BlocksOf(arena, holder_), 1u);
      EXPECT_EQ(BlocksOf(arena, getppid()), 3u);
    }
    EXPECT_EQ(found, 1u);
  }

  static size_t BlocksOf(const ArenaReport& arena, pid_t pid) {
    size_t blocks = 0;
    for (const HolderUse& holder : arena.holders) {
      if (holder.pid == pid) blocks += holder.blocks;
    }
    return blocks;
  }
  static size_t ArenasOf(const LedgerReport& report, pid_t pid) {
    size_t arenas = 0;
    for (const ArenaReport& arena : report.arenas) arenas += arena.owner == pid;
    return arenas;
  }
  static SkippedProcess SkippedOf(const LedgerReport& report, pid_t pid) {
    for (const SkippedProcess& skipped : report.skipped) {
      if (skipped.pid == pid) return skipped;
    }
    return {};
  }
  static void ExpectLeftOut(const LedgerReport& report, pid_t pid, size_t files,
                            const std::string& reason) {
    EXPECT_EQ(SkippedOf(report, pid).files, files);
    EXPECT_THAT(SkippedOf(report, pid).reason, HasSubstr(reason));
    EXPECT_EQ(ArenasOf(report, pid), 0u);
    EXPECT_EQ(SkippedOf(report, getppid()).files, 0u);
  }

  std::shared_ptr<Arena> arena_;
  std::vector<Block> blocks_;
  std::vector<BlockDescriptor> messages_;
  ArenaOffer offer_;
  pid_t holder_ = 0;

 private:
  pid_t Start(
      const std::string& name,
      const std::function<void(const std::function<void()>& go_on)>& body) {
    auto peers = MakePeers({"test", name}, PeerMode::kProcesses,
                           Deadline::After(absl::Minutes(1)))
                     .value();
    auto child = ForkedChild::Fork({.name = name, .watchdog = absl::Minutes(4)},
                                   [&](const Reporter&) {
                                     Peer self = std::move(peers[1]);
                                     peers.clear();
                                     body([&] {
                                       self.Step("ready");
                                       for (;;) pause();
                                     });
                                   });
    EXPECT_THAT(child, IsOk());
    Peer self = std::move(peers[0]);
    peers.clear();
    EXPECT_THAT(self.Await(name, "ready"), IsOk());
    children_.push_back(*std::move(child));
    return children_.back().pid();
  }

  std::vector<ForkedChild> children_;
};

TEST_F(LedgerQueryHostileTest, SegmentsThatEachHaveAllBlocksAreNotRead) {
  const pid_t hostile = Show([] {
    std::vector<ArenaSegment> segments;
    for (uint64_t id = 0; id < Layout::kMaxSegments; ++id) {
      segments.push_back(Live(id, 0, Layout::kMaxBlocks));
    }
    Files files;
    files.push_back(MakeTable(RandomId::New().value(), Layout::kMaxBlocks,
                              Layout::Bytes(Layout::kMaxBlocks), segments));
    return files;
  });
  Check([&](const LedgerReport& report) {
    ExpectLeftOut(report, hostile, 1, "lists a block twice");
  });
}

TEST_F(LedgerQueryHostileTest, TablesOfAnotherSizeAreRefused) {
  const pid_t hostile = Show([] {
    Files files;
    for (const size_t bytes : {Layout::Bytes(8192) + 4096,
                               Layout::Bytes(8192) - 4096, size_t{4096}}) {
      files.push_back(MakeTable(RandomId::New().value(), 8192, bytes, {}));
    }
    for (const uint64_t blocks :
         {uint64_t{0}, uint64_t{1}, uint64_t{1} << 60}) {
      files.push_back(
          MakeTable(RandomId::New().value(), blocks, Layout::Bytes(8192), {}));
    }
    return files;
  });
  Check([&](const LedgerReport& report) {
    ExpectLeftOut(report, hostile, 6, "does not match");
  });
}

TEST_F(LedgerQueryHostileTest, ImpossibleBlocksAreRefused) {
  const pid_t hostile = Show([] {
    Files files;
    for (const ArenaSegment& segment :
         {Live(0, 0, 8193), Live(0, 8192, 1), Live(0, 0, 0),
          Live(0, UINT64_MAX, 1)}) {
      files.push_back(MakeTable(RandomId::New().value(), 8192,
                                Layout::Bytes(8192), {segment}));
    }
    return files;
  });
  Check([&](const LedgerReport& report) {
    ExpectLeftOut(report, hostile, 4, "impossible blocks");
  });
}

TEST_F(LedgerQueryHostileTest, ManyLargeTablesAreReadUpToABound) {
  const pid_t hostile = Show([] {
    Files files;
    for (int i = 0; i < 64; ++i) {
      files.push_back(MakeTable(RandomId::New().value(), Layout::kMaxBlocks,
                                Layout::Bytes(Layout::kMaxBlocks),
                                {Live(0, 0, Layout::kMaxBlocks)}));
    }
    return files;
  });
  Check([&](const LedgerReport& report) {
    EXPECT_EQ(ArenasOf(report, hostile), 7u);  // Of 128 MiB each.
    EXPECT_EQ(SkippedOf(report, hostile).files, 57u);
    EXPECT_THAT(SkippedOf(report, hostile).reason, HasSubstr("1073741824"));
  });
}

TEST_F(LedgerQueryHostileTest, OneEntryOfAColumnCounts) {
  const pid_t hostile = Show([&] {
    Files files;
    files.push_back(MakeColumn({{1, arena_->id(), 0, kBlocks}}, messages_));
    return files;
  });
  Check([&](const LedgerReport& report) {
    for (const ArenaReport& arena : report.arenas) {
      if (arena.arena != arena_->id()) continue;
      EXPECT_EQ(BlocksOf(arena, hostile), 3u);
    }
  });
}

TEST_F(LedgerQueryHostileTest, EntriesThatMultiplyReadingsAreRefused) {
  const pid_t hostile = Show([&] {
    std::vector<ColumnDirectoryEntry> same_arena;
    std::vector<ColumnDirectoryEntry> same_cells;
    for (uint64_t i = 0; i < ColumnLayout::kMaxArenas; ++i) {
      same_arena.push_back({1, arena_->id(), i * kBlocks, kBlocks});
      same_cells.push_back({1, RandomId::New().value(), 0, kBlocks});
    }
    same_arena.resize(ColumnLayout::kCells / kBlocks);
    Files files;
    files.push_back(MakeColumn(same_arena, messages_));
    files.push_back(MakeColumn(same_cells, messages_));
    files.push_back(
        MakeColumn({{1, arena_->id(), ColumnLayout::kCells - 1, 2}}));
    return files;
  });
  Check([&](const LedgerReport& report) {
    ExpectLeftOut(report, hostile, 3, "a column lists");
    for (const ArenaReport& arena : report.arenas) {
      EXPECT_EQ(BlocksOf(arena, hostile), 0u);
    }
  });
}

TEST_F(LedgerQueryHostileTest, AThousandFilesTakeNoDescriptors) {
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  if (limit.rlim_max < 2500) GTEST_SKIP() << "needs 2500 descriptors";
  const pid_t hostile = Show([&] {
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    Files files;
    for (int i = 0; i < 1000; ++i) {
      files.push_back(MakeFile(Layout::kLabel, 1 << 20, "nothing"));
      files.push_back(
          MakeTable(RandomId::New().value(), 8192, Layout::Bytes(8192), {}));
    }
    return files;
  });
  Check([&](const LedgerReport& report) {
    EXPECT_EQ(ArenasOf(report, hostile), 1000u);
    EXPECT_EQ(SkippedOf(report, hostile).files, 1000u);
    EXPECT_THAT(SkippedOf(report, hostile).reason, HasSubstr("not a table"));
  });
}

// For a forged arena with another arena's id, no process's columns are counted.
TEST_F(LedgerQueryHostileTest, AForgedArenaHasNoHolders) {
  const pid_t hostile = Show([&] {
    Files files;
    files.push_back(MakeTable(arena_->id(), kBlocks, Layout::Bytes(kBlocks),
                              {Live(0, 0, kBlocks)}));
    return files;
  });
  Check([&](const LedgerReport& report) {
    EXPECT_EQ(ArenasOf(report, hostile), 1u);
    for (const ArenaReport& arena : report.arenas) {
      if (arena.owner != hostile) continue;
      EXPECT_EQ(arena.holders.size(), 0u);
    }
  });
}

}  // namespace
}  // namespace tenon

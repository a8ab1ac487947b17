// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Owners that are killed while a process that they forked lives on. It has
// copies of the inbox, which goes on taking messages, and of the leases in it,
// which do not hang up.

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/arena/arena_testing.h"
#include "tenon/shm/arena/attached_arena.h"
#include "tenon/shm/arena/block_descriptor.h"
#include "tenon/shm/arena/every_memory.h"
#include "tenon/shm/arena/internal/arena_attachment.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/ledger/column_testing.h"
#include "tenon/shm/testing/few_fds.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/kill/crash_watch.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

constexpr auto kResourceExhausted = absl::StatusCode::kResourceExhausted;

static_assert(std::is_trivially_copyable_v<BlockDescriptor>);

class ArenaDeadOwnerTest : public testing::Test {
 protected:
  void SetUp() override {
    int pipe[2];
    ASSERT_EQ(pipe2(pipe, O_CLOEXEC), 0);
    const UniqueFd stay(pipe[0]);
    end_.Reset(pipe[1]);
    int sockets[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets),
              0);
    const UniqueFd here(sockets[0]);
    const UniqueFd there(sockets[1]);
    auto owner = ForkedChild::Fork({.name = "owner"}, [&](const Reporter&) {
      end_.Reset();
      BeOwner(there.get(), stay.get());
    });
    ASSERT_THAT(owner, IsOk());
    owner_ = std::make_unique<ForkedChild>(*std::move(owner));
    ReceivedPacket offer = ReceivePacket(here.get());
    offer_ = {.bytes = std::move(offer.bytes), .fds = {}};
    fds_ = std::move(offer.fds);
    for (const UniqueFd& fd : fds_) offer_.fds.push_back(fd.get());
    const ReceivedPacket block = ReceivePacket(here.get());
    ASSERT_EQ(block.bytes.size(), sizeof(block_));
    block.bytes.copy(reinterpret_cast<char*>(&block_), sizeof(block_));
  }

  absl::StatusOr<std::shared_ptr<AttachedArena>> Attach() {
    return AttachTo(offer_);
  }

  std::unique_ptr<ForkedChild> owner_;
  ArenaOffer offer_;
  std::vector<UniqueFd> fds_;  // Of the offer.
  BlockDescriptor block_;

 private:
  // Offers a block, and forks a process that stays until `end_` is closed.
  static void BeOwner(int socket, int stay) {
    TENON_ASSERT_OK_AND_ASSIGN(const auto arena, CreateArena());
    TENON_ASSERT_OK_AND_ASSIGN(const Block block, arena->TryAllocate(4096));
    TENON_ASSERT_OK_AND_ASSIGN(const BlockDescriptor message, block.Describe());
    TENON_ASSERT_OK_AND_ASSIGN(const ArenaOffer offer, arena->Offer(block));
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      char byte;
      while (read(stay, &byte, 1) < 0) {
      }
      _exit(0);
    }
    ASSERT_TRUE(SendPacket(socket, offer.bytes, offer.fds));
    ASSERT_TRUE(SendPacket(
        socket, {reinterpret_cast<const char*>(&message), sizeof(message)},
        {}));
    for (;;) pause();
  }

  UniqueFd end_;
};

TEST_F(ArenaDeadOwnerTest, ItsFullInboxKeepsNobodyFromAttaching) {
  const int inbox = offer_.fds[ArenaOfferFacts::kInbox];
  while (SendPacket(inbox, "junk", {})) {
  }
  EXPECT_THAT(Attach(), StatusIs(kResourceExhausted,
                                 testing::HasSubstr("inbox of the arena")));
  owner_->Kill();
  TENON_ASSERT_OK_AND_ASSIGN(const auto attached, Attach());
  EXPECT_THAT(attached->Claim(block_), IsOk());
}

// Whose pidfd cannot be opened then.
TEST_F(ArenaDeadOwnerTest, CellsLeftAtTheLimitOfDescriptorsAreFreedOnceItEnds) {
  TENON_ASSERT_OK_AND_ASSIGN(auto attached, Attach());
  EXPECT_THAT(attached->Claim(block_), IsOk());
  const ArenaRemains remains(attached->attachment());
  {
    const FewFds few;
    attached.reset();
    EXPECT_FALSE(remains.CostNothing());
  }
  EXPECT_FALSE(remains.CostNothing());
  owner_->Kill();
  EXPECT_TRUE(remains.CostNothing());
}

TEST_F(ArenaDeadOwnerTest, AlsoIfItHasEndedBeforeAnybodyAsks) {
  TENON_ASSERT_OK_AND_ASSIGN(auto attached, Attach());
  const ArenaRemains remains(attached->attachment());
  {
    const FewFds few;
    attached.reset();
    owner_->Kill();
  }
  EXPECT_TRUE(remains.CostNothing());
}

// Whether a thread of this process sleeps, as for a lock.
bool Sleeps(pid_t thread) {
  std::ifstream file(absl::StrCat("/proc/self/task/", thread, "/stat"));
  std::string text;
  std::getline(file, text);
  return absl::StrContains(text, ") S ");
}

// The importer has no tensor of the arena yet, and its owner has ended.
TEST_F(ArenaDeadOwnerTest, NoSweepForgetsItBetweenItsOfferAndTheClaim) {
  owner_->Kill();
  ArenaTensorImporter importer({.forget_idle = true});
  std::thread sweeper;
  std::atomic<pid_t> sweeper_id{0};
  std::atomic<bool> swept{false};
  PassingCounts counts;
  const CrashWatch watch(
      counts, {{.point = "arena_tensor.accepted",
                .action = CrashAction::kCall,
                .call = [&] {
                  sweeper = std::thread([&] {
                    sweeper_id = gettid();
                    importer.Sweep();
                    swept = true;
                  });
                  Becomes([&] {
                    return swept || (sweeper_id != 0 && Sleeps(sweeper_id));
                  });
                }}});
  const auto storage =
      importer.AcceptAndClaim(offer_.bytes, Travel(offer_.fds), block_);
  ASSERT_TRUE(sweeper.joinable());
  sweeper.join();
  EXPECT_THAT(storage, IsOk());
  EXPECT_TRUE(swept);
}

}  // namespace
}  // namespace tenon

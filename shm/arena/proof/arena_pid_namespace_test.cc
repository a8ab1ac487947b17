// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// An arena and its holders in a pid namespace whose /proc is the outer one, or
// none: each holder is attached under its own identity, and its blocks are not
// reused.

#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <memory>
#include <string>
#include <tuple>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/attached_arena.h"
#include "tenon/shm/arena/holder_use.h"
#include "tenon/shm/arena/proof/arena_kill_testing.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/linux_6_1_testing.h"
#include "tenon/shm/testing/pid_namespace_testing.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kBlock = 4096;
constexpr auto kResourceExhausted = absl::StatusCode::kResourceExhausted;

// A byte from one process to another.
class Signal {
 public:
  Signal() { EXPECT_EQ(pipe(ends_), 0); }
  void Send() const { EXPECT_EQ(write(ends_[1], "x", 1), 1); }
  void Await() const {
    char byte;
    EXPECT_EQ(RetryOnEintr([&] { return read(ends_[0], &byte, 1); }), 1);
  }

 private:
  int ends_[2];
};

// The holder: claims a block, and checks it once the owner has tried to reuse
// it.
absl::StatusOr<ForkedChild> StartHolder(const ArenaOffer& offer,
                                        const BlockDescriptor& block,
                                        const Signal& claimed,
                                        const Signal& tried) {
  return ForkedChild::Fork({.name = "holder"}, [&](const Reporter&) {
    TENON_ASSERT_OK_AND_ASSIGN(const auto attached, AttachTo(offer));
    TENON_ASSERT_OK_AND_ASSIGN(const Hold hold, attached->Claim(block));
    claimed.Send();
    tried.Await();
    EXPECT_TRUE(HasPattern(hold.bytes(), block)) << "reused while held";
  });
}

enum class Kernel { kThis, kLinux61 };

// Without a /proc Linux 6.1 cannot identify processes.
void ExpectRefusalSaysWhy(Arena& arena) {
  EXPECT_THAT(arena.Holders(), IsOk());
  EXPECT_EQ(arena.Use().attached, 0u);
  EXPECT_THAT(arena.Use().last_refusal,
              AllOf(HasSubstr("cannot be identified"), HasSubstr("/proc")));
}

void ExpectHeldBlockIsNotReused(Proc proc, Kernel kernel) {
  const bool hides = kernel == Kernel::kLinux61;
  if (hides) {
    ASSERT_TRUE(HidePidFdsOfSockets());
  }
  const bool is_old = !KernelSendsPidFds();
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto arena,
      Arena::Create(SmallArena(SharingStrategy::kFileDescriptor,
                               UniqueShmPrefix(), 2, kBlock)));
  TENON_ASSERT_OK_AND_ASSIGN(SentBlock sent, MakeSentBlock(*arena, kBlock));
  TENON_ASSERT_OK_AND_ASSIGN(const ArenaOffer offer, arena->Offer(sent.block));
  const Signal claimed, tried;
  TENON_ASSERT_OK_AND_ASSIGN(ForkedChild holder,
                             StartHolder(offer, sent.message, claimed, tried));
  claimed.Await();
  if (hides) {
    ASSERT_TRUE(HidePidFs());
  }
  if (is_old && proc == Proc::kNone) return ExpectRefusalSaysWhy(*arena);
  sent.block.Reset();
  {
    TENON_ASSERT_OK_AND_ASSIGN(const SentBlock other,
                               MakeSentBlock(*arena, kBlock));
    EXPECT_THAT(MakeSentBlock(*arena, kBlock).status(),
                StatusIs(kResourceExhausted));
    TENON_ASSERT_OK_AND_ASSIGN(const auto holders, arena->Holders());
    EXPECT_EQ(arena->Use().last_refusal, "");
    EXPECT_EQ(arena->Use().attached, 1u);
    ASSERT_EQ(holders.size(), 2u);
    const HolderUse& its = holders[holders[0].pid == getpid() ? 1 : 0];
    EXPECT_EQ(its.pid, holder.pid());
    EXPECT_EQ(its.blocks, 1u);
  }
  tried.Send();
  EXPECT_TRUE(holder.EndsWell());
  // The block it held is free again.
  TENON_ASSERT_OK_AND_ASSIGN(const SentBlock one,
                             MakeSentBlock(*arena, kBlock));
  TENON_ASSERT_OK_AND_ASSIGN(const SentBlock two,
                             MakeSentBlock(*arena, kBlock));
}

class ArenaPidNamespaceTest
    : public testing::TestWithParam<std::tuple<Proc, Kernel>> {};

TEST_P(ArenaPidNamespaceTest, HeldBlockIsNotReused) {
  if (!CanEnterOwnPidNamespace()) GTEST_SKIP() << kNoPidNamespace;
  const auto [proc, kernel] = GetParam();
  EXPECT_TRUE(PassesInPidNamespace(
      proc, [&] { ExpectHeldBlockIsNotReused(proc, kernel); }));
}

std::string NameOfParam(
    const testing::TestParamInfo<std::tuple<Proc, Kernel>>& info) {
  constexpr const char* kProc[] = {"WithTheOuterProc", "WithItsOwnProc",
                                   "WithoutProc"};
  const bool is_old = std::get<1>(info.param) == Kernel::kLinux61;
  return absl::StrCat(kProc[static_cast<int>(std::get<0>(info.param))],
                      is_old ? "OnLinux61" : "");
}

INSTANTIATE_TEST_SUITE_P(
    Everywhere, ArenaPidNamespaceTest,
    testing::Combine(testing::Values(Proc::kOuter, Proc::kOwn, Proc::kNone),
                     testing::Values(Kernel::kThis, Kernel::kLinux61)),
    NameOfParam);

}  // namespace
}  // namespace tenon

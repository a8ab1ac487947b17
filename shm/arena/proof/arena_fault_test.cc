// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Every system call of creating, growing, offering, attaching, taking back and
// trimming, failed with every errno that the code names or the kernel may give:
// nothing leaks, no block is given away that is held, and the next try works.

#include <errno.h>

#include <cstddef>
#include <functional>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/arena_options.h"
#include "tenon/shm/arena/attached_arena.h"
#include "tenon/shm/arena/proof/arena_kill_testing.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm/testing/trace/fault_report.h"
#include "tenon/shm/testing/trace/syscall_failer.h"
#include "tenon/shm/testing/trace/tracee.h"

namespace tenon {
namespace {

constexpr size_t kBlock = 4096;

// Calls that cannot fail, or whose failure nobody could act on: a name that
// cannot be unlinked stays; what is not known for sure is closed by a thread.
const std::set<std::string> kSpared = {
    "munmap", "geteuid", "getpid", "brk",      "prlimit64",
    "waitid", "unlink",  "ioctl",  "readlink", "shutdown"};
// One name or the other, as the C library has it; and what is called only once
// much memory was taken.
const std::set<std::string> kAliases = {"fstat", "newfstatat", "sendto",
                                        "recvfrom", "fstatfs"};

using Faults = std::vector<SyscallFault>;

Faults Make(const std::vector<std::string>& calls,
            const std::vector<int>& errors) {
  Faults faults;
  for (const std::string& call : calls) {
    for (const int error : errors) {
      faults.push_back({.call = call, .error = error});
    }
  }
  return faults;
}

Faults operator+(Faults a, const Faults& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Faults MemoryFaults() {
  return Make({"memfd_create"}, {EMFILE, ENFILE, ENOMEM}) +
         Make({"ftruncate"}, {EINTR, ENOMEM, EFBIG}) +
         Make({"fallocate"}, {EINTR, ENOSPC, ENOMEM}) +
         Make({"mmap"}, {ENOMEM, EAGAIN}) + Make({"madvise"}, {ENOMEM}) +
         Make({"getrandom"}, {EINTR, ENOSYS});
}

Faults SocketFaults() {
  return Make({"socketpair"}, {EMFILE, ENFILE, ENOMEM}) +
         Make({"setsockopt"}, {ENOMEM}) + Make({"getsockopt"}, {ENOMEM}) +
         Make({"sendmsg"}, {EINTR, EAGAIN, ENOBUFS, ENOMEM, ETOOMANYREFS, EPIPE,
                            ECONNRESET}) +
         Make({"recvmsg"}, {EINTR, ENOMEM, ENOBUFS}) +
         Make({"recvfrom", "sendto"}, {EINTR});
}

Faults LookFaults() {
  return Make({"newfstatat", "fstat"}, {ENOMEM}) + Make({"fstatfs"}, {ENOMEM}) +
         Make({"pread64"}, {EINTR, ENOMEM}) + Make({"read"}, {EINTR, EIO}) +
         Make({"openat"}, {EMFILE, ENFILE, ENOENT, EACCES}) +
         Make({"pidfd_open"}, {EMFILE, ENFILE, ENOMEM}) +
         Make({"poll", "ppoll"}, {EINTR, ENOMEM}) +
         Faults{{.call = "close", .error = EINTR, .executed = true},
                {.call = "close", .error = EIO, .executed = true}};
}

// What the kernel says of a descriptor that is not what it should be. To the
// owner of the arena that is the fault of whoever attaches, who is refused.
Faults ForgeryFaults() {
  return Make({"fcntl"}, {EPERM, EBUSY, EINVAL, EBADF}) +
         Make({"fstatfs", "pread64"}, {EIO}) + Make({"pidfd_open"}, {ESRCH});
}

// With `may_refuse` the owner may have refused the attachment; then it does not
// see what is held.
absl::Status Round(const ArenaOptions& options, bool may_refuse) {
  TENON_ASSIGN_OR_RETURN(const auto arena, Arena::Create(options));
  TENON_ASSIGN_OR_RETURN(SentBlock held, MakeSentBlock(*arena, kBlock));
  TENON_ASSIGN_OR_RETURN(SentBlock free, MakeSentBlock(*arena, kBlock));
  TENON_ASSIGN_OR_RETURN(const ArenaOffer offer, arena->Offer(held.block));
  TENON_ASSIGN_OR_RETURN(const auto attached, AttachTo(offer));
  TENON_ASSIGN_OR_RETURN(const Hold hold, attached->Claim(held.message));
  TENON_RETURN_IF_ERROR(attached->Claim(free.message).status());
  held.block.Reset();
  free.block.Reset();
  // Takes back one of two. If it cannot be seen who holds what, neither.
  {
    absl::StatusOr<Block> back = arena->TryAllocate(kBlock);
    if (back.ok()) {
      for (std::byte& byte : back->bytes()) byte = std::byte{0xEE};
    }
    const bool both = back.ok() && arena->TryAllocate(kBlock).ok();
    if (!may_refuse || arena->Use().refused == 0) {
      EXPECT_FALSE(both) << "given away while it was held";
      EXPECT_TRUE(HasPattern(hold.bytes(), held.message));
    }
    TENON_RETURN_IF_ERROR(back.status());
  }
  return arena->Trim().status();
}

class ArenaFaultTest : public testing::TestWithParam<SharingStrategy> {
 protected:
  void SetUp() override {
    if (const absl::Status can = CanTrace(); !can.ok()) GTEST_SKIP() << can;
  }

  void Run(const std::string& name, std::function<absl::Status()> body,
           Faults faults, const std::set<std::string>& elsewhere = {}) {
    FaultScenario scenario;
    scenario.name = name;
    scenario.body = std::move(body);
    scenario.shm_prefix = prefix_;
    scenario.faults = std::move(faults);
    // A signal never matters.
    scenario.check = [](const SyscallFault& fault,
                        const absl::Status& outcome) -> absl::Status {
      return fault.error == EINTR && fault.call != "poll" ? outcome
                                                          : absl::OkStatus();
    };
    TENON_ASSERT_OK_AND_ASSIGN(const FaultReport report,
                               FailSystemCalls(scenario));
    std::cout << report.ToString();
    EXPECT_TRUE(report.ok()) << report.ToString();
    for (const FaultReport::Row& row : report.rows) {
      EXPECT_TRUE(row.runs > 0 || kAliases.count(row.fault.call) > 0)
          << FaultInWords(row.fault) << ": not called";
    }
    if (elsewhere.empty()) return;
    for (const std::string& call : report.spared) {
      EXPECT_EQ(kSpared.count(call) + elsewhere.count(call), 1u)
          << call << " was not failed";
    }
  }

  const std::string prefix_ = UniqueShmPrefix();
};

TEST_P(ArenaFaultTest, NothingIsGivenAwayForWantOfMemoryOrDescriptors) {
  const ArenaOptions options = SmallArena(GetParam(), prefix_, 2, kBlock);
  Faults faults = MemoryFaults() + SocketFaults() + LookFaults();
  if (GetParam() == SharingStrategy::kFileSystem) {
    faults = faults + Make({"fchmod"}, {EPERM});
  }
  Run("arena", [&] { return Round(options, false); }, faults, {"fcntl"});
}

TEST_P(ArenaFaultTest, WhatSeemsForgedIsRefused) {
  const ArenaOptions options = SmallArena(GetParam(), prefix_, 2, kBlock);
  Run(
      "forgery", [&] { return Round(options, true); }, ForgeryFaults());
}

INSTANTIATE_TEST_SUITE_P(Strategies, ArenaFaultTest,
                         testing::Values(SharingStrategy::kFileDescriptor,
                                         SharingStrategy::kFileSystem),
                         [](const auto& strategy) {
                           return strategy.param == SharingStrategy::kFileSystem
                                      ? "FileSystem"
                                      : "FileDescriptor";
                         });

}  // namespace
}  // namespace tenon

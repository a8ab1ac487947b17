// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Every system call of creating, growing, offering, attaching, reclaiming and
// trimming fails with every errno that the code names or the kernel may return:
// nothing leaks, no held block is reused, and the next attempt succeeds.

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

// Calls that cannot fail, or whose failure has no remedy: a name that cannot be
// unlinked stays; a descriptor of unknown type is closed by a thread; a size of
// /dev/shm that is unknown bounds nothing.
const std::set<std::string> kSpared = {
    "munmap", "geteuid", "getpid", "brk",      "prlimit64", "statfs",
    "waitid", "unlink",  "ioctl",  "readlink", "shutdown"};
// Pairs of names, of which the C library uses one; and calls made only once
// much memory was allocated.
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

// The kernel's errors for a descriptor of the wrong type. The owner of the
// arena blames the attaching process, and refuses it.
Faults ForgeryFaults() {
  return Make({"fcntl"}, {EPERM, EBUSY, EINVAL, EBADF}) +
         Make({"fstatfs", "pread64"}, {EIO}) + Make({"pidfd_open"}, {ESRCH});
}

// With `may_refuse` the owner may have refused the attachment; then it does not
// see that process's claims.
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
  // Reclaims one of two. None, if the claims cannot be read.
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
    // A signal never has an effect.
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

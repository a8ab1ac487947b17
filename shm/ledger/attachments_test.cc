// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/ledger/attachments.h"

#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/received_fd.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/ledger/column_layout.h"
#include "tenon/shm/ledger/column_testing.h"
#include "tenon/shm/testing/few_fds.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/linux_6_1_testing.h"
#include "tenon/shm/testing/pid_namespace_testing.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kResourceExhausted = absl::StatusCode::kResourceExhausted;
constexpr uint64_t kBlocks = ColumnLayout::kCellsAlignment;
constexpr RandomId kArena = {1, 2};

AttachRequest RequestOf(const TestAttach& attach) {
  return {.arena = kArena,
          .first_cell = 0,
          .cells = kBlocks,
          .column = attach.column->fd(),
          .process = attach.process->fd(),
          .lease = attach.owners_lease.get()};
}

// A process that attaches `times` times, and stays.
absl::StatusOr<ForkedChild> Attacher(const Attachments& owner, size_t times) {
  return ForkedChild::Fork({.name = "attacher", .watchdog = absl::Minutes(3)},
                           [&, times](const Reporter&) {
                             const TestColumn column;
                             std::deque<TestAttach> leases;
                             while (leases.size() < times) {
                               leases.emplace_back(kArena, kBlocks, &column);
                               while (!leases.back().Send(owner.socket()))
                                 sched_yield();
                             }
                             for (;;) pause();
                           });
}

bool IsReadable(int fd) {
  pollfd one = {fd, POLLIN, 0};
  return poll(&one, 1, 0) == 1;
}

class AttachmentsTest : public testing::Test {
 protected:
  TestAttach NewAttach() { return TestAttach(kArena, kBlocks, &column_); }

  void ReceiveAll() {
    while (!attachments_.IsEmpty()) {
      attachments_.Receive();
      ASSERT_THAT(attachments_.status(), IsOk());
    }
  }

  // While this process may open only `room` more descriptors.
  void ReceiveWith(rlim_t room) {
    const FewFds few(room);
    attachments_.Receive();
  }

  const TestColumn column_;
  Attachments attachments_ = Attachments::Create(kArena, kBlocks).value();
};

TEST_F(AttachmentsTest, NobodyIsAttachedAtFirst) {
  EXPECT_TRUE(attachments_.IsEmpty());
  attachments_.Receive();
  EXPECT_THAT(attachments_.status(), IsOk());
  EXPECT_TRUE(attachments_.columns().empty());
  EXPECT_EQ(attachments_.RemoveExited(), 0u);
}

TEST_F(AttachmentsTest, WhoAttachesIsKnownAndReadable) {
  ASSERT_THAT(attachments_.Reserve(0, kBlocks), IsOk());
  TestAttach attach = NewAttach();
  attach.message.first_cell = 3 * kBlocks;
  ASSERT_TRUE(attach.Send(attachments_.socket()));
  EXPECT_FALSE(attachments_.IsEmpty());
  attachments_.Receive();
  EXPECT_TRUE(attachments_.IsEmpty());
  ASSERT_EQ(attachments_.columns().size(), 1u);
  const Attachment& attached = attachments_.attached()[0];
  EXPECT_EQ(attached.column, column_.id());
  EXPECT_EQ(attached.pid, getpid());
  EXPECT_EQ(attached.name, "test_column");
  column_.words(3 * kBlocks)[kBlocks - 1] = 77;
  EXPECT_EQ(StdAtomics::Load(attachments_.columns()[0][kBlocks - 1],
                             std::memory_order_relaxed),
            77u);
  attachments_.CountMoved(0);
  EXPECT_EQ(attachments_.attached()[0].moved, 1u);
}

TEST_F(AttachmentsTest, RequestOfTheLibraryAttachesAndTheLeaseDetaches) {
  const TestAttach parts = NewAttach();
  ASSERT_THAT(
      SendAttach(attachments_.socket(), {.arena = kArena,
                                         .first_cell = 0,
                                         .cells = kBlocks,
                                         .column = column_.fd(),
                                         .process = parts.process->fd(),
                                         .lease = parts.owners_lease.get()}),
      IsOk());
  ReceiveAll();
  EXPECT_EQ(attachments_.attached().size(), 1u);
  EXPECT_EQ(attachments_.RemoveExited(), 0u);
  EXPECT_FALSE(IsReadable(parts.lease.get()));
  parts.End();
  EXPECT_EQ(attachments_.RemoveExited(), 1u);
  EXPECT_EQ(attachments_.attached().size(), 0u);
  EXPECT_EQ(attachments_.columns().size(), 0u);
  EXPECT_TRUE(IsReadable(parts.lease.get()));
}

// Also when it closes the lease, as exec() does; unread messages in it do not
// hide that.
TEST_F(AttachmentsTest, LeaseThatHangsUpDetaches) {
  for (const std::string text : {"", "unread"}) {
    TestAttach attach = NewAttach();
    ASSERT_TRUE(attach.Send(attachments_.socket()));
    ReceiveAll();
    ASSERT_EQ(send(attach.lease.get(), text.data(), text.size(), 0),
              static_cast<ssize_t>(text.size()));
    EXPECT_EQ(attachments_.RemoveExited(), 0u);
    attach.lease.Reset();
    EXPECT_EQ(attachments_.RemoveExited(), 1u);
  }
}

// So that columns do not accumulate while blocks can always be reclaimed.
TEST_F(AttachmentsTest, WhoAttachesHasTheEndedBuried) {
  const TestAttach first = NewAttach();
  ASSERT_TRUE(first.Send(attachments_.socket()));
  ReceiveAll();
  first.End();
  const TestAttach second = NewAttach();
  ASSERT_TRUE(second.Send(attachments_.socket()));
  ReceiveAll();
  EXPECT_EQ(attachments_.attached().size(), 1u);
}

TEST_F(AttachmentsTest, NobodyAttachesInTheNameOfAnother) {
  TENON_ASSERT_OK_AND_ASSIGN(auto child,
                             ForkedChild::Fork({}, [](const Reporter&) {
                               for (;;) pause();
                             }));
  TestAttach attach = NewAttach();
  attach.fds[AttachMessage::kProcess] = child.pid_fd().fd();
  ASSERT_TRUE(attach.Send(attachments_.socket()));
  attachments_.Receive();
  EXPECT_EQ(attachments_.attached().size(), 0u);
  EXPECT_EQ(attachments_.refused(), 1u);
  EXPECT_THAT(attachments_.last_refusal(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(absl::StrCat("pid ", getpid())),
                             HasSubstr(absl::StrCat("pid ", child.pid())))));
}

// Its claims cannot be seen: until it hangs up, or ends, blocks that were
// handed out before are withheld. It sees its lease shut, and attaches anew.
// The end of the process whose pidfd it sent does not count.
TEST_F(AttachmentsTest, OneThatWasRefusedIsWatchedUntilItEnds) {
  SharedWord<uint64_t> refused(0);
  attachments_.PublishRefused(&refused);
  for (const bool other_ends : {false, true}) {
    TENON_ASSERT_OK_AND_ASSIGN(auto child,
                               ForkedChild::Fork({}, [](const Reporter&) {
                                 for (;;) pause();
                               }));
    TestAttach attach = NewAttach();
    attach.fds[AttachMessage::kProcess] = child.pid_fd().fd();
    ASSERT_TRUE(attach.Send(attachments_.socket()));
    for (int i = 0; i < 3; ++i) {
      attachments_.Receive();
      EXPECT_TRUE(attachments_.IsEmpty());
      EXPECT_EQ(attachments_.RemoveExited(), 0u);
      EXPECT_THAT(attachments_.status(), IsOk());
      EXPECT_EQ(attachments_.newest_refusal(), attachments_.refused());
      EXPECT_THAT(
          attachments_.DescribeRefused(),
          HasSubstr(absl::StrCat("pid ", getpid(), " was refused (pid")));
    }
    EXPECT_TRUE(IsReadable(attach.lease.get()));
    EXPECT_EQ(StdAtomics::Load(refused, std::memory_order_relaxed),
              attachments_.refused());

    const TestAttach again = NewAttach();
    ASSERT_TRUE(again.Send(attachments_.socket()));
    attachments_.Receive();
    EXPECT_EQ(attachments_.attached().size(), 1u);
    EXPECT_NE(attachments_.newest_refusal(), 0u);
    if (other_ends) {
      child.Kill();
      EXPECT_EQ(attachments_.RemoveExited(), 0u);
      EXPECT_NE(attachments_.newest_refusal(), 0u);
    }
    attach.End();
    EXPECT_EQ(attachments_.RemoveExited(), 1u);
    EXPECT_EQ(attachments_.newest_refusal(), 0u);
    EXPECT_EQ(attachments_.DescribeRefused(), "");
    EXPECT_EQ(attachments_.attached().size(), 1u);
    again.End();
    EXPECT_EQ(attachments_.RemoveExited(), 1u);
  }
  EXPECT_EQ(attachments_.refused(), 2u);
}

// In the order of the refusals or against it.
TEST_F(AttachmentsTest, TheNewestRefusalIsThatOfOneThatHasNotEnded) {
  TENON_ASSERT_OK_AND_ASSIGN(auto child,
                             ForkedChild::Fork({}, [](const Reporter&) {
                               for (;;) pause();
                             }));
  std::deque<TestAttach> refused;
  const auto refuse = [&] {
    refused.emplace_back(kArena, kBlocks, &column_);
    refused.back().fds[AttachMessage::kProcess] = child.pid_fd().fd();
    ASSERT_TRUE(refused.back().Send(attachments_.socket()));
    attachments_.Receive();
  };
  refuse();
  ASSERT_TRUE(SendPacket(attachments_.socket(), "x", {}));  // Refusal 2.
  refuse();
  refuse();
  EXPECT_EQ(attachments_.newest_refusal(), 4u);
  EXPECT_THAT(attachments_.DescribeRefused(), HasSubstr("2 more attachments"));
  refused[1].End();
  EXPECT_EQ(attachments_.RemoveExited(), 1u);
  EXPECT_EQ(attachments_.newest_refusal(), 4u);
  refused[2].End();
  EXPECT_EQ(attachments_.RemoveExited(), 1u);
  EXPECT_EQ(attachments_.newest_refusal(), 1u);
  refused[0].End();
  EXPECT_EQ(attachments_.RemoveExited(), 1u);
  EXPECT_EQ(attachments_.newest_refusal(), 0u);
}

// An owner that has not received for long finds that most have ended.
TEST_F(AttachmentsTest, WhatHasEndedDoesNotCountAgainstTheLimit) {
  std::deque<TestAttach> leases;
  for (size_t i = 0; i < Attachments::kMaxOfOneProcess + 3; ++i) {
    leases.emplace_back(kArena, kBlocks, &column_);
    ASSERT_TRUE(leases.back().Send(attachments_.socket()));
    if (i >= 3) leases[i - 3].End();
  }
  ReceiveAll();
  EXPECT_EQ(attachments_.refused(), 0u);
  EXPECT_EQ(attachments_.attached().size() - attachments_.RemoveExited(), 3u);
}

// poll() takes no more descriptors at once than this.
TEST_F(AttachmentsTest, TheEndedAreSeenBelowALoweredLimitOfDescriptors) {
  std::deque<TestAttach> leases;
  while (leases.size() < 40) {
    leases.emplace_back(kArena, kBlocks, &column_);
    ASSERT_TRUE(leases.back().Send(attachments_.socket()));
  }
  ReceiveAll();
  leases.front().End();
  leases.back().End();
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  for (const rlim_t most : {7, 1}) {
    const rlimit few = {most, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    const size_t ended = attachments_.RemoveExited();
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(ended, most == 7 ? 2u : 1u);
    leases[1].End();
  }
}

// The owner lives in a pid namespace in which the process that attaches has no
// number. It sends that process the descriptor for attaching.
void ExpectOfTheOuterNamespace(
    bool hide_pid_fds, const std::function<void(Attachments& owner)>& check) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd owners_end(ends[0]), outer_end(ends[1]);
  TENON_ASSERT_OK_AND_ASSIGN(
      auto outer, ForkedChild::Fork({.name = "outer"}, [&](const Reporter&) {
        const ReceivedPacket packet = ReceivePacket(outer_end.get());
        const TestAttach attach(kArena, kBlocks);
        ASSERT_TRUE(attach.Send(packet.fds.at(0).get()));
        for (;;) pause();
      }));
  EXPECT_TRUE(PassesInPidNamespace(Proc::kOuter, [&] {
    if (hide_pid_fds) {
      ASSERT_TRUE(HidePidFdsOfSockets());
    }
    Attachments owner = Attachments::Create(kArena, kBlocks).value();
    ASSERT_TRUE(SendPacket(owners_end.get(), "x", {owner.socket()}));
    ASSERT_TRUE(Becomes([&] { return !owner.IsEmpty(); }));
    owner.Receive();
    check(owner);
  }));
}

TEST(AttachmentsNamespaceTest, ProcessOfTheOuterOneIsAttached) {
  if (!CanEnterOwnPidNamespace()) GTEST_SKIP() << kNoPidNamespace;
  if (!KernelSendsPidFds()) GTEST_SKIP() << "no SO_PASSPIDFD before Linux 6.5";
  ExpectOfTheOuterNamespace(false, [](Attachments& owner) {
    EXPECT_THAT(owner.status(), IsOk());
    EXPECT_THAT(owner.last_refusal(), IsOk());
    ASSERT_EQ(owner.attached().size(), 1u);
    EXPECT_EQ(owner.attached()[0].pid, 0);
    EXPECT_FALSE(owner.attached()[0].process.HasEnded());
  });
}

TEST(AttachmentsNamespaceTest, ProcessThatCannotBeIdentifiedIsRefused) {
  if (!CanEnterOwnPidNamespace()) GTEST_SKIP() << kNoPidNamespace;
  ExpectOfTheOuterNamespace(true, [](Attachments& owner) {
    EXPECT_THAT(owner.status(), IsOk());
    EXPECT_EQ(owner.newest_refusal(), 1u);
    EXPECT_THAT(owner.DescribeRefused(), HasSubstr("has neither detached"));
    EXPECT_EQ(owner.attached().size(), 0u);
    EXPECT_THAT(owner.last_refusal(),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         AllOf(HasSubstr("cannot be identified"),
                               HasSubstr("Linux 6.5"))));
  });
}

// A process may lose count: exec() forgets attachments, whose leases a child
// that it has forked keeps open.
TEST_F(AttachmentsTest, OneAboveTheLimitIsRefusedAndTheNextOneStays) {
  constexpr size_t kMost = Attachments::kMaxOfOneProcess;
  std::deque<TestAttach> leases;
  const auto attach = [&] {
    leases.emplace_back(kArena, kBlocks, &column_);
    ASSERT_TRUE(leases.back().Send(attachments_.socket()));
    attachments_.Receive();
  };
  while (leases.size() < kMost) attach();
  EXPECT_THAT(attachments_.status(), IsOk());
  EXPECT_TRUE(attachments_.IsEmpty());
  // It is refused, and finds its lease shut.
  attach();
  EXPECT_THAT(attachments_.status(), IsOk());
  EXPECT_THAT(attachments_.DescribeRefused(), HasSubstr("the limit is 64"));
  EXPECT_EQ(attachments_.newest_refusal(), 1u);
  EXPECT_TRUE(attachments_.IsEmpty());
  EXPECT_EQ(attachments_.attached().size(), kMost);
  EXPECT_EQ(attachments_.refused(), 1u);
  EXPECT_TRUE(IsReadable(leases[kMost].lease.get()));
  // The next one stays in the inbox.
  attach();
  EXPECT_FALSE(attachments_.IsEmpty());
  EXPECT_THAT(attachments_.status(),
              StatusIs(kResourceExhausted, HasSubstr("the limit is 64")));
  EXPECT_EQ(attachments_.refused(), 1u);
  EXPECT_FALSE(IsReadable(leases[kMost + 1].lease.get()));
  // It is attached once another one has ended.
  leases[0].End();
  attachments_.Receive();
  EXPECT_TRUE(attachments_.IsEmpty());
  EXPECT_THAT(attachments_.status(), IsOk());
  EXPECT_EQ(attachments_.attached().size(), kMost);
  EXPECT_EQ(attachments_.newest_refusal(), 1u);
  leases[kMost].End();
  EXPECT_EQ(attachments_.RemoveExited(), 1u);
  EXPECT_EQ(attachments_.newest_refusal(), 0u);
  EXPECT_EQ(attachments_.refused(), 1u);
}

TEST_F(AttachmentsTest, OtherVersionIsNamed) {
  TestAttach attach = NewAttach();
  attach.message.version = 77;
  ASSERT_TRUE(attach.Send(attachments_.socket()));
  ReceiveAll();
  EXPECT_THAT(
      attachments_.last_refusal().message(),
      AllOf(HasSubstr("version 77"),
            HasSubstr(absl::StrCat("version ", ColumnLayout::Version()))));
}

TEST_F(AttachmentsTest, LeasesEndWithTheOwner) {
  const TestAttach attach = NewAttach();
  {
    Attachments owner = Attachments::Create(kArena, kBlocks).value();
    ASSERT_TRUE(attach.Send(owner.socket()));
    owner.Receive();
    Attachments moved = std::move(owner);
    EXPECT_EQ(moved.columns().size(), 1u);
    EXPECT_FALSE(IsReadable(attach.lease.get()));
  }
  EXPECT_TRUE(IsReadable(attach.lease.get()));
}

// At once, in this thread.
TEST_F(AttachmentsTest, WhatIsUnreadInTheEndIsClosed) {
  const TestAttach attach = NewAttach();
  const size_t fds = CountOpenFds();
  {
    const Attachments owner = Attachments::Create(kArena, kBlocks).value();
    ASSERT_TRUE(attach.Send(owner.socket()));
    ASSERT_TRUE(SendPacket(owner.socket(), "", {}));
    ASSERT_TRUE(attach.Send(owner.socket()));
  }
  EXPECT_LE(CountOpenFds(), fds);
}

TEST_F(AttachmentsTest, ForkedChildEndsNoLease) {
  const TestAttach attach = NewAttach();
  ASSERT_TRUE(attach.Send(attachments_.socket()));
  attachments_.Receive();
  EXPECT_TRUE(PassesInChild(
      [&] { const Attachments inherited = std::move(attachments_); }));
  EXPECT_FALSE(IsReadable(attach.lease.get()));
}

TEST_F(AttachmentsTest, WhatIsReservedIsSoInAllColumns) {
  const size_t before = column_.BytesInUse();
  const TestColumn later;
  ASSERT_TRUE(NewAttach().Send(attachments_.socket()));
  attachments_.Receive();
  EXPECT_EQ(column_.BytesInUse(), before);
  // A page has 512 cells. Apart, touching, overlapping, inside, and again.
  ASSERT_THAT(attachments_.Reserve(512, 512), IsOk());
  ASSERT_THAT(attachments_.Reserve(4096, 512), IsOk());
  ASSERT_THAT(attachments_.Reserve(1024, 512), IsOk());
  ASSERT_THAT(attachments_.Reserve(0, 600), IsOk());
  ASSERT_THAT(attachments_.Reserve(700, 1), IsOk());
  ASSERT_THAT(attachments_.Reserve(4096, 512), IsOk());
  EXPECT_EQ(column_.BytesInUse(), before + 4 * 4096);
  ASSERT_TRUE(TestAttach(kArena, kBlocks, &later).Send(attachments_.socket()));
  attachments_.Receive();
  EXPECT_EQ(later.BytesInUse(), column_.BytesInUse());
}

TEST_F(AttachmentsTest, TheDeadAreBuried) {
  const size_t fds = CountOpenFds();
  const TestAttach of_the_living = NewAttach();
  const size_t with_lease = CountOpenFds();
  {
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild child, Attacher(attachments_, 1));
    ASSERT_TRUE(Becomes([&] {
      attachments_.Receive();
      return attachments_.attached().size() == 1;
    }));
    ASSERT_TRUE(of_the_living.Send(attachments_.socket()));
    attachments_.Receive();
    EXPECT_EQ(attachments_.RemoveExited(), 0u);
    ASSERT_EQ(attachments_.attached().size(), 2u);
    EXPECT_EQ(attachments_.attached()[0].pid, child.pid());
    child.Kill();
    EXPECT_EQ(attachments_.RemoveExited(), 1u);
    ASSERT_EQ(attachments_.attached().size(), 1u);
    EXPECT_EQ(attachments_.columns()[0], attachments_.attached()[0].cells());
    EXPECT_EQ(attachments_.attached()[0].pid, getpid());
    EXPECT_FALSE(IsReadable(of_the_living.lease.get()));
  }
  // The descriptors of the live process remain.
  EXPECT_EQ(CountOpenFds(), with_lease + AttachMessage::kFds);
  EXPECT_GT(with_lease, fds);
}

TEST_F(AttachmentsTest, EmptyPacketIsNoEndOfTheStream) {
  ASSERT_TRUE(SendPacket(attachments_.socket(), "", {}));
  ASSERT_TRUE(SendPacket(attachments_.socket(), "", {0}));
  ASSERT_TRUE(NewAttach().Send(attachments_.socket()));
  EXPECT_FALSE(attachments_.IsEmpty());
  attachments_.Receive();
  EXPECT_TRUE(attachments_.IsEmpty());
  EXPECT_EQ(attachments_.refused(), 2u);
  EXPECT_EQ(attachments_.attached().size(), 1u);
}

TEST_F(AttachmentsTest, AfterAShutDownWhatWasSentIsReceivedAndNothingElse) {
  for (const int how : {SHUT_RD, SHUT_WR, SHUT_RDWR}) {
    Attachments owner = Attachments::Create(kArena, kBlocks).value();
    const TestAttach attach = NewAttach();
    ASSERT_TRUE(attach.Send(owner.socket()));
    ASSERT_EQ(shutdown(owner.socket(), how), 0);
    EXPECT_FALSE(owner.IsEmpty());
    owner.Receive();
    EXPECT_THAT(owner.status(), IsOk());
    EXPECT_TRUE(owner.IsEmpty());
    EXPECT_EQ(owner.attached().size(), 1u);
    const absl::Status sent = SendAttach(owner.socket(), RequestOf(attach));
    if (how == SHUT_RD) {
      EXPECT_THAT(sent, IsOk());
    } else {
      EXPECT_THAT(sent, StatusIs(absl::StatusCode::kUnavailable));
    }
    // Ending needs no inbox.
    attach.End();
    EXPECT_GE(owner.RemoveExited(), 1u);
  }
}

TEST_F(AttachmentsTest, WithoutDescriptorsTheMessageStaysUntilThereAreSome) {
  const TestAttach attach = NewAttach();
  ASSERT_TRUE(attach.Send(attachments_.socket()));
  const size_t fds = CountOpenFds();
  for (const rlim_t room : {0, 1, 2}) {
    bool empty = true;
    {
      const FewFds few(room);
      attachments_.Receive();
      empty = attachments_.IsEmpty();
    }
    EXPECT_FALSE(empty);
    EXPECT_THAT(attachments_.status(),
                StatusIs(kResourceExhausted, HasSubstr("RLIMIT_NOFILE")));
    EXPECT_EQ(attachments_.attached().size(), 0u);
    EXPECT_EQ(attachments_.refused(), 0u);
    // One of another test may have been closed.
    EXPECT_LE(CountOpenFds(), fds);
  }
  attachments_.Receive();
  EXPECT_THAT(attachments_.status(), IsOk());
  EXPECT_EQ(attachments_.attached().size(), 1u);
}

// Two more are needed, for a moment, to identify the process.
TEST_F(AttachmentsTest, WithRoomForLittleMoreThanTheDescriptorsItIsAttached) {
  const TestAttach attach = NewAttach();
  ASSERT_TRUE(attach.Send(attachments_.socket()));
  ReceiveWith(3);
  EXPECT_THAT(attachments_.status(), StatusIs(kResourceExhausted));
  ReceiveWith(5);
  EXPECT_THAT(attachments_.status(), IsOk());
  EXPECT_EQ(attachments_.attached().size(), 1u);
}

TEST_F(AttachmentsTest, MessageWithoutColumnIsRefusedAlsoWithoutDescriptors) {
  TestAttach attach = NewAttach();
  attach.fds.clear();
  ASSERT_TRUE(attach.Send(attachments_.socket()));
  ReceiveWith(0);
  EXPECT_THAT(attachments_.status(), IsOk());
  EXPECT_EQ(attachments_.refused(), 1u);
}

// A message that cannot be received now stays, but not with a descriptor whose
// close() may wait, as that of a file of FUSE: each look at it would do so.
TEST_F(AttachmentsTest, AMessageWhoseDescriptorsMayNotCloseAtOnceDoesNotStay) {
  // Of neither is it known.
  const UniqueFd may_wait(epoll_create1(EPOLL_CLOEXEC));
  TestAttach attach = NewAttach();
  attach.fds.insert(attach.fds.begin(), may_wait.get());
  for (const rlim_t room : {1, 2, 3}) {
    const uint64_t refused = attachments_.refused();
    // A thread closes those of the round before, which makes room.
    ASSERT_TRUE(Becomes([] { return CountUnclosed() == 0; }));
    ASSERT_TRUE(attach.Send(attachments_.socket()));
    ReceiveWith(room);
    EXPECT_THAT(attachments_.status(), IsOk());
    EXPECT_TRUE(attachments_.IsEmpty());
    EXPECT_EQ(attachments_.refused(), refused + 1);
    EXPECT_THAT(
        attachments_.last_refusal(),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 HasSubstr("close() of one of its descriptors may block")));
  }
  ASSERT_TRUE(NewAttach().Send(attachments_.socket()));
  ReceiveAll();
  EXPECT_EQ(attachments_.attached().size(), 1u);
}

TEST_F(AttachmentsTest, FullInboxIsAnErrorUntilTheOwnerLooks) {
  const std::string junk(sizeof(AttachMessage), 'x');
  uint64_t sent = 0;
  while (SendPacket(attachments_.socket(), junk, {})) ++sent;
  ASSERT_GT(sent, 0u);
  const TestAttach attach = NewAttach();
  EXPECT_THAT(SendAttach(attachments_.socket(), RequestOf(attach)),
              StatusIs(kResourceExhausted, HasSubstr("full")));
  ReceiveAll();
  EXPECT_EQ(attachments_.refused(), sent);
  EXPECT_TRUE(NewAttach().Send(attachments_.socket()));
  ReceiveAll();
  EXPECT_EQ(attachments_.attached().size(), 1u);
}

TEST_F(AttachmentsTest, OneReceiveTakesABoundedNumber) {
  rlimit files;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  int buffer = 1 << 20;
  ASSERT_EQ(setsockopt(attachments_.socket(), SOL_SOCKET, SO_SNDBUF, &buffer,
                       sizeof(buffer)),
            0);
  int sent = 0;
  while (sent < 300 && SendPacket(attachments_.socket(), "x", {})) ++sent;
  if (sent < 300) GTEST_SKIP() << "the inbox holds only " << sent << " packets";
  attachments_.Receive();
  EXPECT_EQ(attachments_.refused(), 256u);
  EXPECT_FALSE(attachments_.IsEmpty());
}

TEST(AttachmentsLimitTest, AtMost1024AreAttached) {
  // The owner has three descriptors for each.
  rlimit files;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  const rlimit wanted = {files.rlim_max, files.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &wanted), 0);
  if (files.rlim_max < 4000) GTEST_SKIP() << "needs 4000 descriptors";
  constexpr size_t kEach = Attachments::kMaxOfOneProcess;
  Attachments owner = Attachments::Create(kArena, kBlocks).value();
  std::vector<ForkedChild> attachers;
  for (size_t count = kEach; count <= Attachments::kMaxAttached;
       count += kEach) {
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild child, Attacher(owner, kEach));
    attachers.push_back(std::move(child));
    ASSERT_TRUE(Becomes([&] {
      owner.Receive();
      EXPECT_THAT(owner.status(), IsOk());
      return owner.columns().size() == count;
    })) << count;
  }
  const TestColumn column;
  const TestAttach one_more(kArena, kBlocks, &column);
  ASSERT_TRUE(one_more.Send(owner.socket()));
  owner.Receive();
  EXPECT_THAT(owner.status(),
              StatusIs(kResourceExhausted, HasSubstr("1024 attachments")));
  EXPECT_FALSE(owner.IsEmpty());
  attachers[0].Kill();
  owner.Receive();
  EXPECT_THAT(owner.status(), IsOk());
  EXPECT_TRUE(owner.IsEmpty());
  EXPECT_EQ(owner.columns().size(), Attachments::kMaxAttached - kEach + 1);
  EXPECT_EQ(owner.attached().back().pid, getpid());
}

}  // namespace
}  // namespace tenon

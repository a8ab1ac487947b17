// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/ledger/attachments.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/atomics.h"
#include "tenon/shm/ledger/column_layout.h"
#include "tenon/shm/ledger/column_testing.h"
#include "tenon/shm/ledger/random_id.h"
#include "tenon/shm/process_testing.h"
#include "tenon/shm/status_matchers.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/unique_fd.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

constexpr auto kResourceExhausted = absl::StatusCode::kResourceExhausted;
constexpr uint64_t kBlocks = ColumnLayout::kCellsAlignment;
constexpr RandomId kArena = {1, 2};

bool IsReadable(int fd) {
  pollfd one = {fd, POLLIN, 0};
  return poll(&one, 1, 0) == 1;
}

// Calls `call` while this process may open only `room` more descriptors.
template <typename Call>
void WithDescriptors(rlim_t room, Call call) {
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = dup(0);
  ASSERT_EQ(close(next), 0);
  const rlimit less = {static_cast<rlim_t>(next) + room, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &less), 0);
  call();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
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

  const TestColumn column_;
  Attachments attachments_ = Attachments::Create(kArena, kBlocks).value();
};

TEST_F(AttachmentsTest, NobodyIsAttachedAtFirst) {
  EXPECT_TRUE(attachments_.IsEmpty());
  attachments_.Receive();
  EXPECT_THAT(attachments_.status(), IsOk());
  EXPECT_TRUE(attachments_.columns().empty());
  EXPECT_EQ(attachments_.BuryDead(), 0u);
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
  EXPECT_EQ(attached.id, attach.message.attachment);
  EXPECT_EQ(attached.column, column_.id());
  EXPECT_EQ(attached.pid, getpid());
  EXPECT_EQ(attached.name, "test_column");
  column_.words(3 * kBlocks)[kBlocks - 1] = 77;
  EXPECT_EQ(StdAtomics::Load(attachments_.columns()[0][kBlocks - 1],
                             std::memory_order_relaxed),
            77u);
  attachments_.NoteMoved(0);
  EXPECT_EQ(attachments_.attached()[0].moved, 1u);
}

TEST_F(AttachmentsTest, RequestsOfTheLibraryAttachAndDetach) {
  const TestAttach parts = NewAttach();
  const RandomId id = parts.message.attachment;
  ASSERT_THAT(
      SendAttach(attachments_.socket(), {.arena = kArena,
                                         .attachment = id,
                                         .first_cell = 0,
                                         .cells = kBlocks,
                                         .column = column_.fd(),
                                         .process = parts.process->fd(),
                                         .lease = parts.owners_lease.get()}),
      IsOk());
  ReceiveAll();
  EXPECT_EQ(attachments_.attached().size(), 1u);
  EXPECT_FALSE(IsReadable(parts.lease.get()));
  ASSERT_THAT(SendDetach(attachments_.socket(), kArena, {9, 9}), IsOk());
  ASSERT_THAT(SendDetach(attachments_.socket(), {9, 9}, id), IsOk());
  ReceiveAll();
  EXPECT_EQ(attachments_.attached().size(), 1u);
  ASSERT_THAT(SendDetach(attachments_.socket(), kArena, id), IsOk());
  ReceiveAll();
  EXPECT_EQ(attachments_.attached().size(), 0u);
  EXPECT_EQ(attachments_.columns().size(), 0u);
  EXPECT_TRUE(IsReadable(parts.lease.get()));
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
  {
    TENON_ASSERT_OK_AND_ASSIGN(auto child,
                               ForkedChild::Fork({}, [](const Reporter&) {
                                 for (;;) pause();
                               }));
    TestAttach of_the_dying = NewAttach();
    of_the_dying.fds[2] = child.pid_fd().fd();
    ASSERT_TRUE(of_the_dying.Send(attachments_.socket()));
    const TestAttach of_the_living = NewAttach();
    ASSERT_TRUE(of_the_living.Send(attachments_.socket()));
    attachments_.Receive();
    EXPECT_EQ(attachments_.BuryDead(), 0u);
    ASSERT_EQ(attachments_.attached().size(), 2u);
    EXPECT_EQ(attachments_.attached()[0].pid, child.pid());
    child.Kill();
    EXPECT_EQ(attachments_.BuryDead(), 1u);
    ASSERT_EQ(attachments_.attached().size(), 1u);
    EXPECT_EQ(attachments_.columns()[0], attachments_.attached()[0].cells());
    EXPECT_EQ(attachments_.attached()[0].id, of_the_living.message.attachment);
    EXPECT_FALSE(IsReadable(of_the_living.lease.get()));
  }
  // What is left are the descriptors of the one who lives.
  EXPECT_EQ(CountOpenFds(), fds + AttachMessage::kFds);
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
    const absl::Status detached =
        SendDetach(owner.socket(), kArena, attach.message.attachment);
    if (how == SHUT_RD) {
      EXPECT_THAT(detached, IsOk());
    } else {
      EXPECT_THAT(detached, StatusIs(absl::StatusCode::kUnavailable));
    }
  }
}

TEST_F(AttachmentsTest, WithoutDescriptorsTheMessageStaysUntilThereAreSome) {
  const TestAttach attach = NewAttach();
  ASSERT_TRUE(attach.Send(attachments_.socket()));
  const size_t fds = CountOpenFds();
  for (const rlim_t room : {0, 1, 2}) {
    bool empty = true;
    WithDescriptors(room, [&] {
      attachments_.Receive();
      empty = attachments_.IsEmpty();
    });
    EXPECT_FALSE(empty);
    EXPECT_THAT(attachments_.status(),
                StatusIs(kResourceExhausted, HasSubstr("RLIMIT_NOFILE")));
    EXPECT_EQ(attachments_.attached().size(), 0u);
    EXPECT_EQ(attachments_.refused(), 0u);
    EXPECT_EQ(CountOpenFds(), fds);
  }
  attachments_.Receive();
  EXPECT_THAT(attachments_.status(), IsOk());
  EXPECT_EQ(attachments_.attached().size(), 1u);
}

TEST_F(AttachmentsTest, WithRoomForTheDescriptorsAloneItIsAttached) {
  ASSERT_TRUE(NewAttach().Send(attachments_.socket()));
  WithDescriptors(3, [&] { attachments_.Receive(); });
  EXPECT_THAT(attachments_.status(), IsOk());
  EXPECT_EQ(attachments_.attached().size(), 1u);
}

TEST_F(AttachmentsTest, MessageWithoutColumnIsRefusedAlsoWithoutDescriptors) {
  TestAttach attach = NewAttach();
  attach.fds.clear();
  ASSERT_TRUE(attach.Send(attachments_.socket()));
  WithDescriptors(0, [&] { attachments_.Receive(); });
  EXPECT_THAT(attachments_.status(), IsOk());
  EXPECT_EQ(attachments_.refused(), 1u);
}

TEST_F(AttachmentsTest, FullInboxIsAnErrorUntilTheOwnerLooks) {
  const std::string junk(sizeof(AttachMessage), 'x');
  uint64_t sent = 0;
  while (SendPacket(attachments_.socket(), junk, {})) ++sent;
  ASSERT_GT(sent, 0u);
  EXPECT_THAT(SendDetach(attachments_.socket(), kArena, {1, 1}),
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

TEST(AttachmentsLimitTest, AtMost1024ProcessesAreAttached) {
  // Of these this test has two for each: its lease, and the owner's three.
  rlimit files;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  const rlimit wanted = {files.rlim_max, files.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &wanted), 0);
  if (files.rlim_max < 5000) GTEST_SKIP() << "needs 5000 descriptors";
  const TestColumn column;
  Attachments owner = Attachments::Create(kArena, kBlocks).value();
  std::vector<RandomId> ids;
  TENON_ASSERT_OK_AND_ASSIGN(auto child,
                             ForkedChild::Fork({}, [](const Reporter&) {
                               for (;;) pause();
                             }));
  for (size_t i = 0; i < Attachments::kMaxAttached; ++i) {
    TestAttach attach(kArena, kBlocks, &column);
    if (i == 0) attach.fds[2] = child.pid_fd().fd();
    ids.push_back(attach.message.attachment);
    ASSERT_TRUE(attach.Send(owner.socket()));
    owner.Receive();
    ASSERT_THAT(owner.status(), IsOk()) << i;
  }
  ASSERT_EQ(owner.columns().size(), Attachments::kMaxAttached);
  const TestAttach one_more(kArena, kBlocks, &column);
  ASSERT_TRUE(one_more.Send(owner.socket()));
  owner.Receive();
  EXPECT_THAT(owner.status(),
              StatusIs(kResourceExhausted, HasSubstr("1024 processes")));
  EXPECT_FALSE(owner.IsEmpty());
  child.Kill();
  owner.Receive();
  EXPECT_THAT(owner.status(), IsOk());
  EXPECT_TRUE(owner.IsEmpty());
  EXPECT_EQ(owner.columns().size(), Attachments::kMaxAttached);
  EXPECT_EQ(owner.attached().back().id, one_more.message.attachment);
}

}  // namespace
}  // namespace tenon

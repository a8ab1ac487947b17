// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The contract of doorbell.h for participants; doorbell_test.cc has processes.

#include <sys/eventfd.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/doorbell/doorbell.h"
#include "tenon/ipc/doorbell/doorbell_testing.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using testing::Not;

// Eventfds stand for pidfds: they become readable once, too.
class DoorbellParticipantTest : public DoorbellTesting {
 protected:
  UniqueFd Alive() { return UniqueFd(eventfd(0, EFD_NONBLOCK)); }
  void End(const UniqueFd& fd) { ASSERT_EQ(eventfd_write(fd.get(), 1), 0); }
  uint64_t DeadOne() {
    const uint64_t* const dead = bell_->FindDead().value();
    return dead == nullptr ? 0 : *dead;
  }
};

TEST_F(DoorbellParticipantTest, TheDeadParticipantIsNamed) {
  std::vector<UniqueFd> fds;
  for (uint64_t id = 1; id <= 5; ++id) {
    fds.push_back(Alive());
    EXPECT_THAT(bell_->AddParticipant(id, fds.back().get()), IsOk());
  }
  bell_->RemoveParticipant(2);
  bell_->RemoveParticipant(77);
  EXPECT_EQ(DeadOne(), 0u);
  End(fds[1]);
  EXPECT_EQ(DeadOne(), 0u);
  End(fds[3]);
  EXPECT_EQ(DeadOne(), 4u);
  EXPECT_EQ(Wait(Soon()).participant, 4u);
  bell_->RemoveParticipant(4);
  EXPECT_EQ(DeadOne(), 0u);
  End(fds[4]);
  EXPECT_EQ(Wait(Soon()).participant, 5u);
}

TEST_F(DoorbellParticipantTest, ADeathComesBeforeADeadlineThatHasPassed) {
  const UniqueFd fd = Alive();
  EXPECT_THAT(bell_->AddParticipant(3, fd.get()), IsOk());
  EXPECT_EQ(Wait(Deadline::Passed()).kind, WaitOutcome::kDeadline);
  End(fd);
  const WaitOutcome outcome = Wait(Deadline::Passed());
  EXPECT_EQ(outcome.kind, WaitOutcome::kDied);
  EXPECT_EQ(outcome.participant, 3u);
  Publish(ringer_);
  EXPECT_EQ(Wait(Deadline::Passed()).kind, WaitOutcome::kReady);
}

TEST_F(DoorbellParticipantTest, ADeathIsStickyUntilItIsCleared) {
  const UniqueFd fd = Alive();
  EXPECT_THAT(bell_->AddParticipant(3, fd.get()), IsOk());
  End(fd);
  EXPECT_EQ(DeadOne(), 3u);
  eventfd_t count;
  ASSERT_EQ(eventfd_read(fd.get(), &count), 0);
  EXPECT_EQ(DeadOne(), 3u);
  EXPECT_EQ(Wait(Soon()).kind, WaitOutcome::kDied);
  bell_->ClearDead(77);
  EXPECT_EQ(DeadOne(), 3u);
  bell_->ClearDead(3);
  EXPECT_EQ(DeadOne(), 0u);
  EXPECT_EQ(Wait(In(1)).kind, WaitOutcome::kDeadline);
}

TEST_F(DoorbellParticipantTest, PollFdHasThoseAddedBeforeAndAfterIt) {
  const UniqueFd before = Alive(), after = Alive();
  EXPECT_THAT(bell_->AddParticipant(1, before.get()), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const int fd, bell_->PollFd());
  EXPECT_THAT(bell_->AddParticipant(2, after.get()), IsOk());
  EXPECT_FALSE(IsReadable(fd));
  for (const auto& [id, end] : {std::pair(1, &before), std::pair(2, &after)}) {
    End(*end);
    EXPECT_TRUE(IsReadable(fd));
    bell_->RemoveParticipant(static_cast<uint64_t>(id));
    EXPECT_FALSE(IsReadable(fd));
  }
}

TEST_F(DoorbellParticipantTest, AParticipantThatCannotBeAddedIsNotWatched) {
  EXPECT_THAT(bell_->PollFd(), IsOk());
  const UniqueFd fd = Alive();
  EXPECT_THAT(bell_->AddParticipant(1, fd.get()), IsOk());
  EXPECT_THAT(bell_->AddParticipant(2, fd.get()), Not(IsOk()));
  EXPECT_THAT(bell_->AddParticipant(3, -1), Not(IsOk()));
  EXPECT_EQ(Wait(In(1)).kind, WaitOutcome::kDeadline);
  End(fd);
  EXPECT_EQ(Wait(Soon()).participant, 1u);
  bell_->RemoveParticipant(1);
  EXPECT_EQ(DeadOne(), 0u);
}

}  // namespace
}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Locks under names that programs choose.

#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/sync/barrier.h"
#include "tenon/ipc/sync/condition.h"
#include "tenon/ipc/sync/event.h"
#include "tenon/ipc/sync/mutex.h"
#include "tenon/ipc/sync/semaphore.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/segment/named_segments.h"
#include "tenon/shm/segment/open_or_create.h"
#include "tenon/shm/segment/segment_options.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class NamedLockTest : public testing::Test {
 protected:
  ~NamedLockTest() override {
    EXPECT_THAT(ListShmNames(name_), IsOkAndHolds(IsEmpty()));
  }
  SegmentOptions Named() const { return {.name_prefix = name_, .name = name_}; }
  absl::StatusOr<Mutex> CreateMutex() const {
    return Mutex::Create({.segment = Named()});
  }

  const std::string name_ = UniqueTestPrefix() + ".lock";
};

// Created, found by another process, refused a second time, and gone with its
// last holder.
template <typename Lock>
void ExpectMeetsByName(const std::string& name,
                       const std::function<absl::StatusOr<Lock>()>& create) {
  {
    TENON_ASSERT_OK_AND_ASSIGN(const Lock lock, create());
    EXPECT_EQ(lock.name(), name);
    EXPECT_THAT(ListShmNames(name), IsOkAndHolds(ElementsAre(name)));
    EXPECT_TRUE(PassesInChild([&] { EXPECT_THAT(Lock::Open(name), IsOk()); }));
    EXPECT_THAT(create(), StatusIs(absl::StatusCode::kAlreadyExists));
  }
  EXPECT_THAT(Lock::Open(name), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(ListShmNames(name), IsOkAndHolds(IsEmpty()));
}

TEST_F(NamedLockTest, AllKindsHaveThem) {
  ExpectMeetsByName<Mutex>(name_, [&] { return CreateMutex(); });
  ExpectMeetsByName<Semaphore>(name_,
                               [&] { return Semaphore::Create(1, Named()); });
  ExpectMeetsByName<BoundedSemaphore>(
      name_, [&] { return BoundedSemaphore::Create(1, Named()); });
  ExpectMeetsByName<Event>(name_, [&] { return Event::Create(Named()); });
  ExpectMeetsByName<Condition>(name_,
                               [&] { return Condition::Create(Named()); });
  ExpectMeetsByName<Barrier>(name_,
                             [&] { return Barrier::Create(2, Named()); });
}

TEST_F(NamedLockTest, TheKindIsChecked) {
  TENON_ASSERT_OK_AND_ASSIGN(const Mutex mutex, CreateMutex());
  EXPECT_THAT(Semaphore::Open(name_),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(NamedLockTest, OneOfManyProgramsCreatesIt) {
  constexpr int kProcesses = 6;
  constexpr int kRounds = 50;
  pid_t children[kProcesses];
  for (pid_t& child : children) {
    child = fork();
    if (child != 0) continue;
    const Deadline deadline = Deadline::After(absl::Seconds(60));
    for (int i = 0; i < kRounds; ++i) {
      // It comes and goes with its holders.
      const auto mutex = OpenOrCreate([&] { return Mutex::Open(name_); },
                                      [&] { return CreateMutex(); });
      if (!mutex.ok()) _exit(1);
      if (!mutex->Lock(deadline).ok()) _exit(2);
    }
    _exit(0);
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "exit " << WEXITSTATUS(status);
  }
}

TEST_F(NamedLockTest, AMutexOfADeadHolderIsNotFound) {
  const pid_t child = fork();
  if (child == 0) {
    const auto mutex = CreateMutex();
    if (!mutex.ok()) _exit(1);
    const auto guard = mutex->Lock(Deadline::After(absl::Seconds(10)));
    if (guard.ok()) raise(SIGKILL);
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  // The mutex of the dead is not found; a new one is free.
  TENON_ASSERT_OK_AND_ASSIGN(const Mutex mutex,
                             OpenOrCreate([&] { return Mutex::Open(name_); },
                                          [&] { return CreateMutex(); }));
  TENON_ASSERT_OK_AND_ASSIGN(const Mutex::Guard guard,
                             mutex.Lock(Deadline::Passed()));
  EXPECT_FALSE(guard.owner_died());
}

TEST_F(NamedLockTest, ItsNameCanBeRemovedWhileItIsHeld) {
  TENON_ASSERT_OK_AND_ASSIGN(const Mutex old, CreateMutex());
  ASSERT_THAT(RemoveSegmentName(name_), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const Mutex fresh, CreateMutex());
  TENON_ASSERT_OK_AND_ASSIGN(const auto guard, old.Lock(Deadline::Passed()));
  EXPECT_THAT(fresh.IsLocked(), IsOkAndHolds(false));
}

}  // namespace
}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/child/parent.h"

#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/fork_server/fork_server.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/testing/child_testing.h"

namespace tenon::spawn {
namespace {

class ParentTest : public ChildTest {};

absl::Status TellParent(Child& child) {
  const std::optional<Parent> parent = Parent::Get();
  if (!parent) return absl::InternalError("no parent");
  return Say(child, absl::StrCat(parent->pid(), " ", parent->IsAlive()));
}
TENON_SPAWN_ENTRY("tell-parent", TellParent);

TEST_F(ParentTest, IsKnownByTheChildWhateverItsStart) {
  EXPECT_FALSE(Parent::Get().has_value()) << "this is nobody's child";
  const std::string alive = absl::StrCat(getpid(), " ", true);
  EXPECT_THAT(AnswerOf({.entry = "tell-parent"}), IsOkAndHolds(alive));
#if !defined(__SANITIZE_THREAD__)
  for (const StartMethod method :
       {StartMethod::kFork, StartMethod::kForkServer}) {
    EXPECT_THAT(AnswerOf({.entry = "tell-parent", .method = method}),
                IsOkAndHolds(alive));
  }
  StopForkServer();
#endif
}

// Reports whether its parent lives, on each request.
absl::Status TellOfOrphan(Child& child) {
  TENON_ASSIGN_OR_RETURN(Channel test, TakeChannel(child));
  const std::optional<Parent> parent = Parent::Get();
  TENON_RETURN_IF_ERROR(
      test.Send(parent->IsAlive() ? "alive" : "dead", {}, Watchdog()));
  TENON_RETURN_IF_ERROR(parent->WaitForEnd(Watchdog()));
  TENON_RETURN_IF_ERROR(
      test.Send(parent->IsAlive() ? "alive" : "dead", {}, Watchdog()));
  // Without LSan, which stops this process at its exit: it waits for ever if a
  // supervisor continues all descendants of the parent at that moment.
  _exit(0);
}
TENON_SPAWN_ENTRY("tell-of-orphan", TellOfOrphan);

absl::Status StartOrphan(Child& child) {
  ProcessOptions options = {.entry = "tell-of-orphan",
                            .orphan_grace = absl::InfiniteDuration()};
  options.fds.push_back(child.TakeFd(0));
  TENON_ASSIGN_OR_RETURN(const Process one, Process::Start(std::move(options)));
  for (;;) pause();
}
TENON_SPAWN_ENTRY("start-orphan", StartOrphan);

TEST_F(ParentTest, OrphanSeesThatItsParentHasDied) {
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  TENON_ASSERT_OK_AND_ASSIGN(Talker parent,
                             StartTalker({.entry = "start-orphan"}));
  TENON_ASSERT_OK_AND_ASSIGN(Message said, parent.channel.Receive(Watchdog()));
  EXPECT_EQ(said.bytes, "alive");
  EXPECT_THAT(parent.process.Kill(), IsOk());
  parent.process.Join(Watchdog()).IgnoreError();
  TENON_ASSERT_OK_AND_ASSIGN(said, parent.channel.Receive(Watchdog()));
  EXPECT_EQ(said.bytes, "dead");
  EXPECT_TRUE(Becomes([] {
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    return !HasChildren();
  }));
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

}  // namespace
}  // namespace tenon::spawn

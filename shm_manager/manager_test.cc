// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The daemon's promises to its clients, with a daemon in a forked child.

#include "tenon/shm_manager/manager.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/listener/listener.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/segment_options.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/mount_namespace_testing.h"
#include "tenon/shm/testing/pid_namespace_testing.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm_manager/manager_client.h"
#include "tenon/shm_manager/manager_testing.h"
#include "tenon/shm_manager/name_reclaimer.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using absl::StatusCode::kAlreadyExists;
using absl::StatusCode::kFailedPrecondition;
using absl::StatusCode::kInvalidArgument;
using absl::StatusCode::kNotFound;
using absl::StatusCode::kPermissionDenied;
using absl::StatusCode::kResourceExhausted;
using absl::StatusCode::kUnavailable;

class ManagerTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!CanEnterOwnMountNamespace()) GTEST_SKIP() << kNoMountNamespace;
  }
};

TEST_F(ManagerTest, RemovesTheNamesOfAKilledClientAndNoOthers) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    TENON_ASSERT_OK_AND_ASSIGN(const Segment alive, CreateIn("alive"));
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild daemon, StartDaemon(folder.path()));
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild first,
                               StartClient(folder.path(), "first", 3));
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild second,
                               StartClient(folder.path(), "second", 2));
    ASSERT_TRUE(BecomesCount("first", 3) && BecomesCount("second", 2));
    first.Kill();
    EXPECT_TRUE(BecomesCount("first", 0));
    EXPECT_EQ(CountNames("second"), 2u);
    second.Kill();
    EXPECT_TRUE(BecomesCount("second", 0));
    EXPECT_EQ(CountNames("alive"), 1u);
  }));
}

TEST_F(ManagerTest, RemovesWhatWasLeftBeforeItStarted) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    EXPECT_FALSE(PassesInChild([] {
      TENON_ASSERT_OK_AND_ASSIGN(const Segment left, CreateIn("left"));
      raise(SIGKILL);
    }));
    ASSERT_EQ(CountNames("left"), 1u);
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild daemon, StartDaemon(folder.path()));
    EXPECT_TRUE(BecomesCount("left", 0));
  }));
}

// The child has the client's socket open, which then stays connected.
TEST_F(ManagerTest, NoticesADeathWhileAForkedChildLives) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild daemon, StartDaemon(folder.path()));
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const UniqueFd reader(ends[0]);
    UniqueFd writer(ends[1]);
    TENON_ASSERT_OK_AND_ASSIGN(
        ForkedChild client,
        ForkedChild::Fork({.name = "client"}, [&](const Reporter&) {
          TENON_ASSERT_OK_AND_ASSIGN(const auto attached,
                                     AttachTo(folder.path()));
          if (fork() == 0) {
            writer.Reset();
            char c;
            _exit(static_cast<int>(read(reader.get(), &c, 1)));
          }
          TENON_ASSERT_OK_AND_ASSIGN(const Segment segment, CreateIn("dead"));
          for (;;) pause();
        }));
    ASSERT_TRUE(BecomesCount("dead", 1));
    client.Kill();
    EXPECT_TRUE(BecomesCount("dead", 0));
  }));
}

TEST_F(ManagerTest, ServesClientsOfOtherPidNamespaces) {
  if (!CanEnterOwnPidNamespace()) GTEST_SKIP() << kNoPidNamespace;
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild daemon, StartDaemon(folder.path()));
    for (const Proc proc : {Proc::kOuter, Proc::kOwn}) {
      EXPECT_TRUE(PassesInPidNamespace(proc, [&] {
        TENON_ASSERT_OK_AND_ASSIGN(const auto attached,
                                   AttachTo(folder.path()));
        TENON_ASSERT_OK_AND_ASSIGN(Segment segment, CreateIn("dead"));
        new Segment(std::move(segment));  // Its name stays.
        EXPECT_EQ(CountNames("dead"), 1u);
        _exit(HasFailure() ? 1 : 0);  // Without detaching.
      }));
      EXPECT_TRUE(BecomesCount("dead", 0));
    }
  }));
}

TEST_F(ManagerTest, ServesThoughShmIsReadOnly) {
  EXPECT_TRUE(InOwnShm([] {
    ASSERT_TRUE(MountTmpfs("/dev/shm", "size=64k", MS_RDONLY));
    const ManagerFolder folder;
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild daemon, StartDaemon(folder.path()));
    TENON_ASSERT_OK_AND_ASSIGN(ManagerClient client, AttachTo(folder.path()));
    TENON_ASSERT_OK_AND_ASSIGN(const ManagerStats stats,
                               client.QueryStats(Soon()));
    EXPECT_EQ(stats.clients, 1u);
    EXPECT_THAT(CreateIn("new"), StatusIs(kPermissionDenied));
  }));
}

TEST_F(ManagerTest, AKeptNameOutlivesItsCreator) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild daemon, StartDaemon(folder.path()));
    TENON_ASSERT_OK_AND_ASSIGN(ManagerClient receiver, AttachTo(folder.path()));
    // Two messages with the name.
    EXPECT_FALSE(PassesInChild([&] {
      TENON_ASSERT_OK_AND_ASSIGN(auto sender, AttachTo(folder.path()));
      TENON_ASSERT_OK_AND_ASSIGN(const Segment segment, CreateIn("sent"));
      TENON_ASSERT_OK_AND_ASSIGN(const Segment other, CreateIn("unsent"));
      ASSERT_THAT(sender.KeepName(segment.name(), Soon()), IsOk());
      ASSERT_THAT(sender.KeepName(segment.name(), Soon()), IsOk());
      raise(SIGKILL);
    }));
    EXPECT_TRUE(BecomesCount("unsent", 0));
    TENON_ASSERT_OK_AND_ASSIGN(const auto names, ListShmNames("sent"));
    ASSERT_EQ(names.size(), 1u);
    const std::string name = names[0];
    EXPECT_THAT(receiver.ReleaseName(name, Soon()), IsOk());
    {
      TENON_ASSERT_OK_AND_ASSIGN(
          const Segment opened,
          Segment::Open(name, SegmentKind::kSharedWritable));
      TENON_ASSERT_OK_AND_ASSIGN(const ManagerStats stats,
                                 receiver.QueryStats(Soon()));
      EXPECT_EQ(stats.kept_names, 1u);
      EXPECT_THAT(receiver.ReleaseName(name, Soon()), IsOk());
      EXPECT_EQ(CountNames("sent"), 1u) << "the receiver holds it";
      EXPECT_THAT(receiver.ReleaseName(name, Soon()),
                  StatusIs(kNotFound, HasSubstr("is not kept")));
      // A sweep after the sender's death may remove a name without a holder.
      EXPECT_THAT(receiver.KeepName(name, Soon()), IsOk());
    }
    EXPECT_EQ(CountNames("sent"), 1u) << "the daemon holds it";
    EXPECT_THAT(receiver.ReleaseName(name, Soon()), IsOk());
    EXPECT_TRUE(BecomesCount("sent", 0));
    EXPECT_THAT(receiver.KeepName(name, Soon()), StatusIs(kNotFound));
  }));
}

// Its message was lost, and the group goes on.
TEST_F(ManagerTest, ANameThatIsNeverReleasedIsDroppedAfterItsSender) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    TENON_ASSERT_OK_AND_ASSIGN(
        ForkedChild daemon,
        StartDaemon(folder.path(), {.keep_after_death = absl::Seconds(2)}));
    TENON_ASSERT_OK_AND_ASSIGN(ManagerClient living, AttachTo(folder.path()));
    const auto keep_and_die = [&](const std::string& prefix) {
      EXPECT_FALSE(PassesInChild([&] {
        TENON_ASSERT_OK_AND_ASSIGN(auto sender, AttachTo(folder.path()));
        TENON_ASSERT_OK_AND_ASSIGN(const Segment segment, CreateIn(prefix));
        ASSERT_THAT(sender.KeepName(segment.name(), Soon()), IsOk());
        raise(SIGKILL);
      }));
    };
    keep_and_die("lost");
    keep_and_die("wanted");
    TENON_ASSERT_OK_AND_ASSIGN(const auto names, ListShmNames("wanted"));
    ASSERT_EQ(names.size(), 1u);
    // It counts for a living client from now on.
    EXPECT_THAT(living.KeepName(names[0], Soon()), IsOk());
    keep_and_die("lost-too");
    EXPECT_TRUE(BecomesCount("lost", 0));
    EXPECT_EQ(CountNames("wanted"), 1u);
    EXPECT_THAT(living.ReleaseName(names[0], Soon()), IsOk());
    EXPECT_EQ(CountNames("wanted"), 1u) << "the sender's has not been released";
    EXPECT_THAT(living.ReleaseName(names[0], Soon()), IsOk());
    EXPECT_TRUE(BecomesCount("wanted", 0));
    TENON_ASSERT_OK_AND_ASSIGN(const ManagerStats stats,
                               living.QueryStats(Soon()));
    EXPECT_EQ(stats.kept_names, 0u);
  }));
}

TEST_F(ManagerTest, EndsAfterItsLastClientAndReleasesWhatItKept) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    TENON_ASSERT_OK_AND_ASSIGN(
        ForkedChild daemon,
        StartDaemon(folder.path(), {.idle_exit = absl::Seconds(2)}));
    {
      TENON_ASSERT_OK_AND_ASSIGN(ManagerClient client, AttachTo(folder.path()));
      TENON_ASSERT_OK_AND_ASSIGN(Segment segment, CreateIn("kept"));
      EXPECT_THAT(client.KeepName(segment.name(), Soon()), IsOk());
      absl::SleepFor(absl::Milliseconds(2500));
      EXPECT_FALSE(daemon.pid_fd().HasEnded());
      // It leaves its name behind.
      EXPECT_THAT(segment.CloseFd(), IsOk());
      new Segment(std::move(segment));
    }
    EXPECT_TRUE(daemon.EndsWell());
    EXPECT_EQ(CountNames("kept"), 0u);
    struct stat file;
    EXPECT_NE(stat(folder.path().c_str(), &file), 0) << "the socket is left";
  }));
}

TEST_F(ManagerTest, QuotasAreAnswers) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    TENON_ASSERT_OK_AND_ASSIGN(
        ForkedChild daemon,
        StartDaemon(folder.path(), {.max_clients = 2,
                                    .max_kept_names = 3,
                                    .max_kept_names_per_client = 2}));
    TENON_ASSERT_OK_AND_ASSIGN(ManagerClient first, AttachTo(folder.path()));
    std::vector<Segment> segments;
    for (int i = 0; i < 4; ++i) {
      TENON_ASSERT_OK_AND_ASSIGN(Segment segment, CreateIn("quota"));
      segments.push_back(std::move(segment));
    }
    EXPECT_THAT(first.KeepName(segments[0].name(), Soon()), IsOk());
    EXPECT_THAT(first.KeepName(segments[1].name(), Soon()), IsOk());
    EXPECT_THAT(first.KeepName(segments[2].name(), Soon()),
                StatusIs(kResourceExhausted, HasSubstr("(limit 2)")));
    EXPECT_TRUE(PassesInChild([&] {
      TENON_ASSERT_OK_AND_ASSIGN(auto second, AttachTo(folder.path()));
      EXPECT_THAT(AttachTo(folder.path()),
                  StatusIs(kResourceExhausted, HasSubstr("2 clients")));
      EXPECT_THAT(second.KeepName(segments[2].name(), Soon()), IsOk());
      EXPECT_THAT(
          second.KeepName(segments[3].name(), Soon()),
          StatusIs(kResourceExhausted, HasSubstr("3 in all (limit 3)")));
      // What one client releases, the other may have asked for.
      EXPECT_THAT(second.ReleaseName(segments[0].name(), Soon()), IsOk());
      TENON_ASSERT_OK_AND_ASSIGN(const ManagerStats stats,
                                 second.QueryStats(Soon()));
      EXPECT_EQ(stats.clients, 2u);
      EXPECT_EQ(stats.kept_names, 2u);
      EXPECT_EQ(stats.attached, 2u);
      EXPECT_EQ(stats.refused, 1u);
    }));
    // A release may still be in progress.
    EXPECT_TRUE(Becomes(
        [&] { return first.KeepName(segments[3].name(), Soon()).ok(); }));
    EXPECT_TRUE(Becomes([&] { return AttachTo(folder.path()).ok(); }));
    EXPECT_TRUE(PassesInChild([&] {
      absl::StatusOr<ManagerClient> third = absl::UnknownError("not yet");
      ASSERT_TRUE(Becomes([&] {
        third = AttachTo(folder.path());
        return third.ok();
      }));
      EXPECT_THAT(
          third->KeepName(segments[0].name(), Soon()),
          StatusIs(kResourceExhausted,
                   AllOf(HasSubstr("3 in all (limit 3), of these 1 of "
                                   "processes that have ended or detached, for "
                                   "10m from then on (--keep_after_death)"),
                         HasSubstr("lower --keep_after_death"))));
    }));
    EXPECT_TRUE(Becomes([&] { return AttachTo(folder.path()).ok(); }));
    // The quota is that of the process, whichever client of it asks.
    { const ManagerClient detached = std::move(first); }
    TENON_ASSERT_OK_AND_ASSIGN(first, AttachTo(folder.path()));
    EXPECT_THAT(first.ReleaseName(segments[2].name(), Soon()), IsOk());
    EXPECT_THAT(first.KeepName(segments[0].name(), Soon()),
                StatusIs(kResourceExhausted, HasSubstr("(limit 2)")));
  }));
}

TEST_F(ManagerTest, TheConnectionsOfAProcessHaveAQuota) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    TENON_ASSERT_OK_AND_ASSIGN(
        ForkedChild daemon,
        StartDaemon(folder.path(), {.max_clients_per_process = 2}));
    TENON_ASSERT_OK_AND_ASSIGN(const auto first, AttachTo(folder.path()));
    {
      TENON_ASSERT_OK_AND_ASSIGN(const auto second, AttachTo(folder.path()));
      EXPECT_THAT(AttachTo(folder.path()),
                  StatusIs(kResourceExhausted,
                           HasSubstr("2 connections of this process")));
      EXPECT_TRUE(
          PassesInChild([&] { EXPECT_THAT(AttachTo(folder.path()), IsOk()); }));
    }
    EXPECT_TRUE(Becomes([&] { return AttachTo(folder.path()).ok(); }));
  }));
}

TEST_F(ManagerTest, AConnectionThatDoesNotAttachIsDropped) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    TENON_ASSERT_OK_AND_ASSIGN(
        ForkedChild daemon,
        StartDaemon(folder.path(),
                    {.handshake_patience = absl::Milliseconds(500)}));
    TENON_ASSERT_OK_AND_ASSIGN(ManagerClient client, AttachTo(folder.path()));
    TENON_ASSERT_OK_AND_ASSIGN(Channel silent, Connect(folder.path(), Soon()));
    EXPECT_THAT(silent.Receive(Soon()), StatusIs(kUnavailable));
    EXPECT_THAT(client.QueryStats(Soon()), IsOk());
  }));
}

// To hold it would only keep its memory.
TEST_F(ManagerTest, AKeptNameThatItsCreatorRemovesIsDropped) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild daemon, StartDaemon(folder.path()));
    TENON_ASSERT_OK_AND_ASSIGN(ManagerClient client, AttachTo(folder.path()));
    {
      TENON_ASSERT_OK_AND_ASSIGN(const Segment segment, CreateIn("removed"));
      EXPECT_THAT(client.KeepName(segment.name(), Soon()), IsOk());
    }
    EXPECT_TRUE(Becomes([&] {
      const auto stats = client.QueryStats(Soon());
      return stats.ok() && stats->kept_names == 0;
    }));
  }));
}

// A large process frees memory for seconds between the end of its socket and
// that of its locks.
TEST_F(ManagerTest, NoticesADeathLongAfterTheHangUp) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild daemon, StartDaemon(folder.path()));
    TENON_ASSERT_OK_AND_ASSIGN(ManagerClient other, AttachTo(folder.path()));
    TENON_ASSERT_OK_AND_ASSIGN(
        ForkedChild client,
        ForkedChild::Fork({.name = "client"}, [&](const Reporter&) {
          TENON_ASSERT_OK_AND_ASSIGN(const auto attached,
                                     AttachTo(folder.path()));
          TENON_ASSERT_OK_AND_ASSIGN(const Segment segment, CreateIn("large"));
          shutdown(attached.fd(), SHUT_RDWR);
          for (;;) pause();
        }));
    // At the beginning and three times after the hang-up.
    EXPECT_TRUE(Becomes([&] {
      const auto stats = other.QueryStats(Soon());
      return stats.ok() && stats->clients == 1 && stats->sweeps == 4;
    }));
    EXPECT_EQ(CountNames("large"), 1u);
    client.Kill();
    EXPECT_TRUE(BecomesCount("large", 0));
  }));
}

TEST_F(ManagerTest, ADestroyedClientDetachesThoughAForkedChildLives) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild daemon, StartDaemon(folder.path()));
    TENON_ASSERT_OK_AND_ASSIGN(ManagerClient client, AttachTo(folder.path()));
    TENON_ASSERT_OK_AND_ASSIGN(auto destroyed, AttachTo(folder.path()));
    TENON_ASSERT_OK_AND_ASSIGN(
        ForkedChild child,
        ForkedChild::Fork({.name = "child"}, [&](const Reporter&) {
          // In a child that does nothing to the parent's attachment.
          { const ManagerClient copy = std::move(client); }
          for (;;) pause();
        }));
    { const ManagerClient gone = std::move(destroyed); }
    EXPECT_TRUE(Becomes([&] {
      const auto stats = client.QueryStats(Soon());
      return stats.ok() && stats->clients == 1;
    }));
  }));
}

// As freeing much memory does, here the log delays the thread that removes.
TEST_F(ManagerTest, ServesWhileItRemovesNames) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const UniqueFd reader(ends[0]);
    UniqueFd writer(ends[1]);
    TENON_ASSERT_OK_AND_ASSIGN(
        ForkedChild daemon,
        StartDaemon(folder.path(), {.log = [&](LogKind, const std::string&) {
                      writer.Reset();
                      char c;
                      while (read(reader.get(), &c, 1) > 0) continue;
                    }}));
    TENON_ASSERT_OK_AND_ASSIGN(ManagerClient other, AttachTo(folder.path()));
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild client,
                               StartClient(folder.path(), "dead", 1));
    ASSERT_TRUE(BecomesCount("dead", 1));
    client.Kill();
    ASSERT_TRUE(BecomesCount("dead", 0));
    EXPECT_THAT(other.QueryStats(Soon()), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(const Segment segment, CreateIn("served"));
    EXPECT_THAT(other.KeepName(segment.name(), Soon()), IsOk());
    EXPECT_THAT(other.ReleaseName(segment.name(), Soon()), IsOk());
  }));
}

TEST_F(ManagerTest, WithoutIdleTimeItServesItsFirstClient) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    TENON_ASSERT_OK_AND_ASSIGN(
        ForkedChild daemon,
        StartDaemon(folder.path(), {.idle_exit = absl::ZeroDuration()}));
    EXPECT_THAT(AttachTo(folder.path()), IsOk());
    EXPECT_TRUE(daemon.EndsWell());
  }));
}

TEST_F(ManagerTest, TheBytesOfKeptNamesHaveAQuota) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    TENON_ASSERT_OK_AND_ASSIGN(
        ForkedChild daemon,
        StartDaemon(folder.path(), {.max_kept_bytes = 8192 + 8191}));
    TENON_ASSERT_OK_AND_ASSIGN(ManagerClient client, AttachTo(folder.path()));
    TENON_ASSERT_OK_AND_ASSIGN(const Segment first, CreateIn("bytes"));
    TENON_ASSERT_OK_AND_ASSIGN(const Segment second, CreateIn("bytes"));
    EXPECT_THAT(client.KeepName(first.name(), Soon()), IsOk());
    EXPECT_THAT(client.KeepName(second.name(), Soon()),
                StatusIs(kResourceExhausted, HasSubstr("limit of 16383")));
    EXPECT_THAT(client.ReleaseName(first.name(), Soon()), IsOk());
    EXPECT_THAT(client.KeepName(second.name(), Soon()), IsOk());
  }));
}

TEST_F(ManagerTest, KeepsRandomNamesOnly) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild daemon, StartDaemon(folder.path()));
    TENON_ASSERT_OK_AND_ASSIGN(ManagerClient client, AttachTo(folder.path()));
    TENON_ASSERT_OK_AND_ASSIGN(
        const Segment chosen,
        Segment::CreateSharedWritable(4096,
                                      {.strategy = SharingStrategy::kFileSystem,
                                       .name = "camera.frames"}));
    EXPECT_THAT(
        client.KeepName(chosen.name(), Soon()),
        StatusIs(kInvalidArgument, HasSubstr("lives with its holders")));
    EXPECT_THAT(client.KeepName("../etc/passwd", Soon()),
                StatusIs(kInvalidArgument));
    EXPECT_THAT(client.KeepName("no-0123456789abcdef0123456789abcdef", Soon()),
                StatusIs(kNotFound));
    EXPECT_GE(client.fd(), 0) << "it is still attached";
    EXPECT_TRUE(PassesInChild([&] {
      EXPECT_THAT(client.QueryStats(Soon()), StatusIs(kFailedPrecondition));
    }));
  }));
}

TEST_F(ManagerTest, AKilledDaemonCostsNothing) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild daemon, StartDaemon(folder.path()));
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild other,
                               StartClient(folder.path(), "other", 2));
    ASSERT_TRUE(BecomesCount("other", 2));
    TENON_ASSERT_OK_AND_ASSIGN(ManagerClient client, AttachTo(folder.path()));
    TENON_ASSERT_OK_AND_ASSIGN(const Segment segment, CreateIn("mine"));
    daemon.Kill();
    pollfd fd = {.fd = client.fd(), .events = POLLIN, .revents = 0};
    EXPECT_THAT(PollUntil({&fd, 1}, Soon()), IsOkAndHolds(1));
    EXPECT_THAT(client.QueryStats(Soon()), StatusIs(kUnavailable));
    EXPECT_EQ(client.fd(), -1);
    EXPECT_THAT(client.QueryStats(Soon()),
                StatusIs(kUnavailable, HasSubstr("call Attach() again")));
    EXPECT_THAT(ManagerClient::Attach({.path = folder.path()}, Soon()),
                StatusIs(kUnavailable, HasSubstr("no daemon listens at")));
    other.Kill();
    EXPECT_EQ(CountNames("other"), 2u);
    TENON_ASSERT_OK_AND_ASSIGN(daemon, StartDaemon(folder.path()));
    EXPECT_THAT(AttachTo(folder.path()), IsOk());
    EXPECT_TRUE(BecomesCount("other", 0));
    EXPECT_EQ(CountNames("mine"), 1u);
  }));
}

TEST_F(ManagerTest, ThereIsOneInAPlaceOfThisUserAlone) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    TENON_ASSERT_OK_AND_ASSIGN(const auto manager,
                               Manager::Create(folder.path(), {}));
    EXPECT_TRUE(PassesInChild(
        [&] { EXPECT_THAT(manager->Run(-1), StatusIs(kFailedPrecondition)); }));
    EXPECT_THAT(Manager::Create(folder.path(), {}), StatusIs(kAlreadyExists));
    EXPECT_THAT(Manager::Create(folder.path(), {.max_clients = 0}),
                StatusIs(kInvalidArgument));
    EXPECT_THAT(
        Manager::Create(folder.path(), {.keep_after_death = -absl::Seconds(1)}),
        StatusIs(kInvalidArgument, HasSubstr("keep_after_death")));
    ASSERT_EQ(setenv("XDG_RUNTIME_DIR", folder.folder().c_str(), 1), 0);
    EXPECT_THAT(ManagerPath("a/b"), StatusIs(kInvalidArgument));
    EXPECT_THAT(ManagerPath(std::string(100, 'g')),
                StatusIs(kInvalidArgument, HasSubstr("shorter group")));
    TENON_ASSERT_OK_AND_ASSIGN(const std::string path, ManagerPath("train"));
    EXPECT_EQ(path, folder.folder() + "/tenon/shm_manager-train");
    EXPECT_NE(access((folder.folder() + "/tenon").c_str(), F_OK), 0)
        << "a question has made a folder";
    EXPECT_THAT(MakeManagerFolder(path), IsOk());
    {
      EXPECT_THAT(Manager::Create(path, {}), IsOk());
      const std::string tenon = folder.folder() + "/tenon";
      ASSERT_EQ(chmod(tenon.c_str(), 0755), 0);
      EXPECT_THAT(Manager::Create(path, {}),
                  StatusIs(kPermissionDenied, HasSubstr("chmod 0700")));
      EXPECT_EQ(rmdir(tenon.c_str()), 0);
    }
    // As after `su`, and after the end of a login.
    if (geteuid() == 0 && chown(folder.folder().c_str(), 12345, -1) == 0) {
      TENON_ASSERT_OK_AND_ASSIGN(const auto other, ManagerPath("train"));
      EXPECT_NE(other, path);
      EXPECT_EQ(chown(folder.folder().c_str(), 0, -1), 0);
    }
    ASSERT_EQ(setenv("XDG_RUNTIME_DIR", "/nonexistent", 1), 0);
    TENON_ASSERT_OK_AND_ASSIGN(const auto fallback, ManagerPath("train"));
    EXPECT_THAT(fallback, Not(HasSubstr("nonexistent")));
  }));
}

}  // namespace
}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Processes of the same user that send noise, flood, stay silent, or never
// read: the daemon serves the others.

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/listener/listener.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/message.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/testing/few_fds.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/mount_namespace_testing.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm_manager/manager.h"
#include "tenon/shm_manager/manager_client.h"
#include "tenon/shm_manager/manager_message.h"
#include "tenon/shm_manager/manager_testing.h"
#include "tenon/shm_manager/name_reclaimer.h"
#include "tenon/shm_manager/torch_testing.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

class ManagerHostileTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!CanEnterOwnMountNamespace()) GTEST_SKIP() << kNoMountNamespace;
  }
};

std::string Request(ManagerRequestKind kind, uint32_t version = 1) {
  return EncodeManagerRequest({.kind = kind, .version = version});
}

// Connects as a client would, and sends this. Whether the daemon has closed the
// connection, after any number of replies.
bool IsDroppedAfter(const std::string& path, absl::string_view bytes,
                    absl::Span<const int> fds = {}) {
  auto channel = Connect(path, Soon());
  EXPECT_THAT(channel, IsOk());
  if (!channel.ok()) return false;
  EXPECT_THAT(channel->Send(bytes, fds, Soon()), IsOk());
  for (;;) {
    const auto reply = channel->Receive(Soon());
    if (!reply.ok()) return absl::IsUnavailable(reply.status());
  }
}

TEST_F(ManagerHostileTest, MalformedMessagesEndTheirConnectionsOnly) {
  constexpr int kRounds = 250;
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild daemon, StartDaemon(folder.path()));
    TENON_ASSERT_OK_AND_ASSIGN(ManagerClient honest, AttachTo(folder.path()));
    TENON_ASSERT_OK_AND_ASSIGN(const Segment segment, CreateIn("honest"));
    const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
    const int fd = null.get();
    const std::string attach = Request(ManagerRequestKind::kAttach);
    const std::vector<std::string> malformed = {
        "",
        "noise",
        std::string(2000, 'n'),
        std::string(100'000, 'n'),  // In a segment.
        attach + "more",
        Request(static_cast<ManagerRequestKind>(77)),
        EncodeManagerRequest(
            {.kind = ManagerRequestKind::kKeepName, .name = "a/b"})};
    const Census before = TakeCensus({.pid = daemon.pid()});
    for (int i = 0; i < kRounds; ++i) {
      for (const std::string& bytes : malformed) {
        ASSERT_TRUE(IsDroppedAfter(folder.path(), bytes));
      }
      ASSERT_TRUE(IsDroppedAfter(folder.path(), attach, {&fd, 1}));
      // Well-formed, and refused with a reply.
      ASSERT_TRUE(IsDroppedAfter(folder.path(),
                                 Request(ManagerRequestKind::kQueryStats)));
      ASSERT_TRUE(IsDroppedAfter(folder.path(),
                                 Request(ManagerRequestKind::kAttach, 2)));
      ASSERT_THAT(honest.KeepName(segment.name(), Soon()), IsOk());
      ASSERT_THAT(honest.ReleaseName(segment.name(), Soon()), IsOk());
    }
    // A thread may be closing the last descriptors.
    std::string difference;
    EXPECT_TRUE(Becomes([&] {
      difference = Difference(before, TakeCensus({.pid = daemon.pid()}));
      return difference.empty();
    })) << difference;
    TENON_ASSERT_OK_AND_ASSIGN(const ManagerStats stats,
                               honest.QueryStats(Soon()));
    EXPECT_EQ(stats.malformed, kRounds * (malformed.size() + 1));
    EXPECT_EQ(stats.clients, 1u);
    EXPECT_EQ(stats.attached, 1u);
    EXPECT_EQ(stats.sweeps, 1u) << "they make it examine names";
  }));
}

TEST_F(ManagerHostileTest, AnotherVersionIsRefusedWithBothVersions) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild daemon, StartDaemon(folder.path()));
    EXPECT_THAT(AttachTo(folder.path()), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(Channel channel, Connect(folder.path(), Soon()));
    EXPECT_THAT(
        channel.Send(Request(ManagerRequestKind::kAttach, 9), {}, Soon()),
        IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(const Message message, channel.Receive(Soon()));
    TENON_ASSERT_OK_AND_ASSIGN(const ManagerReply reply,
                               ParseManagerReply(message.bytes));
    EXPECT_THAT(reply.status, StatusIs(absl::StatusCode::kFailedPrecondition,
                                       HasSubstr("the client version 9")));
  }));
}

TEST_F(ManagerHostileTest, AClientThatDoesNotReadIsDropped) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild daemon, StartDaemon(folder.path()));
    TENON_ASSERT_OK_AND_ASSIGN(ManagerClient honest, AttachTo(folder.path()));
    TENON_ASSERT_OK_AND_ASSIGN(Channel silent, Connect(folder.path(), Soon()));
    const std::string attach = Request(ManagerRequestKind::kAttach);
    absl::Status sent;
    for (int i = 0; i < 100'000 && sent.ok(); ++i) {
      sent = silent.Send(attach, {}, Soon());
    }
    EXPECT_THAT(sent, StatusIs(absl::StatusCode::kUnavailable));
    EXPECT_THAT(honest.QueryStats(Soon()), IsOk());
  }));
}

// It waits neither in the kernel's queue nor for its deadline.
TEST_F(ManagerHostileTest, AtTheLimitOfDescriptorsAClientIsToldSo) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    TENON_ASSERT_OK_AND_ASSIGN(
        ForkedChild daemon,
        ForkedChild::Fork({.name = "daemon"}, [&](const Reporter&) {
          MakeDaemonOnce(folder.path());
          TENON_ASSERT_OK_AND_ASSIGN(const auto manager,
                                     Manager::Create(folder.path(), {}));
          const FewFds few(9);
          manager->Run(-1).IgnoreError();
        }));
    EXPECT_THAT(AttachTo(folder.path()), IsOk());
    std::vector<ManagerClient> clients;
    absl::Status refused;
    while (refused.ok() && clients.size() < 9) {
      auto client = ManagerClient::Attach({.path = folder.path()}, Soon());
      refused = client.status();
      if (client.ok()) clients.push_back(*std::move(client));
    }
    EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted,
                                  HasSubstr("refused by the peer")));
    ASSERT_GE(clients.size(), 2u);
    EXPECT_THAT(clients[0].QueryStats(Soon()), IsOk());
    clients.pop_back();
    clients.pop_back();
    EXPECT_TRUE(Becomes([&] {
      return ManagerClient::Attach({.path = folder.path()}, Soon()).ok();
    }));
  }));
}

TEST_F(ManagerHostileTest, AtTheLimitOfDescriptorsAReleasedNameGoesLater) {
  EXPECT_TRUE(InOwnShm([] {
    TENON_ASSERT_OK_AND_ASSIGN(
        ForkedChild creator,
        ForkedChild::Fork({.name = "creator"}, [&](const Reporter&) {
          TENON_ASSERT_OK_AND_ASSIGN(const Segment made, CreateIn("kept"));
          for (;;) pause();
        }));
    std::atomic<int> problems = 0;
    TENON_ASSERT_OK_AND_ASSIGN(
        const auto reclaimer,
        NameReclaimer::Start([&](LogKind kind, const std::string&) {
          if (kind == LogKind::kProblem) ++problems;
        }));
    ASSERT_TRUE(Becomes([&] { return reclaimer->counts().sweeps == 1; }));
    // Its descriptor must not make room when it is closed.
    UniqueFd below(open("/dev/null", O_RDONLY | O_CLOEXEC));
    absl::StatusOr<Segment> segment = absl::UnknownError("not tried");
    ASSERT_TRUE(Becomes([&] {
      const auto names = ListShmNames("kept");
      if (!names.ok() || names->empty()) return false;
      segment = Segment::Open(names->front(), SegmentKind::kSharedWritable);
      return segment.ok();
    }));
    creator.Kill();
    below.Reset();
    {
      const FewFds few;
      reclaimer->Release(*std::move(segment));
      EXPECT_TRUE(Becomes([&] { return problems > 0; }));
    }
    EXPECT_TRUE(BecomesCount("kept", 0));
  }));
}

// A sweep that is due waits neither for all releases nor for all names of
// torch, of which clients may cause one after the other.
TEST_F(ManagerHostileTest, AFloodOfReleasesPutsOffNoSweep) {
  static constexpr size_t kReleases = 20;
  EXPECT_TRUE(InOwnShm([] {
    TENON_ASSERT_OK_AND_ASSIGN(
        ForkedChild creator,
        ForkedChild::Fork({.name = "creator"}, [&](const Reporter&) {
          // A name ends in hexadecimal digits, which may be "dead".
          TENON_ASSERT_OK_AND_ASSIGN(const Segment gone, CreateIn("gone"));
          std::vector<Segment> made;
          for (size_t i = 0; i < kReleases; ++i) {
            TENON_ASSERT_OK_AND_ASSIGN(Segment segment, CreateIn("kept"));
            made.push_back(std::move(segment));
          }
          TENON_ASSERT_OK_AND_ASSIGN(const Segment last, CreateIn("last"));
          for (;;) pause();
        }));
    std::atomic<size_t> released = 0;
    std::atomic<size_t> released_before_sweep = 0;
    TENON_ASSERT_OK_AND_ASSIGN(
        const auto reclaimer,
        NameReclaimer::Start([&](LogKind, const std::string& line) {
          if (absl::StrContains(line, "gone")) {
            released_before_sweep = released.load();
          } else if (!absl::StrContains(line, "last")) {
            ++released;
            absl::SleepFor(absl::Milliseconds(20));
          }
        }));
    ASSERT_TRUE(BecomesCount("last", 1));
    ASSERT_TRUE(Becomes([&] { return reclaimer->counts().sweeps == 1; }));
    TENON_ASSERT_OK_AND_ASSIGN(const auto names, ListShmNames("kept"));
    ASSERT_EQ(names.size(), kReleases);
    std::vector<Segment> kept;
    for (const std::string& name : names) {
      TENON_ASSERT_OK_AND_ASSIGN(
          Segment segment, Segment::Open(name, SegmentKind::kSharedWritable));
      kept.push_back(std::move(segment));
    }
    creator.Kill();
    for (Segment& segment : kept) reclaimer->Release(std::move(segment));
    for (size_t i = 0; i < kReleases; ++i) {
      const std::string name = absl::StrCat("torch_1_", i);
      ASSERT_TRUE(MakeTorchFile(name, 1));
      reclaimer->RemoveTorchName(name);
    }
    reclaimer->Schedule();
    EXPECT_TRUE(BecomesCount("gone", 0));
    EXPECT_TRUE(Becomes([&] { return released == 2 * kReleases; }));
    EXPECT_LT(released_before_sweep, kReleases);
  }));
}

// More than the kernel's queue of a listening socket has entries.
TEST_F(ManagerHostileTest, SilentConnectionsKeepNoClientOut) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild daemon, StartDaemon(folder.path()));
    EXPECT_THAT(AttachTo(folder.path()), IsOk());
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    const std::string path = folder.path();
    ASSERT_LT(path.size(), sizeof(address.sun_path));
    std::memcpy(address.sun_path, path.data(), path.size());
    std::vector<UniqueFd> silent;
    for (int i = 0; i < 300; ++i) {
      UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
      ASSERT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address),
                        sizeof(address)),
                0);
      silent.push_back(std::move(fd));
    }
    TENON_ASSERT_OK_AND_ASSIGN(auto client, AttachTo(folder.path()));
    EXPECT_THAT(client.QueryStats(Soon()), IsOk());
  }));
}

}  // namespace
}  // namespace tenon

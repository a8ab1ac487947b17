// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The daemon's listener for torch, by processes that speak its protocol: names
// are removed with their holders and not before, and no client ends or stalls
// the daemon. With torch itself: torch_test.cc.

#include "tenon/shm_manager/torch_listener.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/segment_options.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/few_fds.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/mount_namespace_testing.h"
#include "tenon/shm/testing/pid_namespace_testing.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm_manager/manager.h"
#include "tenon/shm_manager/manager_client.h"
#include "tenon/shm_manager/manager_testing.h"
#include "tenon/shm_manager/name_reclaimer.h"
#include "tenon/shm_manager/torch_message.h"
#include "tenon/shm_manager/torch_storage.h"
#include "tenon/shm_manager/torch_testing.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr char kName[] = "torch_1_22_333";

std::string NameOf(int i) { return absl::StrCat("torch_7_", i); }

std::string Message(const std::string& name, pid_t pid = getpid()) {
  return EncodeTorchMessage({.pid = pid, .name = name});
}

class TorchListenerTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!CanEnterOwnMountNamespace()) GTEST_SKIP() << kNoMountNamespace;
  }
};

// A process that registers a name, makes its file, and waits to be killed.
absl::StatusOr<ForkedChild> StartHolder(const ManagerFolder& folder,
                                        const std::string& name,
                                        int32_t references) {
  auto holder = ForkedChild::Fork(
      {.name = "holder", .watchdog = absl::Seconds(100)}, [&](const Reporter&) {
        const TorchConnection torch = ConnectAsTorch(folder);
        EXPECT_EQ(torch.Register(name), "OK");
        if (references > 0) {
          EXPECT_TRUE(MakeTorchFile(name, references));
        }
        EXPECT_TRUE(MakeTorchFile(absl::StrCat("made_", getpid()), 0));
        for (;;) pause();
      });
  if (holder.ok()) {
    const std::string made = absl::StrCat("made_", holder->pid());
    EXPECT_TRUE(Becomes([&] { return TorchFileExists(made); }));
    EXPECT_EQ(shm_unlink(absl::StrCat("/", made).c_str()), 0);
  }
  return holder;
}

bool IsRemoved(const std::string& name) {
  return Becomes([&] { return !TorchFileExists(name); });
}

// Long enough for the daemon to have removed a name.
bool Stays(const std::string& name) {
  absl::SleepFor(absl::Milliseconds(200));
  return TorchFileExists(name);
}

TEST_F(TorchListenerTest, ANameGoesWithItsLastHolder) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    const TorchSocketGuard guard(folder);
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild daemon,
                               StartDaemon(folder.path(), WithTorch(folder)));
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild one, StartHolder(folder, kName, 2));
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild two, StartHolder(folder, kName, 0));
    ASSERT_TRUE(MakeTorchFile("torch_5_5", 1));  // Not registered.
    one.Kill();
    EXPECT_TRUE(Stays(kName));
    two.Kill();
    EXPECT_TRUE(IsRemoved(kName));
    EXPECT_TRUE(TorchFileExists("torch_5_5"));
  }));
}

// As messages of torch do, whose sender ends before they are received.
TEST_F(TorchListenerTest, ANameInFlightOutlivesItsSenderForAWhile) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    const TorchSocketGuard guard(folder);
    TENON_ASSERT_OK_AND_ASSIGN(
        ForkedChild daemon,
        StartDaemon(folder.path(),
                    WithTorch(folder, {.keep_after_death = absl::Seconds(2)})));
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild one, StartHolder(folder, kName, 2));
    one.Kill();
    EXPECT_TRUE(Stays(kName));
    {
      // Received: +1 for the mapping, -1 for the message.
      const TorchConnection receiver = ConnectAsTorch(folder);
      EXPECT_EQ(receiver.Register(kName), "OK");
      absl::SleepFor(absl::Seconds(3));
      EXPECT_TRUE(TorchFileExists(kName));
      receiver.Deregister(kName);
    }
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild lost,
                               StartHolder(folder, NameOf(1), 2));
    lost.Kill();
    EXPECT_TRUE(Stays(NameOf(1)));
    EXPECT_TRUE(IsRemoved(NameOf(1)));
    // It is in flight on behalf of this process, which lives.
    EXPECT_TRUE(TorchFileExists(kName));
  }));
}

// A process that registered it with a daemon that was killed since holds it.
TEST_F(TorchListenerTest, ANameOfALivingCreatorOutlivesAnUnknownHolder) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    const TorchSocketGuard guard(folder);
    TENON_ASSERT_OK_AND_ASSIGN(
        ForkedChild daemon,
        StartDaemon(folder.path(),
                    WithTorch(folder, {.keep_after_death = absl::Seconds(1)})));
    EXPECT_TRUE(ConnectAsTorch(folder).valid());
    pid_t dead = 0;
    {
      TENON_ASSERT_OK_AND_ASSIGN(ForkedChild creator,
                                 StartHolder(folder, NameOf(1), 0));
      dead = creator.pid();
    }
    const std::string kept = absl::StrCat("torch_", getpid(), "_1");
    const std::string lost = absl::StrCat("torch_", dead, "_1");
    for (const std::string& name : {kept, lost}) {
      ASSERT_TRUE(MakeTorchFile(name, 2));
      TENON_ASSERT_OK_AND_ASSIGN(ForkedChild receiver,
                                 StartHolder(folder, name, 0));
      receiver.Kill();
      EXPECT_TRUE(TorchFileExists(name));
    }
    EXPECT_TRUE(IsRemoved(lost));
    absl::SleepFor(absl::Milliseconds(1500));
    EXPECT_TRUE(TorchFileExists(kept));
  }));
}

// More than the daemon reads from one connection before it serves others.
TEST_F(TorchListenerTest, TheLastMessagesOfADeadProcessCount) {
  constexpr int kNames = 60;
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    const TorchSocketGuard guard(folder);
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild daemon,
                               StartDaemon(folder.path(), WithTorch(folder)));
    EXPECT_TRUE(PassesInChild([&] {
      const TorchConnection torch = ConnectAsTorch(folder);
      for (int i = 0; i < kNames; ++i) {
        EXPECT_EQ(torch.Register(NameOf(i)), "OK");
        // Its own reference is dropped; one in flight is left.
        EXPECT_TRUE(MakeTorchFile(NameOf(i), 1));
      }
      EXPECT_EQ(kill(daemon.pid(), SIGSTOP), 0);
      for (int i = 0; i < kNames; ++i) torch.Deregister(NameOf(i));
    }));
    EXPECT_EQ(kill(daemon.pid(), SIGCONT), 0);
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild one, StartHolder(folder, kName, 1));
    one.Kill();
    EXPECT_TRUE(IsRemoved(kName));
    for (int i = 0; i < kNames; ++i) {
      EXPECT_TRUE(TorchFileExists(NameOf(i))) << i;
    }
  }));
}

TEST_F(TorchListenerTest, AForkedChildThatSharesTheConnectionIsAHolderItself) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    const TorchSocketGuard guard(folder);
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild daemon,
                               StartDaemon(folder.path(), WithTorch(folder)));
    const TorchConnection torch = ConnectAsTorch(folder);
    EXPECT_EQ(torch.Register(kName), "OK");
    EXPECT_TRUE(MakeTorchFile(kName, 1));
    EXPECT_TRUE(PassesInChild([&] {
      EXPECT_EQ(torch.Register(NameOf(1)), "OK");
      EXPECT_TRUE(MakeTorchFile(NameOf(1), 1));
      torch.Deregister(kName);  // Of the parent, which keeps it.
      EXPECT_EQ(torch.Register(NameOf(2)), "OK");
    }));
    EXPECT_TRUE(IsRemoved(NameOf(1)));
    EXPECT_TRUE(Stays(kName));
    EXPECT_EQ(torch.Register(NameOf(3)), "OK");
  }));
}

// By a process of the parent's name: it may not speak for another one.
TEST_F(TorchListenerTest, ThePidOfAMessageIsThatOfItsSender) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    const TorchSocketGuard guard(folder);
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild daemon,
                               StartDaemon(folder.path(), WithTorch(folder)));
    const TorchConnection honest = ConnectAsTorch(folder);
    EXPECT_EQ(honest.Register(kName), "OK");
    EXPECT_TRUE(MakeTorchFile(kName, 1));
    const pid_t victim = getpid();
    EXPECT_TRUE(PassesInChild([&] {
      for (const bool is_free : {false, true}) {
        const TorchConnection torch = ConnectAsTorch(folder);
        EXPECT_TRUE(torch.Send(EncodeTorchMessage(
            {.pid = victim, .is_free = is_free, .name = kName})));
        EXPECT_TRUE(torch.IsDropped());
      }
    }));
    EXPECT_TRUE(Stays(kName));
    EXPECT_EQ(honest.Register(NameOf(1)), "OK");
  }));
}

// It is pid 1 there, by its own word.
TEST_F(TorchListenerTest, AProcessOfAnotherPidNamespaceIsRefused) {
  if (!CanEnterOwnPidNamespace()) GTEST_SKIP() << kNoPidNamespace;
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    const TorchSocketGuard guard(folder);
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild daemon,
                               StartDaemon(folder.path(), WithTorch(folder)));
    EXPECT_EQ(ConnectAsTorch(folder).Register(kName), "OK");
    EXPECT_TRUE(PassesInPidNamespace(Proc::kOuter, [&] {
      const TorchConnection torch = ConnectAsTorch(folder);
      EXPECT_EQ(torch.Register(kName), "");
    }));
  }));
}

// Whose name a process of the user registers, and then dies.
TEST_F(TorchListenerTest, NeverRemovesWhatIsNotTorchs) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    const TorchSocketGuard guard(folder);
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild daemon,
                               StartDaemon(folder.path(), WithTorch(folder)));
    TENON_ASSERT_OK_AND_ASSIGN(ManagerClient client, AttachTo(folder.path()));
    TENON_ASSERT_OK_AND_ASSIGN(const Segment random, CreateIn("random"));
    TENON_ASSERT_OK_AND_ASSIGN(
        const Segment chosen,
        Segment::CreateSharedWritable(
            4096,
            {.strategy = SharingStrategy::kFileSystem, .name = "chosen"}));
    ASSERT_TRUE(MakeTorchFile("foreign", 0));
    ASSERT_EQ(mkdir("/dev/shm/torch_2_1", 0700), 0);
    ASSERT_EQ(symlink("/dev/shm/foreign", "/dev/shm/torch_2_2"), 0);
    ASSERT_TRUE(MakeTorchFile("torch_2_3", 0));
    ASSERT_EQ(chmod("/dev/shm/torch_2_3", 0644), 0);
    EXPECT_TRUE(PassesInChild([&] {
      const TorchConnection torch = ConnectAsTorch(folder);
      EXPECT_EQ(torch.Register("foreign"), "NO");
      EXPECT_EQ(torch.Register("chosen"), "NO");
      EXPECT_EQ(torch.Register("torch_2_1"), "NO");
      EXPECT_EQ(torch.Register("torch_2_2"), "NO");
      EXPECT_EQ(torch.Register("torch_2_3"), "OK");
      EXPECT_EQ(torch.Register(random.name()), "OK");
      torch.Deregister(random.name());
      torch.Deregister("chosen");
      EXPECT_EQ(torch.Register(NameOf(1)), "OK");
      EXPECT_TRUE(MakeTorchFile(NameOf(1), 1));
    }));
    EXPECT_TRUE(IsRemoved(NameOf(1)));
    for (const std::string name :
         {std::string("foreign"), std::string("chosen"),
          std::string("torch_2_1"), std::string("torch_2_2"),
          std::string("torch_2_3"), random.name()}) {
      EXPECT_TRUE(Stays(name)) << name;
    }
    TENON_ASSERT_OK_AND_ASSIGN(const ManagerStats stats,
                               client.QueryStats(Soon()));
    EXPECT_EQ(stats.refused, 4u);
    EXPECT_EQ(stats.removed_names, 1u);
    EXPECT_EQ(stats.removed_bytes, 4096u);
    EXPECT_EQ(stats.malformed, 0u);
    rmdir("/dev/shm/torch_2_1");
  }));
}

// A process that maps the file without being registered drops its reference
// when the name is gone already; torch ends then if that was the last one.
TEST_F(TorchListenerTest, RaisesTheCountOfAFileBeforeItRemovesTheName) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    const TorchSocketGuard guard(folder);
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild daemon,
                               StartDaemon(folder.path(), WithTorch(folder)));
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild one, StartHolder(folder, kName, 1));
    const UniqueFd file(shm_open(absl::StrCat("/", kName).c_str(), O_RDWR, 0));
    one.Kill();
    EXPECT_TRUE(IsRemoved(kName));
    int32_t references = 0;
    EXPECT_EQ(pread(file.get(), &references, sizeof(references), 0),
              static_cast<ssize_t>(sizeof(references)));
    EXPECT_GT(references, 1 << 20);
  }));
}

TEST_F(TorchListenerTest, TheDaemonStaysAsLongAsTorchIsThere) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    TENON_ASSERT_OK_AND_ASSIGN(
        ForkedChild daemon,
        StartDaemon(folder.path(),
                    WithTorch(folder, {.idle_exit = absl::Seconds(2)})));
    {
      const TorchConnection torch = ConnectAsTorch(folder);
      EXPECT_EQ(torch.Register(kName), "OK");
      absl::SleepFor(absl::Milliseconds(2500));
      EXPECT_EQ(torch.Register(kName), "OK");
      for (int i = 0; i < 2; ++i) torch.Deregister(kName);
    }
    EXPECT_TRUE(daemon.EndsWell());
    EXPECT_FALSE(TorchFileExists(kName));
    EXPECT_NE(access(TorchPath(folder).c_str(), F_OK), 0);
  }));
}

TEST_F(TorchListenerTest, OneDaemonOnly) {
  const ManagerFolder folder;
  const auto first = Manager::Create(folder.path(), WithTorch(folder));
  EXPECT_THAT(first, IsOk());
  EXPECT_THAT(
      Manager::Create(absl::StrCat(folder.folder(), "/2"), WithTorch(folder)),
      StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("/torch")));
}

TEST_F(TorchListenerTest, MalformedMessagesEndTheirConnectionsOnly) {
  constexpr int kRounds = 100;
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    const TorchSocketGuard guard(folder);
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild daemon,
                               StartDaemon(folder.path(), WithTorch(folder)));
    TENON_ASSERT_OK_AND_ASSIGN(ManagerClient client, AttachTo(folder.path()));
    const TorchConnection honest = ConnectAsTorch(folder);
    EXPECT_EQ(honest.Register(kName), "OK");
    std::string unterminated = Message(std::string(58, 'n'));
    unterminated[64] = 'n';
    std::string flag = Message(kName);
    flag[4] = 7;
    const std::vector<std::string> malformed = {
        std::string(kTorchMessageBytes, '\0'),
        std::string(kTorchMessageBytes, '\xff'),
        std::string(100'000, 'n'),
        unterminated,
        flag,
        Message("a/../b"),
        Message("../etc/passwd"),
        Message(""),
        Message(".hidden"),
        Message(kName, getpid() + 1),
        Message(kName, 1),
        Message(kName, -1)};
    const Census before = TakeCensus({.pid = daemon.pid()});
    for (int i = 0; i < kRounds; ++i) {
      for (const std::string& bytes : malformed) {
        const TorchConnection torch(TorchPath(folder));
        ASSERT_TRUE(torch.valid());
        torch.Send(bytes);  // It may hang up before it has read all.
        ASSERT_TRUE(torch.IsDropped());
      }
      // Cut, and then closed.
      const TorchConnection cut(TorchPath(folder));
      ASSERT_TRUE(cut.Send(Message(kName).substr(0, 67)));
      ASSERT_EQ(shutdown(cut.fd(), SHUT_WR), 0);
      ASSERT_TRUE(cut.IsDropped());
      // With a descriptor.
      const TorchConnection with_fd(TorchPath(folder));
      std::string bytes = Message(kName);
      alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
      iovec part = {.iov_base = bytes.data(), .iov_len = bytes.size()};
      msghdr message = {};
      message.msg_iov = &part;
      message.msg_iovlen = 1;
      message.msg_control = control;
      message.msg_controllen = sizeof(control);
      cmsghdr* const header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(sizeof(int));
      const int fd = STDERR_FILENO;
      std::memcpy(CMSG_DATA(header), &fd, sizeof(fd));
      ASSERT_EQ(sendmsg(with_fd.fd(), &message, MSG_NOSIGNAL),
                static_cast<ssize_t>(bytes.size()));
      ASSERT_TRUE(with_fd.IsDropped());
      ASSERT_EQ(honest.Register(kName), "OK");
      honest.Deregister(kName);
    }
    std::string difference;
    EXPECT_TRUE(Becomes([&] {
      difference = Difference(before, TakeCensus({.pid = daemon.pid()}));
      return difference.empty();
    })) << difference;
    TENON_ASSERT_OK_AND_ASSIGN(const ManagerStats stats,
                               client.QueryStats(Soon()));
    EXPECT_EQ(stats.malformed, kRounds * (malformed.size() + 2));
    EXPECT_EQ(stats.clients, 2u);
    EXPECT_EQ(stats.attached, 2u);
  }));
}

TEST_F(TorchListenerTest, PiecesOfAMessageAreOne) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    const TorchSocketGuard guard(folder);
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild daemon,
                               StartDaemon(folder.path(), WithTorch(folder)));
    const TorchConnection torch = ConnectAsTorch(folder);
    const std::string two = Message(NameOf(1)) + Message(NameOf(2));
    for (size_t i = 0; i < two.size(); i += 17) {
      EXPECT_TRUE(torch.Send(two.substr(i, 17)));
      absl::SleepFor(absl::Milliseconds(1));
    }
    EXPECT_EQ(torch.Answer(), "OK");
    EXPECT_EQ(torch.Answer(), "OK");
    // But not of two processes.
    const TorchConnection shared = ConnectAsTorch(folder);
    EXPECT_TRUE(shared.Send(Message(NameOf(1)).substr(0, 30)));
    EXPECT_TRUE(PassesInChild(
        [&] { EXPECT_TRUE(shared.Send(Message(NameOf(1)).substr(30))); }));
    EXPECT_TRUE(shared.IsDropped());
  }));
}

TEST_F(TorchListenerTest, SilentAndEndlessOnesAreDropped) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    const TorchSocketGuard guard(folder);
    TENON_ASSERT_OK_AND_ASSIGN(
        ForkedChild daemon,
        StartDaemon(folder.path(), WithTorch(folder, {.handshake_patience =
                                                          absl::Seconds(1)})));
    const TorchConnection silent = ConnectAsTorch(folder);
    const TorchConnection slow = ConnectAsTorch(folder);
    EXPECT_TRUE(slow.Send("x"));
    const TorchConnection later = ConnectAsTorch(folder);
    EXPECT_EQ(later.Register(kName), "OK");
    EXPECT_TRUE(silent.IsDropped());
    EXPECT_TRUE(slow.IsDropped());
    absl::SleepFor(absl::Milliseconds(1500));
    EXPECT_EQ(later.Register(kName), "OK");
    EXPECT_TRUE(later.Send("x"));
    EXPECT_TRUE(later.IsDropped());
  }));
}

TEST_F(TorchListenerTest, OneThatDoesNotReadIsDropped) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    const TorchSocketGuard guard(folder);
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild daemon,
                               StartDaemon(folder.path(), WithTorch(folder)));
    const TorchConnection honest = ConnectAsTorch(folder);
    const TorchConnection flood = ConnectAsTorch(folder);
    int sent = 0;
    while (sent < 100'000 && flood.Send(Message(kName))) ++sent;
    EXPECT_LT(sent, 100'000);
    EXPECT_EQ(honest.Register(kName), "OK");
  }));
}

TEST_F(TorchListenerTest, SilentConnectionsKeepNoClientOut) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    const TorchSocketGuard guard(folder);
    TENON_ASSERT_OK_AND_ASSIGN(
        ForkedChild daemon,
        StartDaemon(folder.path(),
                    WithTorch(folder, {.max_clients_per_process = 1000})));
    std::vector<TorchConnection> silent;
    for (int i = 0; i < 300; ++i) silent.push_back(ConnectAsTorch(folder));
    EXPECT_EQ(ConnectAsTorch(folder).Register(kName), "OK");
    EXPECT_TRUE(silent.front().IsDropped());
  }));
}

TEST_F(TorchListenerTest, QuotasOfConnectionsAndNames) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    const TorchSocketGuard guard(folder);
    TENON_ASSERT_OK_AND_ASSIGN(
        ForkedChild daemon,
        StartDaemon(folder.path(),
                    WithTorch(folder, {.max_clients = 6,
                                       .max_clients_per_process = 4,
                                       .max_torch_names = 5,
                                       .max_torch_names_per_process = 3})));
    std::vector<TorchConnection> torch;
    for (int i = 0; i < 4; ++i) {
      torch.push_back(ConnectAsTorch(folder));
      EXPECT_EQ(torch.back().Register(kName), "OK");
    }
    EXPECT_TRUE(ConnectAsTorch(folder).IsDropped());
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(torch[0].Register(NameOf(i)), "OK");
    }
    EXPECT_EQ(torch[1].Register(NameOf(2)), "NO");
    torch[2].Deregister(NameOf(0));  // There is no such file.
    EXPECT_EQ(torch[2].Register(NameOf(2)), "OK");
    EXPECT_TRUE(PassesInChild([&] {
      const TorchConnection other = ConnectAsTorch(folder);
      EXPECT_EQ(other.Register(NameOf(3)), "OK");
      EXPECT_EQ(other.Register(NameOf(4)), "OK");
      EXPECT_EQ(other.Register(NameOf(5)), "NO");
      EXPECT_EQ(other.Register(kName), "OK");
      const TorchConnection second = ConnectAsTorch(folder);
      EXPECT_EQ(second.Register(kName), "OK");
      EXPECT_TRUE(ConnectAsTorch(folder).IsDropped());
    }));
  }));
}

TEST_F(TorchListenerTest, AtTheLimitOfDescriptorsAConnectionFailsAtOnce) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    const TorchSocketGuard guard(folder);
    TENON_ASSERT_OK_AND_ASSIGN(
        ForkedChild daemon,
        ForkedChild::Fork({.name = "daemon"}, [&](const Reporter&) {
          MakeDaemonOnce(folder.path(), WithTorch(folder));
          TENON_ASSERT_OK_AND_ASSIGN(
              const auto manager,
              Manager::Create(folder.path(), WithTorch(folder)));
          const FewFds few(9);
          manager->Run(-1).IgnoreError();
        }));
    std::vector<TorchConnection> torch;
    std::string answer = "OK";
    while (answer == "OK" && torch.size() < 12) {
      torch.push_back(ConnectAsTorch(folder));
      answer = torch.back().Register(kName);
    }
    EXPECT_EQ(answer, "");
    ASSERT_GE(torch.size(), 3u);
    EXPECT_EQ(torch[0].Register(kName), "OK");
    torch.erase(torch.begin() + 1, torch.end());
    EXPECT_TRUE(Becomes(
        [&] { return ConnectAsTorch(folder).Register(kName) == "OK"; }));
  }));
}

// Processes that connect, and are not scheduled again before others have.
TEST_F(TorchListenerTest, ManyMayConnectAtOnce) {
  constexpr size_t kClients = 100;
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    TENON_ASSERT_OK_AND_ASSIGN(const auto reclaimer,
                               NameReclaimer::Start(nullptr));
    TENON_ASSERT_OK_AND_ASSIGN(
        const auto listener,
        TorchListener::Create(TorchPath(folder),
                              {.max_clients = kClients,
                               .max_clients_per_process = kClients,
                               .max_names = 1,
                               .max_names_per_process = 1,
                               .handshake_patience = absl::Seconds(20)}));
    std::vector<TorchConnection> torch;
    for (size_t i = 0; i < kClients; ++i) {
      torch.emplace_back(TorchPath(folder));
      ASSERT_TRUE(torch.back().valid());
    }
    for (int i = 0; i < 4; ++i) listener->Serve(reclaimer.get());
    for (const TorchConnection& client : torch) {
      EXPECT_TRUE(client.Send(Message(kName)));
    }
    ASSERT_TRUE(Becomes([&] {
      listener->Serve(reclaimer.get());
      return listener->counts().attached == kClients;
    }));
    for (const TorchConnection& client : torch) {
      EXPECT_EQ(client.Answer(), "OK");
    }
  }));
}

// Each of them has a pidfd in the daemon.
TEST_F(TorchListenerTest, ProcessesThatShareAConnectionAreCounted) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    const TorchSocketGuard guard(folder);
    TENON_ASSERT_OK_AND_ASSIGN(
        ForkedChild daemon,
        StartDaemon(folder.path(), WithTorch(folder, {.max_clients = 3})));
    const TorchConnection torch = ConnectAsTorch(folder);
    EXPECT_EQ(torch.Register(kName), "OK");
    {
      std::vector<ForkedChild> children;
      for (int i = 0; i < 3; ++i) {
        TENON_ASSERT_OK_AND_ASSIGN(
            ForkedChild child,
            ForkedChild::Fork({.name = "child"}, [&](const Reporter&) {
              const std::string answer = torch.Register(NameOf(i));
              EXPECT_TRUE(MakeTorchFile(absl::StrCat(answer, i), 0));
              for (;;) pause();
            }));
        children.push_back(std::move(child));
        const std::string answer = absl::StrCat(i < 2 ? "OK" : "NO", i);
        EXPECT_TRUE(Becomes([&] { return TorchFileExists(answer); })) << i;
      }
      EXPECT_EQ(torch.Register(kName), "OK");
    }
    EXPECT_TRUE(PassesInChild([&] {
      EXPECT_TRUE(Becomes([&] { return torch.Register(NameOf(9)) == "OK"; }));
    }));
  }));
}

// A registration beyond its limit makes the daemon examine the names in flight
// on behalf of the process; further ones must not do so each time.
TEST_F(TorchListenerTest, AFloodBeyondTheLimitOfNamesCostsLittle) {
  constexpr int kNames = 300;
  constexpr int kFlood = 50;
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    TENON_ASSERT_OK_AND_ASSIGN(const auto reclaimer,
                               NameReclaimer::Start(nullptr));
    int examined = 0;
    TENON_ASSERT_OK_AND_ASSIGN(
        const auto listener,
        TorchListener::Create(TorchPath(folder),
                              {.max_clients = 1,
                               .max_clients_per_process = 1,
                               .max_names = kNames,
                               .max_names_per_process = kNames,
                               .handshake_patience = absl::Seconds(20),
                               .log_problem = [&](const std::string& line) {
                                 if (absl::StrContains(line, "examine")) {
                                   ++examined;
                                 }
                               }}));
    const TorchConnection torch(TorchPath(folder));
    // The message is served when a byte can be read.
    const auto answer = [&](const std::string& name) {
      EXPECT_TRUE(torch.Send(Message(name)));
      pollfd fd = {.fd = torch.fd(), .events = POLLIN, .revents = 0};
      while (poll(&fd, 1, 0) == 0) listener->Serve(reclaimer.get());
      return torch.Answer();
    };
    for (int i = 0; i < kNames; ++i) {
      ASSERT_EQ(answer(NameOf(i)), "OK");
      ASSERT_TRUE(MakeTorchFile(NameOf(i), 1));
      torch.Deregister(NameOf(i));
    }
    const std::string more = NameOf(kNames);
    ASSERT_EQ(answer(more), "NO");
    ASSERT_EQ(examined, 0);
    {
      const FewFds few;  // Each examination is logged.
      for (int i = 0; i < kFlood; ++i) ASSERT_EQ(answer(more), "NO");
    }
    EXPECT_LT(examined, kNames * kFlood / 5);
    // One is removed by its receiver, which is noticed in the end.
    ASSERT_EQ(shm_unlink(absl::StrCat("/", NameOf(0)).c_str()), 0);
    EXPECT_TRUE(Becomes([&] { return answer(more) == "OK"; }));
  }));
}

// The thread that removes it may run while the daemon has no descriptor left.
TEST_F(TorchListenerTest, ANameThatCannotBeRemovedAtALimitIsRemovedLater) {
  EXPECT_TRUE(InOwnShm([] {
    ASSERT_TRUE(MakeTorchFile(kName, 1));
    std::atomic<int> problems = 0;
    TENON_ASSERT_OK_AND_ASSIGN(
        const auto reclaimer,
        NameReclaimer::Start([&](LogKind kind, const std::string&) {
          if (kind == LogKind::kProblem) ++problems;
        }));
    ASSERT_TRUE(Becomes([&] { return reclaimer->counts().sweeps == 1; }));
    {
      const FewFds few;
      reclaimer->RemoveTorchName(kName);
      EXPECT_TRUE(Becomes([&] { return problems > 0; }));
      EXPECT_TRUE(TorchFileExists(kName));
    }
    EXPECT_TRUE(IsRemoved(kName));
  }));
}

TEST_F(TorchListenerTest, AForkedChildLeavesTheSocketFile) {
  const ManagerFolder folder;
  TENON_ASSERT_OK_AND_ASSIGN(auto manager,
                             Manager::Create(folder.path(), WithTorch(folder)));
  EXPECT_TRUE(PassesInChild([&] { manager.reset(); }));
  EXPECT_EQ(access(folder.path().c_str(), F_OK), 0);
  EXPECT_EQ(access(TorchPath(folder).c_str(), F_OK), 0);
}

TEST_F(TorchListenerTest, AStorageOfTorchIsOpenedAndDropped) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    const TorchSocketGuard guard(folder);
    const std::string name = absl::StrCat("/", kName);
    const std::string path = TorchPath(folder);
    EXPECT_THAT(TorchStorage::Open(path, name, 8, Soon()),
                StatusIs(absl::StatusCode::kUnavailable));
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild daemon,
                               StartDaemon(folder.path(), WithTorch(folder)));
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild one, StartHolder(folder, kName, 1));
    {
      TENON_ASSERT_OK_AND_ASSIGN(TorchStorage storage,
                                 TorchStorage::Open(path, name, 4032, Soon()));
      EXPECT_THAT(storage.bytes(), SizeIs(4032));
      EXPECT_EQ(ReferencesOf(kName), 2);
      one.Kill();
      EXPECT_TRUE(Stays(kName));
    }
    // The reference of the killed process is left.
    EXPECT_TRUE(IsRemoved(kName));
    ASSERT_TRUE(MakeTorchFile(kName, 1));
    EXPECT_THAT(TorchStorage::Open(path, name, 4033, Soon()),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("has 4096 bytes (4.0 KiB); want the 4033")));
    EXPECT_THAT(TorchStorage::Open(path, "/torch_1_404", 8, Soon()),
                StatusIs(absl::StatusCode::kNotFound));
    for (const absl::string_view bad :
         {"torch_1_2", "/chosen", "/", "", "/torch_1_2/../3"}) {
      EXPECT_THAT(TorchStorage::Open(path, bad, 8, Soon()),
                  StatusIs(absl::StatusCode::kInvalidArgument))
          << bad;
    }
    EXPECT_THAT(TorchStorage::Open(std::string(200, 'p'), name, 8, Soon()),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }));
}

TEST_F(TorchListenerTest, AStorageOfTenonKeepsItsReference) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    const TorchSocketGuard guard(folder);
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild daemon,
                               StartDaemon(folder.path(), WithTorch(folder)));
    const TorchConnection torch = ConnectAsTorch(folder);
    std::string name;
    {
      TENON_ASSERT_OK_AND_ASSIGN(TorchStorage storage,
                                 TorchStorage::Create(100));
      name = storage.name().substr(1);
      EXPECT_THAT(storage.bytes(), SizeIs(100));
      EXPECT_EQ(ReferencesOf(name), 1);
      TENON_ASSERT_OK_AND_ASSIGN(
          TorchStorage again,
          TorchStorage::Open(TorchPath(folder), storage.name(), 100, Soon()));
      EXPECT_EQ(ReferencesOf(name), 2);
      storage.bytes()[99] = std::byte{42};
      EXPECT_EQ(again.bytes()[99], std::byte{42});
    }
    EXPECT_FALSE(TorchFileExists(name));
    EXPECT_THAT(TorchStorage::Create(0),
                StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(TorchStorage::Create(8, std::string(25, 'p')), IsOk());
    EXPECT_THAT(TorchStorage::Create(8, std::string(26, 'p')),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }));
}

}  // namespace
}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The daemon's executable: started on demand, alone in its session, survivable,
// and gone when it is idle.

#include "tenon/shm_manager/start_manager.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/segment/segment.h"
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

namespace tenon {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using absl::StatusCode::kNotFound;
using absl::StatusCode::kUnavailable;

constexpr char kProgram[] = "shm_manager/tenon_shm_manager";

class StartManagerTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!CanEnterOwnMountNamespace()) GTEST_SKIP() << kNoMountNamespace;
  }
};

absl::StatusOr<ManagerClient> AttachAndStart(const std::string& path,
                                             absl::Duration idle_exit) {
  return ManagerClient::Attach(
      {.path = path, .program = kProgram, .idle_exit = idle_exit}, Soon());
}

// Ends a daemon with the test, also if the test fails.
class DaemonGuard {
 public:
  explicit DaemonGuard(const ManagerClient& client)
      : daemon_(PidFd::Open(client.daemon().pid)) {}
  ~DaemonGuard() {
    if (daemon_.ok()) daemon_->SendSignal(SIGKILL).IgnoreError();
  }
  DaemonGuard(const DaemonGuard&) = delete;
  DaemonGuard& operator=(const DaemonGuard&) = delete;

 private:
  const absl::StatusOr<PidFd> daemon_;
};

// An executable file that /bin/sh runs.
void WriteScript(const std::string& path, const std::string& text) {
  const UniqueFd file(open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0700));
  const std::string whole = absl::StrCat("#!/bin/sh\n", text, "\n");
  EXPECT_EQ(write(file.get(), whole.data(), whole.size()),
            static_cast<ssize_t>(whole.size()));
}

// Its parent need not reap it.
bool HasEnded(pid_t pid) {
  const char state = ProcessState(pid);
  return state == 0 || state == 'Z';
}

TEST_F(StartManagerTest, OfManyThatStartItAllAttachToOne) {
  constexpr size_t kClients = 8;
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    pid_t daemon = 0;
    {
      std::vector<ForkedChild> clients;
      for (size_t i = 0; i < kClients; ++i) {
        TENON_ASSERT_OK_AND_ASSIGN(
            ForkedChild client,
            ForkedChild::Fork({.name = "client"}, [&](const Reporter&) {
              TENON_ASSERT_OK_AND_ASSIGN(
                  auto attached,
                  AttachAndStart(folder.path(), absl::Milliseconds(500)));
              // If there were two, neither would ever have so many.
              EXPECT_TRUE(Becomes([&] {
                const auto stats = attached.QueryStats(Soon());
                return stats.ok() && stats->attached >= kClients;
              }));
            }));
        clients.push_back(std::move(client));
      }
      for (ForkedChild& client : clients) EXPECT_TRUE(client.EndsWell());
      TENON_ASSERT_OK_AND_ASSIGN(
          const auto last,
          AttachAndStart(folder.path(), absl::Milliseconds(500)));
      daemon = last.daemon().pid;
      EXPECT_NE(daemon, 0);
    }
    // The last client has gone.
    EXPECT_TRUE(Becomes([&] { return HasEnded(daemon); }));
    struct stat file;
    EXPECT_NE(stat(folder.path().c_str(), &file), 0) << "the socket is left";
  }));
}

TEST_F(StartManagerTest, HasNothingOfItsStarter) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);  // Inherited by programs.
    const UniqueFd reader(ends[0]);
    UniqueFd writer(ends[1]);
    // The kernel fills a part of them.
    sigset_t before = {}, after = {};
    ASSERT_EQ(pthread_sigmask(SIG_BLOCK, nullptr, &before), 0);
    TENON_ASSERT_OK_AND_ASSIGN(const auto client,
                               AttachAndStart(folder.path(), absl::Seconds(1)));
    ASSERT_EQ(pthread_sigmask(SIG_BLOCK, nullptr, &after), 0);
    EXPECT_EQ(std::memcmp(&before, &after, sizeof(before)), 0);
    const DaemonGuard guard(client);
    const pid_t daemon = client.daemon().pid;
    EXPECT_EQ(getsid(daemon), daemon);
    EXPECT_NE(ParentPid(daemon), getpid());
    EXPECT_EQ(TakeCensus({.pid = daemon}).Count("open pipe"), 0u);
    writer.Reset();
    char c;
    EXPECT_EQ(read(reader.get(), &c, 1), 0) << "the daemon has the pipe open";
    char folder_of[PATH_MAX] = {};
    EXPECT_EQ(readlink(absl::StrCat("/proc/", daemon, "/cwd").c_str(),
                       folder_of, sizeof(folder_of)),
              1);
    EXPECT_THAT(ChildPids(), IsEmpty());
  }));
}

TEST_F(StartManagerTest, OutlivesTheGroupOfItsStarter) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    TENON_ASSERT_OK_AND_ASSIGN(
        ForkedChild starter,
        ForkedChild::Fork({.name = "starter"}, [&](const Reporter&) {
          setpgid(0, 0);
          TENON_ASSERT_OK_AND_ASSIGN(
              const auto client,
              AttachAndStart(folder.path(), absl::Seconds(2)));
          TENON_ASSERT_OK_AND_ASSIGN(const Segment segment,
                                     CreateIn("starter"));
          for (;;) pause();
        }));
    ASSERT_TRUE(BecomesCount("starter", 1));
    TENON_ASSERT_OK_AND_ASSIGN(ManagerClient other, AttachTo(folder.path()));
    const DaemonGuard guard(other);
    ASSERT_EQ(kill(-starter.pid(), SIGKILL), 0);
    EXPECT_TRUE(BecomesCount("starter", 0));
    EXPECT_THAT(other.QueryStats(Soon()), IsOk());
  }));
}

TEST_F(StartManagerTest, KilledWithItsClientsNothingIsLeftAfterTheNextStart) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    pid_t daemon = 0;
    {
      TENON_ASSERT_OK_AND_ASSIGN(
          const auto first, AttachAndStart(folder.path(), absl::Seconds(2)));
      daemon = first.daemon().pid;
      TENON_ASSERT_OK_AND_ASSIGN(ForkedChild client,
                                 StartClient(folder.path(), "dead", 5));
      ASSERT_TRUE(BecomesCount("dead", 5));
      ASSERT_EQ(kill(daemon, SIGKILL), 0);
      ASSERT_TRUE(Becomes([&] { return HasEnded(daemon); }));
      client.Kill();
    }
    EXPECT_EQ(CountNames("dead"), 5u);
    TENON_ASSERT_OK_AND_ASSIGN(
        const auto next,
        AttachAndStart(folder.path(), absl::Milliseconds(100)));
    EXPECT_NE(next.daemon().pid, daemon);
    EXPECT_TRUE(BecomesCount("dead", 0));
  }));
}

// The starter's group includes the program until it has detached.
TEST_F(StartManagerTest, AStarterKilledAtAnyMomentBlocksNoOther) {
  constexpr int kRounds = 40;
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    for (int i = 0; i < kRounds; ++i) {
      TENON_ASSERT_OK_AND_ASSIGN(
          ForkedChild starter,
          ForkedChild::Fork({.name = "starter"}, [&](const Reporter&) {
            setpgid(0, 0);
            const auto client =
                AttachAndStart(folder.path(), absl::Milliseconds(20));
            for (;;) pause();
          }));
      absl::SleepFor(i * absl::Microseconds(500));
      kill(-starter.pid(), SIGKILL);
      starter.Kill();
    }
    TENON_ASSERT_OK_AND_ASSIGN(
        auto last, AttachAndStart(folder.path(), absl::Milliseconds(20)));
    const pid_t daemon = last.daemon().pid;
    EXPECT_TRUE(Becomes([&] {
      const auto stats = last.QueryStats(Soon());
      return stats.ok() && stats->clients == 1;
    }));
    { const ManagerClient detached = std::move(last); }
    EXPECT_TRUE(Becomes([&] { return HasEnded(daemon); }));
    EXPECT_NE(access(folder.path().c_str(), F_OK), 0) << "the socket is left";
  }));
}

TEST_F(StartManagerTest, ReportsWhyThereIsNoDaemon) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    EXPECT_THAT(ManagerClient::Attach(
                    {.path = folder.path(), .program = "/nonexistent"}, Soon()),
                StatusIs(kNotFound, HasSubstr("/nonexistent")));
    EXPECT_THAT(ManagerClient::Attach(
                    {.path = folder.path(), .program = "/bin/false"}, Soon()),
                StatusIs(kUnavailable, HasSubstr("/bin/false failed")));
    ASSERT_EQ(chmod(folder.folder().c_str(), 0755), 0);
    EXPECT_THAT(AttachAndStart(folder.path(), absl::Seconds(1)),
                StatusIs(kUnavailable, HasSubstr("chmod 0700")));
    ASSERT_EQ(chmod(folder.folder().c_str(), 0700), 0);
    {
      const UniqueFd file(
          open(folder.path().c_str(), O_CREAT | O_CLOEXEC, 0600));
    }
    EXPECT_THAT(AttachAndStart(folder.path(), absl::Seconds(1)),
                StatusIs(kUnavailable, HasSubstr("is not a socket")));
    EXPECT_EQ(unlink(folder.path().c_str()), 0);
    EXPECT_THAT(ChildPids(), IsEmpty());
  }));
}

// As a child that another thread forks has it.
TEST_F(StartManagerTest, APipeThatAnotherProcessHasOpenDelaysNothing) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    const std::string program = folder.folder() + "/program";
    const std::string pid_file = folder.folder() + "/pid";
    WriteScript(program, absl::StrCat("sleep 60 &\necho $! > ", pid_file));
    EXPECT_THAT(StartManager(program, folder.path(), absl::Seconds(1), Soon()),
                IsOk());
    const UniqueFd file(open(pid_file.c_str(), O_RDONLY | O_CLOEXEC));
    char text[16] = {};
    EXPECT_GT(read(file.get(), text, sizeof(text) - 1), 0);
    int sleeper = 0;
    ASSERT_TRUE(absl::SimpleAtoi(text, &sleeper));
    EXPECT_EQ(kill(sleeper, SIGKILL), 0);
    EXPECT_EQ(unlink(program.c_str()), 0);
    EXPECT_EQ(unlink(pid_file.c_str()), 0);
  }));
}

// The daemon may listen though the program has been killed.
TEST_F(StartManagerTest, AProgramThatIsKilledIsNoError) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    const std::string program = folder.folder() + "/program";
    WriteScript(program, "kill -9 $$");
    EXPECT_THAT(StartManager(program, folder.path(), absl::Seconds(1), Soon()),
                IsOk());
    EXPECT_EQ(unlink(program.c_str()), 0);
  }));
}

TEST_F(StartManagerTest, NeedsNoStandardDescriptors) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    TENON_ASSERT_OK_AND_ASSIGN(
        ForkedChild program,
        ForkedChild::Fork({.name = "program"}, [&](const Reporter&) {
          for (int fd = 0; fd <= 2; ++fd) close(fd);
          const std::string path = absl::StrCat("--path=", folder.path());
          execl(kProgram, kProgram, path.c_str(), "--detach", nullptr);
        }));
    EXPECT_TRUE(program.EndsWell());
    TENON_ASSERT_OK_AND_ASSIGN(
        auto client, ManagerClient::Attach({.path = folder.path()}, Soon()));
    const DaemonGuard guard(client);
    EXPECT_THAT(client.QueryStats(Soon()), IsOk());
  }));
}

// A success would send torch to a socket at which no daemon listens.
TEST_F(StartManagerTest, ADaemonWithoutTorchIsNoneThatServesIt) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    TENON_ASSERT_OK_AND_ASSIGN(const auto client,
                               AttachAndStart(folder.path(), absl::Seconds(1)));
    const DaemonGuard guard(client);
    const auto run = [&](const std::string& torch_path) {
      auto program =
          ForkedChild::Fork({.name = "program"}, [&](const Reporter&) {
            const std::string path = absl::StrCat("--path=", folder.path());
            const std::string torch = absl::StrCat("--torch_path=", torch_path);
            execl(kProgram, kProgram, path.c_str(), torch.c_str(), "--detach",
                  nullptr);
          });
      EXPECT_THAT(program, IsOk());
      const auto end = program->Wait(Soon());
      EXPECT_THAT(end, IsOk());
      return end.ok() ? end->exit_code : -1;
    };
    const std::string torch_path = folder.folder() + "/torch";
    EXPECT_EQ(run(torch_path), 1);
    {
      TENON_ASSERT_OK_AND_ASSIGN(const auto other,
                                 Manager::Create(folder.folder() + "/other",
                                                 {.torch_path = torch_path}));
      EXPECT_EQ(run(torch_path), 0);
    }
    EXPECT_EQ(run(""), 0);
  }));
}

TEST_F(StartManagerTest, TerminatesOnASignal) {
  EXPECT_TRUE(InOwnShm([] {
    for (const int signal : {SIGTERM, SIGINT}) {
      const ManagerFolder folder;
      TENON_ASSERT_OK_AND_ASSIGN(
          const auto client, AttachAndStart(folder.path(), absl::Seconds(60)));
      const DaemonGuard guard(client);
      const pid_t daemon = client.daemon().pid;
      ASSERT_EQ(kill(daemon, signal), 0);
      EXPECT_TRUE(Becomes([&] { return HasEnded(daemon); }));
      struct stat file;
      EXPECT_NE(stat(folder.path().c_str(), &file), 0) << "the socket is left";
    }
  }));
}

// As systemd activates a service: descriptor 3 listens.
TEST_F(StartManagerTest, ServesTheSocketThatItIsActivatedWith) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    const UniqueFd listening(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, folder.path().data(), folder.path().size());
    ASSERT_EQ(bind(listening.get(), reinterpret_cast<sockaddr*>(&address),
                   sizeof(address)),
              0);
    ASSERT_EQ(listen(listening.get(), 8), 0);
    const auto activate = [&](const char* sockets, const char* flag) {
      return ForkedChild::Fork({.name = "daemon"}, [&](const Reporter&) {
        dup2(listening.get(), 3);
        fcntl(3, F_SETFD, 0);
        setenv("LISTEN_PID", absl::StrCat(getpid()).c_str(), 1);
        setenv("LISTEN_FDS", sockets, 1);
        execl(kProgram, kProgram, "--idle_exit=1s", flag, nullptr);
      });
    };
    // It ends when it is idle, and is activated again; the socket stays.
    for (int i = 0; i < 2; ++i) {
      TENON_ASSERT_OK_AND_ASSIGN(ForkedChild daemon, activate("1", nullptr));
      TENON_ASSERT_OK_AND_ASSIGN(
          auto client, ManagerClient::Attach({.path = folder.path()}, Soon()));
      EXPECT_EQ(client.daemon().pid, daemon.pid());
      EXPECT_THAT(client.QueryStats(Soon()), IsOk());
      { const ManagerClient detached = std::move(client); }
      EXPECT_TRUE(daemon.EndsWell());
      EXPECT_EQ(access(folder.path().c_str(), F_OK), 0);
    }
    TENON_ASSERT_OK_AND_ASSIGN(ForkedChild refuses, activate("2", nullptr));
    EXPECT_FALSE(refuses.EndsWell());
    TENON_ASSERT_OK_AND_ASSIGN(refuses, activate("1", "--detach"));
    EXPECT_FALSE(refuses.EndsWell());
  }));
}

int FromEnvironment(const char* variable, int otherwise) {
  int number;
  const char* const text = getenv(variable);
  return text != nullptr && absl::SimpleAtoi(text, &number) ? number
                                                            : otherwise;
}

// Runs `body` as pid 1 of a pid namespace, which ends with this process.
void InOwnPidNamespace(const std::function<void()>& body) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd lives(ends[0]);
  UniqueFd starter(ends[1]);
  ASSERT_EQ(unshare(CLONE_NEWPID), 0);
  const pid_t inner = fork();
  if (inner == 0) {
    starter.Reset();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pollfd fd = {.fd = lives.get(), .events = POLLIN, .revents = 0};
    if (poll(&fd, 1, 0) == 0) body();
    _exit(1);
  }
  waitpid(inner, nullptr, 0);
}

// A client that creates segments, and checks that none of its names is taken
// from it, while others and the daemon are killed.
void ActAsClient(const std::string& path, uint64_t seed, size_t most) {
  std::mt19937_64 random(seed);
  std::optional<ManagerClient> client;
  std::vector<Segment> segments;
  for (;;) {
    if (!client || client->fd() < 0) {
      auto attached = AttachAndStart(path, absl::Seconds(2));
      ASSERT_THAT(attached, IsOk());
      client = *std::move(attached);
    }
    if (segments.size() >= most) segments.erase(segments.begin());
    TENON_ASSERT_OK_AND_ASSIGN(Segment segment, CreateIn("busy"));
    if (random() % 4 == 0) {
      EXPECT_THAT(client->KeepName(segment.name(), Soon()),
                  AnyOf(IsOk(), StatusIs(kUnavailable),
                        StatusIs(absl::StatusCode::kResourceExhausted)));
    }
    segments.push_back(std::move(segment));
    for (const Segment& held : segments) {
      struct stat file;
      ASSERT_EQ(stat(absl::StrCat("/dev/shm/", held.name()).c_str(), &file), 0)
          << "a live process has lost its name";
    }
  }
}

TEST_F(StartManagerTest, RandomKillsOfClientsAndDaemonsLeaveNothing) {
  const auto clients_in_all =
      static_cast<size_t>(FromEnvironment("TENON_MANAGER_CLIENTS", 6));
  const auto most = static_cast<size_t>(
      std::max(1, FromEnvironment("TENON_MANAGER_SEGMENTS", 60) /
                      static_cast<int>(clients_in_all)));
  const int kills = FromEnvironment("TENON_MANAGER_KILLS", 60);
  const int pause_ms = FromEnvironment("TENON_MANAGER_PAUSE_MS", 25);
  EXPECT_TRUE(InOwnShm([&] {
    const bool namespaces = CanEnterOwnPidNamespace();
    const ManagerFolder folder;
    std::mt19937_64 random(1);
    const UniqueFd foreign(open("/dev/shm/of-another-program",
                                O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    std::vector<ForkedChild> clients;
    const auto start = [&]() -> absl::StatusOr<ForkedChild> {
      const uint64_t seed = random();
      return ForkedChild::Fork(
          {.name = "busy", .watchdog = absl::Seconds(100)},
          [&](const Reporter&) {
            const auto act = [&] { ActAsClient(folder.path(), seed, most); };
            return namespaces && seed % 3 == 0 ? InOwnPidNamespace(act) : act();
          });
    };
    for (size_t i = 0; i < clients_in_all; ++i) {
      TENON_ASSERT_OK_AND_ASSIGN(ForkedChild client, start());
      clients.push_back(std::move(client));
    }
    for (int i = 0; i < kills; ++i) {
      absl::SleepFor(absl::Milliseconds(
          random() % static_cast<uint64_t>(2 * pause_ms + 1)));
      if (i % 6 == 5) {
        const auto client =
            ManagerClient::Attach({.path = folder.path()}, Soon());
        if (client.ok()) {
          client->daemon().pid_fd->SendSignal(SIGKILL).IgnoreError();
        }
        continue;
      }
      ForkedChild& victim = clients[random() % clients.size()];
      EXPECT_THAT(victim.report().failures, IsEmpty());
      EXPECT_FALSE(victim.pid_fd().HasEnded());
      victim.Kill();
      TENON_ASSERT_OK_AND_ASSIGN(victim, start());
    }
    for (ForkedChild& client : clients) {
      EXPECT_THAT(client.report().failures, IsEmpty());
      client.Kill();
    }
    // A daemon that a client started in its pid namespace ends with it, soon:
    // then the next one removes the names.
    EXPECT_TRUE(Becomes([&] {
      pid_t daemon = 0;
      {
        auto last = AttachAndStart(folder.path(), absl::Milliseconds(100));
        if (!last.ok()) return false;
        daemon = last->daemon().pid;
        const auto stats = last->QueryStats(Soon());
        if (!stats.ok() || stats->clients != 1) return false;
      }
      return Becomes([&] { return HasEnded(daemon); }) &&
             CountNames("busy") == 0;
    }));
    EXPECT_EQ(access("/dev/shm/of-another-program", F_OK), 0);
  }));
}

}  // namespace
}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/kill/census.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Not;

// The new resources between the beginning of `with` and a moment within it.
std::string New(const std::function<void(const std::function<void()>&)>& with,
                const std::string& shm_prefix = "") {
  const CensusOptions options = {.shm_prefix = shm_prefix};
  const Census before = TakeCensus(options);
  std::string difference;
  with([&] { difference = Difference(before, TakeCensus(options)); });
  EXPECT_TRUE(ExpectSame(before, TakeCensus(options)));
  return difference;
}

TEST(CensusTest, IsTheSameIfNothingHappens) {
  const Census before = TakeCensus();
  EXPECT_TRUE(ExpectSame(before, TakeCensus()));
  EXPECT_GE(before.Count("open "), 1u);
  EXPECT_EQ(before.Count("thread"), 1u);
  EXPECT_EQ(before.Count("child process"), 0u);
  EXPECT_GT(before.mappings, 0u);
}

TEST(CensusTest, SeesDescriptorsByKind) {
  const std::string difference = New([](const auto& look) {
    const UniqueFd memfd(memfd_create("census", MFD_CLOEXEC));
    const UniqueFd event(eventfd(0, EFD_CLOEXEC));
    const UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
    const auto self = PidFd::Open(getpid());
    int sockets[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
    const UniqueFd a(sockets[0]), b(sockets[1]);
    int pipes[2];
    ASSERT_EQ(pipe2(pipes, O_CLOEXEC), 0);
    const UniqueFd c(pipes[0]), d(pipes[1]);
    look();
  });
  for (const char* line :
       {"open memfd /memfd:census: 0 before, 1 after",
        "open eventfd: 0 before, 1 after", "open pidfd: 0 before, 1 after"}) {
    EXPECT_THAT(difference, HasSubstr(line));
  }
  // Others may be open already, under Bazel for example.
  EXPECT_THAT(difference,
              AllOf(HasSubstr("open socket: "), HasSubstr("open pipe: "),
                    HasSubstr("open /dev/null: ")));
}

TEST(CensusTest, SeesSharedMappingsOnly) {
  const std::string difference = New([](const auto& look) {
    const UniqueFd memfd(memfd_create("census", MFD_CLOEXEC));
    ASSERT_EQ(ftruncate(memfd.get(), 4096), 0);
    void* shared = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, memfd.get(), 0);
    void* quiet =
        mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const SharedObject<int> anonymous;
    look();
    EXPECT_EQ(munmap(shared, 4096), 0);
    EXPECT_EQ(munmap(quiet, 4096), 0);
  });
  EXPECT_THAT(difference,
              AllOf(HasSubstr("mapped memfd /memfd:census: 0 before, 1 after"),
                    HasSubstr("mapped anonymous: ")));
}

TEST(CensusTest, SeesNamesOfThePrefixOnly) {
  const std::string prefix = UniqueShmPrefix();
  const std::string name = absl::StrCat("/", prefix, "-a");
  const std::string difference = New(
      [&](const auto& look) {
        const UniqueFd fd(shm_open(name.c_str(), O_CREAT | O_RDWR, 0600));
        ASSERT_TRUE(fd.valid());
        look();
        EXPECT_THAT(TakeCensus({.shm_prefix = UniqueShmPrefix()}).held,
                    ::testing::Not(::testing::Contains(
                        ::testing::Key(HasSubstr("name in /dev/shm")))));
        EXPECT_EQ(shm_unlink(name.c_str()), 0);
      },
      prefix);
  EXPECT_THAT(difference,
              AllOf(HasSubstr(absl::StrCat("name in /dev/shm ", prefix,
                                           "-a: 0 before, 1 after")),
                    HasSubstr(absl::StrCat("open /dev/shm/", prefix, "-a"))));
}

TEST(CensusTest, SeesThreads) {
  EXPECT_EQ(
      New([](const auto& look) {
        std::atomic<bool> done = false;
        std::thread thread([&] {
          while (!done) usleep(100);
        });
        look();
        done = true;
        thread.join();
        // The kernel releases a joined thread a moment later.
        const Deadline deadline = Deadline::After(absl::Seconds(20));
        while (TakeCensus().Count("thread") > 1 && !deadline.has_passed()) {
          usleep(100);
        }
      }),
      "thread: 1 before, 2 after\n");
}

TEST(CensusTest, SeesChildrenAlsoUnreaped) {
  const Census before = TakeCensus();
  auto child = ForkedChild::Fork({}, [](const Reporter&) { pause(); });
  ASSERT_THAT(child, IsOk());
  EXPECT_EQ(TakeCensus().Count("child process"), 1u);
  EXPECT_THAT(ChildPids(), ElementsAre(child->pid()));
  ASSERT_THAT(child->pid_fd().SendSignal(SIGKILL), IsOk());
  ASSERT_THAT(child->pid_fd().WaitForEnd(Deadline::After(absl::Seconds(20))),
              IsOk());
  EXPECT_EQ(ProcessState(child->pid()), 'Z');
  EXPECT_THAT(Difference(before, TakeCensus()),
              HasSubstr("unreaped child process: 0 before, 1 after"));
  const pid_t pid = child->pid();
  child->Kill();
  EXPECT_EQ(ProcessState(pid), 0);
  EXPECT_EQ(TakeCensus().Count("unreaped child process"), 0u);
}

TEST(CensusTest, SeesAnotherProcess) {
  SharedObject<std::atomic<bool>> ready;
  auto child = ForkedChild::Fork({}, [&](const Reporter&) {
    const int fd = memfd_create("census_of_child", MFD_CLOEXEC);
    *ready = fd >= 0;
    pause();
  });
  ASSERT_THAT(child, IsOk());
  const Deadline deadline = Deadline::After(absl::Seconds(20));
  while (!*ready && !deadline.has_passed()) usleep(100);
  const Census census = TakeCensus({.pid = child->pid()});
  EXPECT_EQ(census.Count("open memfd /memfd:census_of_child"), 1u);
  EXPECT_EQ(TakeCensus().Count("open memfd"), 0u);
  const pid_t pid = child->pid();
  child->Kill();
  EXPECT_EQ(TakeCensus({.pid = pid}).Count("error"), 1u);
}

TEST(ShmNamesGuardTest, RemovesWhatIsNew) {
  const auto make = [](const std::string& name) {
    close(shm_open(("/" + name).c_str(), O_CREAT | O_EXCL | O_RDWR, 0600));
  };
  const std::string prefix = UniqueShmPrefix();
  const ShmNamesGuard all(prefix);
  make(prefix + "-old");
  {
    ShmNamesGuard guard(prefix);
    EXPECT_THAT(guard.RemoveNew(), IsEmpty());
    make(prefix + "-new");
    EXPECT_THAT(guard.RemoveNew(), ElementsAre(prefix + "-new"));
    make(prefix + "-newer");
  }
  const Census census = TakeCensus({.shm_prefix = prefix});
  EXPECT_EQ(census.Count("name in /dev/shm"), 1u);
  EXPECT_EQ(census.Count("name in /dev/shm " + prefix + "-old"), 1u);
  EXPECT_THAT(ShmNamesGuard("").RemoveNew(), IsEmpty());
}

TEST(CensusTest, SaysWhatIsGone) {
  Census before, after;
  before.held = {{"open socket", 2}, {"thread", 1}};
  after.held = {{"thread", 1}};
  EXPECT_EQ(Difference(before, after), "open socket: 2 before, 0 after\n");
  EXPECT_THAT(Difference(before, before), IsEmpty());
  EXPECT_FALSE(ExpectSame(before, after));
}

}  // namespace
}  // namespace tenon

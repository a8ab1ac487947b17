// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Many children, and limits of the system. Limits are set in children, so that
// they do not outlast their test.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/few_fds.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/process/processes.h"
#include "tenon/spawn/settings/process_options.h"
#include "tenon/spawn/settings/start_method.h"
#include "tenon/spawn/testing/child_testing.h"

namespace tenon::spawn {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class ProcessLimitTest : public ChildTest {};

absl::Status CountDescriptors(Child& child) {
  const std::string count = absl::StrCat(child.fd_count());
  return child.argument() == count ? absl::OkStatus()
                                   : absl::OutOfRangeError(count);
}
TENON_SPAWN_ENTRY("count-descriptors", CountDescriptors);

std::vector<UniqueFd> MakeFds(size_t count) {
  std::vector<UniqueFd> fds;
  for (size_t i = 0; i < count; ++i) {
    fds.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
    EXPECT_TRUE(fds.back().valid());
  }
  return fds;
}

TEST_F(ProcessLimitTest, ManyChildrenAtOnce) {
  std::vector<Talker> talkers;
  for (int i = 0; i < 32; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(Talker talker,
                               StartTalker({.entry = kEcho, .index = i}));
    talkers.push_back(std::move(talker));
  }
  for (Talker& talker : talkers) EXPECT_THAT(Ping(talker.channel), IsOk());
  for (Talker& talker : talkers) talker.channel.Release().Reset();
  for (Talker& talker : talkers) {
    EXPECT_THAT(talker.process.Join(Watchdog()), IsOk());
  }
}

// ---- Open files ----

// Starts with 0, 1, 2... free descriptors until that is enough.
absl::Status StartAtTheLimit(Child&) {
  const size_t before = CountOpenFds();
  for (size_t left = 0; left < 30; ++left) {
    std::optional<FewFds> few(left);
    absl::StatusOr<Process> process =
        Process::Start({.entry = "count-descriptors", .argument = "0"});
    few.reset();
    if (process.ok()) {
      TENON_RETURN_IF_ERROR(process->Join(Watchdog()));
      return left > 0 ? absl::OkStatus() : absl::InternalError("no limit");
    }
    if (!absl::IsResourceExhausted(process.status())) return process.status();
    if (HasChildren()) return absl::InternalError("a child is left");
    if (CountOpenFds() != before) {
      return absl::InternalError("a descriptor is left");
    }
  }
  return absl::InternalError("thirty descriptors are not enough");
}
TENON_SPAWN_ENTRY("start-at-the-limit", StartAtTheLimit);

TEST_F(ProcessLimitTest, LimitOfOpenFilesLeavesNothingBehind) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "UBSan looks at objects through a pipe, for which no "
                  "descriptor is left";
#endif
  TENON_ASSERT_OK_AND_ASSIGN(Process process,
                             Process::Start({.entry = "start-at-the-limit"}));
  EXPECT_THAT(process.Join(Watchdog()), IsOk());
}

// The parent has the descriptors; the child exceeds its limit.
absl::Status LowerLimitAndStart(Child& child) {
  std::vector<UniqueFd> fds = MakeFds(100);
  const rlimit limit = {20, 20};
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return absl::InternalError("setrlimit");
  }
  // Frees descriptors that Start() needs itself.
  std::vector<UniqueFd> low;
  for (UniqueFd& fd : fds) {
    if (fd.get() >= 20) low.push_back(std::move(fd));
  }
  fds.clear();
  TENON_ASSIGN_OR_RETURN(Process process,
                         Process::Start({.entry = "count-descriptors",
                                         .argument = child.argument(),
                                         .fds = std::move(low)}));
  return process.Join(Watchdog());
}
TENON_SPAWN_ENTRY("lower-limit-and-start", LowerLimitAndStart);

TEST_F(ProcessLimitTest, ChildSaysThatItCannotTakeItsDescriptors) {
  TENON_ASSERT_OK_AND_ASSIGN(
      Process process, Process::Start({.entry = "lower-limit-and-start"}));
  EXPECT_THAT(process.Join(Watchdog()),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("count-descriptors"),
                             HasSubstr("RLIMIT_NOFILE"))));
}

// ---- Limits that root does not have ----

constexpr char kNoUser[] = "cannot become an ordinary user here";

// Switches to a user to whom limits apply.
absl::Status BecomeOrdinary() {
  if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) {
    return absl::UnimplementedError(kNoUser);
  }
  return absl::OkStatus();
}

absl::Status StartWithoutProcesses(Child&) {
  TENON_RETURN_IF_ERROR(BecomeOrdinary());
  const rlimit limit = {0, 0};
  if (setrlimit(RLIMIT_NPROC, &limit) != 0) {
    return absl::InternalError("setrlimit");
  }
  const size_t before = CountOpenFds();
  const absl::Status status = Process::Start({.entry = kEcho}).status();
  if (CountOpenFds() != before) return absl::InternalError("fds are left");
  return status;
}
TENON_SPAWN_ENTRY("start-without-processes", StartWithoutProcesses);

TEST_F(ProcessLimitTest, LimitOfProcesses) {
  TENON_ASSERT_OK_AND_ASSIGN(
      Process process, Process::Start({.entry = "start-without-processes"}));
  const absl::Status status = process.Join(Watchdog());
  if (absl::IsUnimplemented(status)) GTEST_SKIP() << status;
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                               AllOf(HasSubstr("vfork(/proc/self/exe)"),
                                     HasSubstr("RLIMIT_NPROC"))));
}

// Each child receives nearly as many descriptors as the user may have in
// flight.
absl::Status StartManyWithDescriptors(Child&) {
  TENON_RETURN_IF_ERROR(BecomeOrdinary());
  const rlimit limit = {200, 200};
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return absl::InternalError("setrlimit");
  }
  std::vector<Process> processes;
  for (int i = 0; i < 15; ++i) {
    TENON_ASSIGN_OR_RETURN(Process process,
                           Process::Start({.entry = "count-descriptors",
                                           .index = i,
                                           .argument = "120",
                                           .fds = MakeFds(120)}));
    processes.push_back(std::move(process));
  }
  for (Process& process : processes) {
    TENON_RETURN_IF_ERROR(process.Join(Watchdog()));
  }
  return absl::OkStatus();
}
TENON_SPAWN_ENTRY("start-many-with-descriptors", StartManyWithDescriptors);

TEST_F(ProcessLimitTest, LimitOfDescriptorsInFlightIsWaitedOut) {
  TENON_ASSERT_OK_AND_ASSIGN(
      Process process,
      Process::Start({.entry = "start-many-with-descriptors"}));
  const absl::Status status = process.Join(Watchdog());
  if (absl::IsUnimplemented(status)) GTEST_SKIP() << status;
  EXPECT_THAT(status, IsOk());
}

absl::Status Stay(Child&) {
  for (;;) pause();
}
TENON_SPAWN_ENTRY("stay", Stay);

// The fourth child exceeds the limit of descriptors in flight until the others
// run (an earlier one, if other processes of the user have some in flight,
// too); their output is then copied by threads.
absl::Status ForkBesideOutputThreads(Child&) {
  TENON_RETURN_IF_ERROR(BecomeOrdinary());
  const rlimit limit = {200, 200};
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return absl::InternalError("setrlimit");
  }
  ProcessOptions options = {.entry = "stay",
                            .fds = MakeFds(80),
                            .method = StartMethod::kFork,
                            .keep_stderr_tail = true};
  const absl::Status forked = Processes::Start(4, std::move(options)).status();
  if (HasChildren()) return absl::InternalError("a child is left");
  return forked;
}
TENON_SPAWN_ENTRY("fork-beside-output-threads", ForkBesideOutputThreads);

TEST_F(ProcessLimitTest, ABatchIsNotForkedBesideTheThreadsOfTheOneBefore) {
  TENON_ASSERT_OK_AND_ASSIGN(
      Process process, Process::Start({.entry = "fork-beside-output-threads"}));
  const absl::Status status = process.Join(Watchdog());
  if (absl::IsUnimplemented(status)) GTEST_SKIP() << status;
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(ContainsRegex("cannot start worker [1-3]"),
                             HasSubstr("locks of the others would stay"))));
}

}  // namespace
}  // namespace tenon::spawn

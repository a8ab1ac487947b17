// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Arguments of a child, and its results. Other ends are in process_end_test.cc,
// inherited state in process_inherit_test.cc.

#include "tenon/spawn/process/process.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/child/init.h"
#include "tenon/spawn/testing/child_testing.h"

namespace tenon::spawn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

UniqueFd FileWith(const std::string& content, unsigned flags = MFD_CLOEXEC) {
  UniqueFd fd(memfd_create("process_test", flags));
  EXPECT_EQ(pwrite(fd.get(), content.data(), content.size(), 0),
            static_cast<ssize_t>(content.size()));
  return fd;
}

std::string ContentOf(int fd) {
  char content[64];
  const ssize_t size = pread(fd, content, sizeof(content), 0);
  return size < 0 ? "pread fails" : std::string(content, size);
}

class ProcessTest : public ChildTest {};

// ---- The argument and the index ----

std::string Digest(const std::string& bytes) {
  return absl::StrCat(bytes.size(), " ", std::hash<std::string>()(bytes));
}

absl::Status TellArgument(Child& child) {
  return Say(child, Digest(child.argument()));
}
TENON_SPAWN_ENTRY("tell-argument", TellArgument);

TEST_F(ProcessTest, ArgumentOfAnySizeTravels) {
  for (const size_t size : {0, 1, 4096, 10 << 20}) {
    std::string argument(size, '\0');
    for (size_t i = 0; i < size; ++i) argument[i] = static_cast<char>(i * 31);
    EXPECT_THAT(AnswerOf({.entry = "tell-argument", .argument = argument}),
                IsOkAndHolds(Digest(argument)));
  }
}

absl::Status TellIndex(Child& child) {
  return Say(child, absl::StrCat(child.index()));
}
TENON_SPAWN_ENTRY("tell-index", TellIndex);

TEST_F(ProcessTest, IndexTravels) {
  for (const int index : {0, 1, -1, 2147483647}) {
    EXPECT_THAT(AnswerOf({.entry = "tell-index", .index = index}),
                IsOkAndHolds(absl::StrCat(index)));
  }
}

// ---- Descriptors ----

absl::Status TellContents(Child& child) {
  std::vector<std::string> contents;
  for (size_t i = 1; i < child.fd_count(); ++i) {
    contents.push_back(ContentOf(child.TakeFd(i).get()));
  }
  return Say(child, absl::StrJoin(contents, " "));
}
TENON_SPAWN_ENTRY("tell-contents", TellContents);

TEST_F(ProcessTest, DescriptorsTravelInOrder) {
  for (const size_t count : {0, 1, 300}) {
    std::vector<UniqueFd> fds;
    std::vector<std::string> contents;
    for (size_t i = 0; i < count; ++i) {
      contents.push_back(absl::StrCat("file", i));
      fds.push_back(FileWith(contents.back()));
    }
    EXPECT_THAT(AnswerOf({.entry = "tell-contents", .fds = std::move(fds)}),
                IsOkAndHolds(absl::StrJoin(contents, " ")));
  }
}

TEST_F(ProcessTest, DescriptorsAreClosedInTheParent) {
  UniqueFd file = FileWith("x");
  const int number = file.get();
  std::vector<UniqueFd> fds;
  fds.push_back(std::move(file));
  TENON_ASSERT_OK_AND_ASSIGN(
      const Talker talker,
      StartTalker({.entry = kEcho, .fds = std::move(fds)}));
  EXPECT_EQ(fcntl(number, F_GETFD), -1);
}

TEST_F(ProcessTest, DescriptorThatIsNoneIsRefused) {
  std::vector<UniqueFd> fds;
  fds.push_back(FileWith("x"));
  fds.emplace_back();
  EXPECT_THAT(
      Process::Start({.entry = kEcho, .fds = std::move(fds)}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("fds[1] of 2")));
}

// "<number> <file>", one per line.
absl::Status TellOpenFds(Child& child) {
  TENON_ASSIGN_OR_RETURN(Channel channel, TakeChannel(child));
  std::vector<std::string> fds;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const auto target = std::filesystem::read_symlink(entry.path(), error);
    fds.push_back(
        absl::StrCat(entry.path().filename().string(), " ", target.string()));
  }
  return channel.Send(absl::StrJoin(fds, "\n"), {}, Watchdog());
}
TENON_SPAWN_ENTRY("tell-open-fds", TellOpenFds);

TEST_F(ProcessTest, ChildHasTheDescriptorsThatItWasSentAndNoOthers) {
  // Descriptors that exec would leave open.
  std::vector<UniqueFd> leaks;
  for (int i = 0; i < 20; ++i) leaks.push_back(FileWith("leak", 0));
  leaks.emplace_back(fcntl(leaks[0].get(), F_DUPFD, 500));
  ASSERT_TRUE(leaks.back().valid());
  std::vector<UniqueFd> fds;
  fds.push_back(FileWith("1"));
  fds.push_back(FileWith("2"));
  TENON_ASSERT_OK_AND_ASSIGN(const std::string answer,
                             AnswerOf({.entry = "tell-open-fds",
                                       .argument = "with a segment",
                                       .fds = std::move(fds)}));
  // 0 to 2, the control channel, the parent's pidfd, the channel of the test,
  // two files; and the directory that is being read.
  const std::vector<std::string> lines = absl::StrSplit(answer, '\n');
  EXPECT_EQ(lines.size(), 9u) << answer;
  EXPECT_THAT(answer, HasSubstr("3 socket:"));
  EXPECT_THAT(answer, HasSubstr("pidfd"));
  EXPECT_THAT(answer, Not(HasSubstr("tenon-argument")));
}

// The channel's end must become descriptor 3, whatever its number.
TEST_F(ProcessTest, NumbersOfTheParentsDescriptorsDoNotMatter) {
  const int first_free = FileWith("").get();
  for (int numbers_taken = 0; numbers_taken < 4; ++numbers_taken) {
    std::vector<UniqueFd> taken;
    for (int i = 0; i < numbers_taken; ++i) taken.push_back(FileWith(""));
    EXPECT_THAT(AnswerOf({.entry = "tell-index"}), IsOkAndHolds("0"))
        << "from descriptor " << first_free + numbers_taken << " on";
  }
}

// ---- Its report ----

constexpr char kOddMessage[] = "no image \0 at '\xc3\xbc' %s";

absl::Status Fail(Child& child) {
  return absl::Status(static_cast<absl::StatusCode>(child.index()),
                      std::string(kOddMessage, sizeof(kOddMessage) - 1));
}
TENON_SPAWN_ENTRY("fail", Fail);

TEST_F(ProcessTest, StatusOfTheEntryTravels) {
  for (int code = 1; code <= 16; ++code) {
    TENON_ASSERT_OK_AND_ASSIGN(
        Process process, Process::Start({.entry = "fail", .index = code}));
    const std::string who = process.Describe();
    const absl::Status status = process.Join(Watchdog());
    EXPECT_EQ(static_cast<int>(status.code()), code);
    EXPECT_EQ(status.message(),
              absl::StrCat(who, ": ",
                           std::string(kOddMessage, sizeof(kOddMessage) - 1)));
    ASSERT_TRUE(process.exit_status().has_value());
    EXPECT_EQ(process.exit_status()->ToString(), "exited with code 1");
  }
}

absl::Status Succeed(Child&) { return absl::OkStatus(); }
TENON_SPAWN_ENTRY("succeed", Succeed);

TEST_F(ProcessTest, JoinGivesTheSameAnswerEachTime) {
  TENON_ASSERT_OK_AND_ASSIGN(Process process,
                             Process::Start({.entry = "succeed"}));
  EXPECT_FALSE(process.exit_status().has_value());
  for (int i = 0; i < 3; ++i) EXPECT_THAT(process.Join(Watchdog()), IsOk());
  ASSERT_TRUE(process.exit_status().has_value());
  EXPECT_TRUE(process.exit_status()->success());

  TENON_ASSERT_OK_AND_ASSIGN(process,
                             Process::Start({.entry = "fail", .index = 5}));
  const absl::Status once = process.Join(Watchdog());
  EXPECT_EQ(process.Join(Watchdog()), once);
  EXPECT_EQ(process.Join(Deadline::Passed()), once);
}

absl::Status FailAtLength(Child&) {
  return absl::InternalError(std::string(100'000, 'x'));
}
TENON_SPAWN_ENTRY("fail-at-length", FailAtLength);

TEST_F(ProcessTest, LongMessageIsCutWithAMark) {
  TENON_ASSERT_OK_AND_ASSIGN(Process process,
                             Process::Start({.entry = "fail-at-length"}));
  EXPECT_THAT(
      process.Join(Watchdog()),
      StatusIs(absl::StatusCode::kInternal,
               AllOf(HasSubstr("xxxx [cut: "), HasSubstr(" bytes more]"))));
}

absl::Status Throw(Child& child) {
  if (child.argument() == "exception") throw std::runtime_error("boom");
  if (child.argument() == "int") throw 42;
  pthread_exit(nullptr);
}
TENON_SPAWN_ENTRY("throw", Throw);

TEST_F(ProcessTest, ExceptionIsInternalError) {
  for (const auto& [what, message] :
       std::vector<std::pair<std::string, std::string>>{
           {"exception", "uncaught exception std::runtime_error: boom"},
           {"int", "uncaught exception int"},
           {"thread", "ended its thread"}}) {
    TENON_ASSERT_OK_AND_ASSIGN(
        Process process, Process::Start({.entry = "throw", .argument = what}));
    EXPECT_THAT(process.Join(Watchdog()),
                StatusIs(absl::StatusCode::kInternal, HasSubstr(message)));
  }
}

// ---- Its identity ----

TEST_F(ProcessTest, DescribesItself) {
  TENON_ASSERT_OK_AND_ASSIGN(const Process process,
                             Process::Start({.entry = "succeed", .index = 4}));
  EXPECT_EQ(process.index(), 4);
  EXPECT_EQ(process.Describe(), absl::StrCat("worker 4 (entry 'succeed', pid ",
                                             process.pid(), ")"));
}

TEST_F(ProcessTest, UnknownEntryListsTheKnownOnes) {
  EXPECT_THAT(Process::Start({.entry = "sing", .index = 2}),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(StartsWith("cannot start worker 2 (entry 'sing')"),
                             HasSubstr(" echo, "),
                             HasSubstr(" fail, fail-at-length, "))));
}

std::string ReadFile(const char* path) {
  UniqueFd fd(open(path, O_RDONLY | O_CLOEXEC));
  std::string content(4096, '\0');
  const ssize_t size = read(fd.get(), content.data(), content.size());
  return size < 0 ? "read fails" : content.substr(0, size);
}

absl::Status TellNames(Child& child) {
  return Say(child,
             ReadFile("/proc/self/comm") + ReadFile("/proc/self/cmdline"));
}
TENON_SPAWN_ENTRY("tell-names", TellNames);

TEST_F(ProcessTest, IsNamedLikeItsParent) {
  const std::string program = ReadFile("/proc/self/cmdline").c_str();
  EXPECT_THAT(
      AnswerOf({.entry = "tell-names"}),
      IsOkAndHolds(absl::StrCat(ReadFile("/proc/self/comm"), program,
                                std::string("\0--tenon-spawned-child\0", 23))));
}

absl::Status StartGrandchild(Child& child) {
  TENON_ASSIGN_OR_RETURN(Channel channel, TakeChannel(child));
  std::vector<UniqueFd> fds;
  fds.push_back(channel.Release());
  TENON_ASSIGN_OR_RETURN(
      Process grandchild,
      Process::Start(
          {.entry = "tell-index", .index = 17, .fds = std::move(fds)}));
  return grandchild.Join(Watchdog());
}
TENON_SPAWN_ENTRY("start-grandchild", StartGrandchild);

TEST_F(ProcessTest, ChildCanStartChildren) {
  EXPECT_THAT(AnswerOf({.entry = "start-grandchild"}), IsOkAndHolds("17"));
}

TEST_F(ProcessTest, ParentIsInitialized) { EXPECT_TRUE(IsInitialized()); }

}  // namespace
}  // namespace tenon::spawn

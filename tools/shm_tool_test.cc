// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// `tenon shm list`, `gc` and `stats`, in a /dev/shm of their own.

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm/testing/mount_namespace_testing.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm_manager/manager.h"
#include "tenon/shm_manager/manager_client.h"
#include "tenon/tools/cli/json.h"
#include "tenon/tools/tenon_tool.h"

namespace tenon::tools {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Property;
using ::testing::SizeIs;

constexpr size_t kShmToolBytes = 8192;

std::string ShmTool(const std::vector<std::string>& words, int exit_code = 0) {
  std::ostringstream out, errors;
  EXPECT_EQ(RunTenonTool(words, out, errors), exit_code) << errors.str();
  return exit_code == 0 ? out.str() : errors.str();
}

Json ShmToolJson(std::vector<std::string> words) {
  words.push_back("--json");
  return Json::parse(ShmTool(words));
}

absl::StatusOr<Segment> CreateNamedAs(const std::string& prefix) {
  return Segment::CreateSharedWritable(
      kShmToolBytes,
      {.strategy = SharingStrategy::kFileSystem, .name_prefix = prefix});
}

void LeaveDeadName() {
  const pid_t child = fork();
  if (child == 0) {
    const auto segment = CreateNamedAs("dead");
    if (segment.ok()) raise(SIGKILL);
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
}

class ShmToolTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!CanEnterOwnMountNamespace()) GTEST_SKIP() << kNoMountNamespace;
  }
  static testing::AssertionResult InOwnShm(const std::function<void()>& body) {
    return PassesInChild([&] {
      ASSERT_TRUE(EnterOwnMountNamespace());
      ASSERT_TRUE(MountTmpfs("/dev/shm", "size=8m"));
      body();
    });
  }
};

TEST_F(ShmToolTest, ListsNamesWithStatesAndHolders) {
  EXPECT_TRUE(InOwnShm([] {
    EXPECT_THAT(ShmTool({"shm", "list"}), HasSubstr("no named segments"));
    TENON_ASSERT_OK_AND_ASSIGN(const Segment alive, CreateNamedAs("alive"));
    LeaveDeadName();
    const std::string text = ShmTool({"shm", "list"});
    EXPECT_THAT(text, AllOf(HasSubstr(alive.name()), HasSubstr("8.0 KiB"),
                            HasSubstr(absl::StrCat("  ", getpid(), " "))));
    const Json segments = ShmToolJson({"shm", "list"})["segments"];
    ASSERT_THAT(segments, SizeIs(2));
    EXPECT_EQ(segments[0]["name"], alive.name());
    EXPECT_EQ(segments[0]["state"], "held");
    EXPECT_EQ(segments[0]["size_bytes"], kShmToolBytes);
    ASSERT_THAT(segments[0]["holders"], SizeIs(1));
    EXPECT_EQ(segments[0]["holders"][0]["pid"], getpid());
    EXPECT_EQ(segments[1]["state"], "dead");
    EXPECT_THAT(segments[1]["holders"], SizeIs(0));
  }));
}

TEST_F(ShmToolTest, HoldersOfChosenNamesAreShown) {
  EXPECT_TRUE(InOwnShm([] {
    TENON_ASSERT_OK_AND_ASSIGN(
        Segment chosen,
        Segment::CreateSharedWritable(kShmToolBytes, {.name = "cam.frames"}));
    TENON_ASSERT_OK_AND_ASSIGN(const auto mapping, chosen.MapReadOnly());
    for (const bool is_open : {true, false}) {
      const Json segments = ShmToolJson({"shm", "list"})["segments"];
      ASSERT_THAT(segments, SizeIs(1));
      EXPECT_EQ(segments[0]["name"], "cam.frames");
      ASSERT_THAT(segments[0]["holders"], SizeIs(1)) << is_open;
      EXPECT_EQ(segments[0]["holders"][0]["pid"], getpid());
      ASSERT_THAT(chosen.CloseFd(), IsOk());  // The mapping holds it.
    }
  }));
}

TEST_F(ShmToolTest, WithoutProcTheStatesAreStillExact) {
  EXPECT_TRUE(InOwnShm([] {
    TENON_ASSERT_OK_AND_ASSIGN(const Segment alive, CreateNamedAs("alive"));
    LeaveDeadName();
    ASSERT_TRUE(MountTmpfs("/proc", "size=1m"));
    EXPECT_THAT(ShmTool({"shm", "list"}),
                AllOf(HasSubstr("not visible here"), HasSubstr("dead")));
    EXPECT_EQ(ShmToolJson({"shm", "gc"})["names"].size(), 1u);
  }));
}

TEST_F(ShmToolTest, GcRemovesTheDeadOnly) {
  EXPECT_TRUE(InOwnShm([] {
    EXPECT_THAT(ShmTool({"shm", "gc"}), HasSubstr("no names are left"));
    TENON_ASSERT_OK_AND_ASSIGN(const Segment alive, CreateNamedAs("alive"));
    ASSERT_GE(open("/dev/shm/foreign", O_RDWR | O_CREAT | O_CLOEXEC, 0600), 0);
    LeaveDeadName();
    LeaveDeadName();
    EXPECT_THAT(ShmTool({"shm", "gc", "--dry-run"}),
                HasSubstr("would remove 2 names, 16.0 KiB"));
    const Json dry = ShmToolJson({"shm", "gc", "--dry-run"});
    EXPECT_EQ(dry["removed"], false);
    EXPECT_EQ(dry["bytes"], 2 * kShmToolBytes);
    EXPECT_THAT(ListShmNames("dead"), IsOkAndHolds(SizeIs(2)));
    EXPECT_THAT(ShmTool({"shm", "gc"}),
                AllOf(HasSubstr("removed 2 names, 16.0 KiB"),
                      Not(HasSubstr("alive")), Not(HasSubstr("foreign"))));
    EXPECT_THAT(ListShmNames("dead"), IsOkAndHolds(SizeIs(0)));
    EXPECT_THAT(ListShmNames("alive"), IsOkAndHolds(SizeIs(1)));
    EXPECT_THAT(ListShmNames("foreign"), IsOkAndHolds(SizeIs(1)));
  }));
}

TEST_F(ShmToolTest, StatsAreThoseOfTheDaemon) {
  EXPECT_TRUE(InOwnShm([] {
    char folder[] = "/tmp/tenon_shm_tool_XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    ASSERT_EQ(setenv("XDG_RUNTIME_DIR", folder, 1), 0);
    EXPECT_THAT(ShmTool({"shm", "stats"}, 1), HasSubstr("no daemon listens"));
    TENON_ASSERT_OK_AND_ASSIGN(const std::string path, ManagerPath("training"));
    EXPECT_EQ(rmdir((std::string(folder) + "/tenon").c_str()), -1)
        << "a question has made a folder";
    EXPECT_THAT(MakeManagerFolder(path), IsOk());
    LeaveDeadName();
    TENON_ASSERT_OK_AND_ASSIGN(const auto manager, Manager::Create(path, {}));
    const pid_t child = fork();
    if (child == 0) {
      // Until the sweep with which the daemon begins.
      auto client = ManagerClient::Attach({.path = path},
                                          Deadline::After(absl::Seconds(10)));
      if (!client.ok() || !Becomes([&] {
            const auto stats =
                client->QueryStats(Deadline::After(absl::Seconds(10)));
            return stats.ok() && stats->sweeps == 1;
          })) {
        _exit(1);
      }
      const bool shown =
          ShmToolJson({"shm", "stats", "--group", "training"}) ==
              Json({{"clients", 2},
                    {"kept_names", 0},
                    {"attached", 2},
                    {"refused", 0},
                    {"malformed", 0},
                    {"sweeps", 1},
                    {"failed_sweeps", 0},
                    {"removed_names", 1},
                    {"removed_bytes", kShmToolBytes}}) &&
          ShmTool({"shm", "stats", "--group=training"}).find("8.0 KiB") !=
              std::string::npos;
      _exit(shown ? 0 : 1);
    }
    TENON_ASSERT_OK_AND_ASSIGN(const PidFd tool, PidFd::Open(child));
    EXPECT_THAT(manager->Run(tool.fd()), IsOk());
    EXPECT_THAT(tool.Reap(Deadline::After(absl::Seconds(10))),
                IsOkAndHolds(Property(&ExitStatus::success, true)));
    EXPECT_EQ(rmdir((std::string(folder) + "/tenon").c_str()), 0);
    EXPECT_EQ(rmdir(folder), 0);
  }));
}

TEST(ShmToolHelpTest, SubcommandsHaveHelpAndErrors) {
  EXPECT_THAT(ShmTool({"help"}),
              AllOf(HasSubstr("shm list"), HasSubstr("shm gc"),
                    HasSubstr("shm stats")));
  EXPECT_THAT(ShmTool({"help", "shm", "gc"}), HasSubstr("--dry-run"));
  EXPECT_THAT(ShmTool({"shm", "list", "--help"}), HasSubstr("HOLDERS"));
  EXPECT_THAT(ShmTool({"shm"}, 2), HasSubstr("unknown command 'shm'"));
  EXPECT_THAT(ShmTool({"shm", "lst"}, 2), HasSubstr("did you mean 'shm list'"));
  EXPECT_THAT(ShmTool({"shm", "gc", "--jso"}, 2), HasSubstr("--json"));
}

}  // namespace
}  // namespace tenon::tools

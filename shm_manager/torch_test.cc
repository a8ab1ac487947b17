// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The daemon's listener for torch, with torch. The Python that has it:
// TENON_TORCH_PYTHON, or python3; skipped where that cannot import torch.
//
//   ./bazelw test --test_env=TENON_TORCH_PYTHON=/opt/venv/bin/python
//       //shm_manager:torch_test

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <iostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/mount_namespace_testing.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm_manager/manager.h"
#include "tenon/shm_manager/manager_client.h"
#include "tenon/shm_manager/manager_testing.h"
#include "tenon/shm_manager/torch_process.h"
#include "tenon/shm_manager/torch_storage.h"
#include "tenon/shm_manager/torch_testing.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kProgram[] = "shm_manager/tenon_shm_manager";

// A loaded machine takes long to import torch.
const ManagerOptions kPatient = {.idle_exit = absl::Minutes(5)};

// What _share_filename_cpu_() returned.
struct Shared {
  std::string manager;
  std::string name;  // With a slash.
  size_t size = 0;
};

Shared Share(Torch& torch, absl::string_view tensor) {
  const std::string answer = torch.Run(absl::StrCat("share(", tensor, ")"));
  const std::vector<std::string> parts = absl::StrSplit(answer, ' ');
  Shared shared;
  EXPECT_EQ(parts.size(), 3u) << answer;
  if (parts.size() != 3) return shared;
  shared.manager = parts[0];
  shared.name = parts[1];
  EXPECT_TRUE(absl::SimpleAtoi(parts[2], &shared.size)) << answer;
  return shared;
}

bool Exists(const Shared& shared) {
  return !shared.name.empty() && TorchFileExists(shared.name.substr(1));
}

class TorchTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!CanEnterOwnMountNamespace()) GTEST_SKIP() << kNoMountNamespace;
    const std::string problem = TorchProblem();
    if (!problem.empty()) GTEST_SKIP() << problem;
  }

  // A program in place of torch's own manager: in this mount namespace only.
  static void ReplaceManager(Torch& torch, const std::string& script,
                             absl::string_view text) {
    const std::string file = torch.Run("os.path.dirname(torch.__file__)");
    const std::string manager = absl::StrCat(file, "/bin/torch_shm_manager");
    ASSERT_EQ(access(manager.c_str(), X_OK), 0) << manager;
    const std::string whole = absl::StrCat("#!/bin/sh\n", text, "\n");
    const UniqueFd out(
        open(script.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0700));
    ASSERT_EQ(write(out.get(), whole.data(), whole.size()),
              static_cast<ssize_t>(whole.size()));
    ASSERT_EQ(mount(script.c_str(), manager.c_str(), nullptr, MS_BIND, nullptr),
              0);
  }
};

TEST_F(TorchTest, OpensASegmentOfTenonAndReadsAndWritesIt) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    const TorchSocketGuard guard(folder);
    TENON_ASSERT_OK_AND_ASSIGN(
        ForkedChild daemon,
        StartDaemon(folder.path(), WithTorch(folder, kPatient)));
    TENON_ASSERT_OK_AND_ASSIGN(ManagerClient client, AttachTo(folder.path()));
    Torch torch;
    std::string name;
    {
      TENON_ASSERT_OK_AND_ASSIGN(TorchStorage storage, TorchStorage::Create(4));
      name = storage.name();
      for (size_t i = 0; i < 4; ++i) {
        storage.bytes()[i] = static_cast<std::byte>(10 + i);
      }
      EXPECT_EQ(torch.Run(absl::StrCat("t = receive('", TorchPath(folder),
                                       "', '", name, "', 4)")),
                "ok");
      EXPECT_EQ(torch.Run("t.tolist()"), "[10, 11, 12, 13]");
      EXPECT_EQ(ReferencesOf(name.substr(1)), 2);
      EXPECT_EQ(torch.Run("t[3] = 77"), "ok");
      EXPECT_EQ(storage.bytes()[3], std::byte{77});
      EXPECT_EQ(torch.Run("del t"), "ok");
      EXPECT_EQ(ReferencesOf(name.substr(1)), 1);
      EXPECT_EQ(torch.Run(absl::StrCat("t = receive('", TorchPath(folder),
                                       "', '", name, "', 4)")),
                "ok");
      TENON_ASSERT_OK_AND_ASSIGN(const ManagerStats stats,
                                 client.QueryStats(Soon()));
      EXPECT_EQ(stats.clients, 2u);
    }
    // The name goes with Tenon's holder, torch keeps the memory, and its end
    // does not try to remove the name again, which would end it by SIGABRT.
    EXPECT_FALSE(TorchFileExists(name.substr(1)));
    EXPECT_EQ(torch.Run("t.tolist()"), "[10, 11, 12, 77]");
    EXPECT_EQ(torch.Run("del t"), "ok");
    EXPECT_EQ(torch.End(), 0);
  }));
}

TEST_F(TorchTest, SharesATensorWithTenonAndItsNameGoesWithTheLastHolder) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    const TorchSocketGuard guard(folder);
    TENON_ASSERT_OK_AND_ASSIGN(
        ForkedChild daemon,
        StartDaemon(folder.path(), WithTorch(folder, kPatient)));
    Torch torch;
    ReplaceManager(torch, absl::StrCat(folder.folder(), "/script"),
                   absl::StrCat("echo ", TorchPath(folder)));
    ASSERT_EQ(unlink(absl::StrCat(folder.folder(), "/script").c_str()), 0);
    EXPECT_EQ(torch.Run("t = torch.arange(4, dtype=torch.uint8)"), "ok");
    const Shared shared = Share(torch, "t");
    EXPECT_EQ(shared.manager, TorchPath(folder));
    EXPECT_THAT(shared.name,
                StartsWith(absl::StrCat("/torch_", torch.pid(), "_")));
    EXPECT_EQ(shared.size, 4u);
    {
      TENON_ASSERT_OK_AND_ASSIGN(
          TorchStorage storage,
          TorchStorage::Open(shared.manager, shared.name, shared.size, Soon()));
      EXPECT_EQ(storage.bytes()[3], std::byte{3});
      storage.bytes()[0] = std::byte{55};
      EXPECT_EQ(torch.Run("t.tolist()"), "[55, 1, 2, 3]");
      EXPECT_EQ(torch.Run("del t"), "ok");
      EXPECT_TRUE(Exists(shared));  // Tenon's reference is left.
      EXPECT_EQ(storage.bytes()[2], std::byte{2});
    }
    EXPECT_FALSE(Exists(shared));
    EXPECT_EQ(torch.End(), 0);
  }));
}

TEST_F(TorchTest, WhatOnlyAKilledProcessHeldIsRemovedAtOnce) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    const TorchSocketGuard guard(folder);
    TENON_ASSERT_OK_AND_ASSIGN(
        ForkedChild daemon,
        StartDaemon(folder.path(), WithTorch(folder, kPatient)));
    Torch creator;
    ReplaceManager(creator, absl::StrCat(folder.folder(), "/script"),
                   absl::StrCat("echo ", TorchPath(folder)));
    ASSERT_EQ(unlink(absl::StrCat(folder.folder(), "/script").c_str()), 0);
    Torch opener;  // Both keep the daemon's group alive.
    EXPECT_EQ(creator.Run("a, b, c = (torch.ones(9) for _ in range(3))"), "ok");
    const Shared alone = Share(creator, "a");
    const Shared both = Share(creator, "b");
    const Shared in_flight = Share(creator, "c");
    EXPECT_EQ(opener.Run(absl::StrCat("b = receive('", both.manager, "', '",
                                      both.name, "', 36, torch.float)")),
              "ok");
    // As reductions.py does for a message.
    EXPECT_EQ(creator.Run("c.untyped_storage()._shared_incref() and None"),
              "None");
    // A child that has its parent's tensors, and one of its own.
    EXPECT_EQ(creator.Run("kept = []"), "ok");
    const std::string kid = creator.Run(
        "forked(lambda: (kept.append(torch.ones(3)), share(kept[0]), "
        "__import__('time').sleep(1000)))");
    const std::string kids_prefix = absl::StrCat("torch_", kid, "_");
    EXPECT_TRUE(BecomesCount(kids_prefix, 1));
    const absl::Time begin = absl::Now();
    creator.Kill();
    EXPECT_TRUE(Becomes([&] { return !Exists(alone); }));
    std::cout << "removed " << absl::Now() - begin << " after SIGKILL"
              << std::endl;
    EXPECT_TRUE(Exists(both));
    EXPECT_TRUE(Exists(in_flight));
    EXPECT_EQ(CountNames(kids_prefix), 1u);
    EXPECT_EQ(opener.Run("b.sum().item()"), "9.0");
    EXPECT_EQ(
        opener.Run(absl::StrCat("c = receive('", in_flight.manager, "', '",
                                in_flight.name, "', 36, torch.float)")),
        "ok");
    EXPECT_EQ(opener.Run("c.untyped_storage()._shared_decref() and None"),
              "None");
    pid_t kid_pid = 0;
    ASSERT_TRUE(absl::SimpleAtoi(kid, &kid_pid));
    ASSERT_EQ(kill(kid_pid, SIGKILL), 0);
    EXPECT_TRUE(BecomesCount(kids_prefix, 0));
    // Torch's count of both has the reference of the killed process.
    EXPECT_EQ(opener.Run("del b, c"), "ok");
    EXPECT_TRUE(Becomes([&] { return CountNames("torch_") == 0; }));
    EXPECT_EQ(opener.End(), 0);
  }));
}

// It would end by SIGABRT if its own count told it to remove the name.
TEST_F(TorchTest, AForkedChildOutlivesTheNamesOfItsParent) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    const TorchSocketGuard guard(folder);
    TENON_ASSERT_OK_AND_ASSIGN(
        ForkedChild daemon,
        StartDaemon(folder.path(), WithTorch(folder, kPatient)));
    Torch torch;
    ReplaceManager(torch, absl::StrCat(folder.folder(), "/script"),
                   absl::StrCat("echo ", TorchPath(folder)));
    ASSERT_EQ(unlink(absl::StrCat(folder.folder(), "/script").c_str()), 0);
    EXPECT_EQ(torch.Run("t = [torch.ones(3)]"), "ok");
    const Shared shared = Share(torch, "t[0]");
    // The child waits for the name to go, drops the tensor, and says so.
    torch.Run(absl::StrCat(
        "forked(lambda: ([None for _ in iter(lambda: os.path.exists('/dev/shm",
        shared.name, "'), False)], t.clear(), open('/dev/shm/lived', 'w')))"));
    torch.Kill();
    EXPECT_TRUE(Becomes([] { return TorchFileExists("lived"); }));
  }));
}

// The way that the documentation shows.
TEST_F(TorchTest, AScriptInPlaceOfTorchsManagerStartsTheDaemon) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    char* const here = get_current_dir_name();
    const std::string program = absl::StrCat(here, "/", kProgram);
    free(here);
    const std::string script = absl::StrCat(folder.folder(), "/script");
    {
      Torch torch;
      ReplaceManager(
          torch, script,
          absl::StrCat(program, " --detach --idle_exit=1s --path=",
                       folder.path(), " --torch_path=", TorchPath(folder),
                       " >&2 && echo ", TorchPath(folder)));
      EXPECT_EQ(torch.Run("from torch.utils.data import DataLoader"), "ok");
      // Batches by the loader's workers, which are forked and share the
      // connection of this process; each is a name in flight, then opened.
      EXPECT_EQ(torch.Run("first = torch.ones(3)"), "ok");
      EXPECT_EQ(Share(torch, "first").manager, TorchPath(folder));
      EXPECT_EQ(torch.Run("torch.cat(list(DataLoader(torch.arange(1000), "
                          "batch_size=10, num_workers=2, "
                          "multiprocessing_context='fork'))).tolist() == "
                          "list(range(1000))"),
                "True");
      EXPECT_EQ(torch.Run("torch.cat(list(DataLoader(torch.arange(100), "
                          "batch_size=10, num_workers=1, "
                          "multiprocessing_context='fork'))).sum().item()"),
                "4950");
      EXPECT_TRUE(BecomesCount("torch_", 1));
      // Another process starts none, and is told the same socket.
      Torch second;
      EXPECT_EQ(second.Run("t = torch.ones(3)"), "ok");
      EXPECT_EQ(Share(second, "t").manager, TorchPath(folder));
      EXPECT_TRUE(BecomesCount("torch_", 2));
      torch.Kill();
      EXPECT_TRUE(BecomesCount("torch_", 1));
    }
    EXPECT_TRUE(BecomesCount("torch_", 0));
    // It exits when torch has gone.
    EXPECT_TRUE(Becomes([&] {
      return access(folder.path().c_str(), F_OK) != 0 &&
             access(TorchPath(folder).c_str(), F_OK) != 0;
    }));
    EXPECT_EQ(unlink(script.c_str()), 0);
  }));
}

TEST_F(TorchTest, ANameThatIsNotOfTorchIsAnExceptionThere) {
  EXPECT_TRUE(InOwnShm([] {
    const ManagerFolder folder;
    const TorchSocketGuard guard(folder);
    TENON_ASSERT_OK_AND_ASSIGN(
        ForkedChild daemon,
        StartDaemon(folder.path(), WithTorch(folder, kPatient)));
    ASSERT_TRUE(MakeTorchFile("foreign", 1));
    Torch torch;
    EXPECT_THAT(torch.Run(absl::StrCat("receive('", TorchPath(folder),
                                       "', '/foreign', 8)")),
                HasSubstr("didn't respond with an OK"));
    EXPECT_EQ(ReferencesOf("foreign"), 1);
    EXPECT_THAT(torch.Run(absl::StrCat("receive('", TorchPath(folder),
                                       "', '/torch_1_2', 8)")),
                HasSubstr("No such file"));
  }));
}

}  // namespace
}  // namespace tenon

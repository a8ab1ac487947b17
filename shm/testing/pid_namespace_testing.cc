// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/pid_namespace_testing.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "gtest/gtest.h"
#include "tenon/shm/testing/mount_namespace_testing.h"
#include "tenon/shm/testing/process_testing.h"

namespace tenon {
namespace {

bool EnterOwnNamespaces() {
  return EnterOwnMountNamespace() && unshare(CLONE_NEWPID) == 0;
}

bool MountProc(Proc proc) {
  switch (proc) {
    case Proc::kOuter:
      return true;
    case Proc::kOwn:
      return mount("proc", "/proc", "proc", 0, nullptr) == 0;
    case Proc::kNone:
      return MountTmpfs("/proc", "size=1m");
  }
  return false;
}

}  // namespace

bool CanEnterOwnPidNamespace() {
  const pid_t probe = fork();
  if (probe == 0) _exit(EnterOwnNamespaces() ? 0 : 1);
  int status = -1;
  return waitpid(probe, &status, 0) == probe && status == 0;
}

testing::AssertionResult PassesInPidNamespace(
    Proc proc, const std::function<void()>& body) {
  return PassesInChild([&] {
    ASSERT_TRUE(EnterOwnNamespaces());
    EXPECT_TRUE(PassesInChild([&] {
      ASSERT_EQ(getpid(), 1);
      ASSERT_TRUE(MountProc(proc));
      body();
    }));
  });
}

}  // namespace tenon

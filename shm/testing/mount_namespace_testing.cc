// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/mount_namespace_testing.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace tenon {
namespace {

bool WriteFile(const char* path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  return static_cast<bool>(file.flush());
}

}  // namespace

bool CanEnterOwnMountNamespace() {
  const pid_t probe = fork();
  if (probe == 0) {
    const bool works =
        EnterOwnMountNamespace() && MountTmpfs("/dev/shm", "size=1m");
    _exit(works ? 0 : 1);
  }
  int status = -1;
  return waitpid(probe, &status, 0) == probe && status == 0;
}

bool EnterOwnMountNamespace() {
  const std::string uid = absl::StrCat(getuid(), " ", getuid(), " 1");
  const std::string gid = absl::StrCat(getgid(), " ", getgid(), " 1");
  return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
         WriteFile("/proc/self/setgroups", "deny") &&
         WriteFile("/proc/self/uid_map", uid) &&
         WriteFile("/proc/self/gid_map", gid) &&
         mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

bool MountTmpfs(const char* path, const char* options, unsigned long flags) {
  return mount("tmpfs", path, "tmpfs", flags, options) == 0;
}

}  // namespace tenon

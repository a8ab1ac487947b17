// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/process/keeper.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/process/keeper_name.h"

namespace tenon {

absl::Status BecomeKeeper() {
  if (syscall(SYS_gettid) != getpid()) {
    return absl::FailedPreconditionError(
        "BecomeKeeper(): called by a thread that is not the main thread, whose "
        "name is that of the process");
  }
  const std::string name = absl::StrCat(kKeeperName, getpid());
  if (prctl(PR_SET_NAME, name.c_str()) == 0) return absl::OkStatus();
  return PosixError(errno, "prctl(PR_SET_NAME)", name);
}

}  // namespace tenon

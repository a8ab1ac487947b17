// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/segment/sharing_strategy.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <atomic>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/memfd.h"

namespace tenon {
namespace {

constexpr SharingStrategy kAll[] = {SharingStrategy::kFileDescriptor,
                                    SharingStrategy::kFileSystem};

std::atomic<SharingStrategy> current{SharingStrategy::kFileDescriptor};

bool CanMakeMemfds() {
  const absl::Status made = OpenMemfd("tenon", 0, "a trial").status();
  return made.ok() || absl::IsResourceExhausted(made);
}

bool MayWrite(const char* directory) {
  constexpr int kMode = W_OK | X_OK;
  if (faccessat(AT_FDCWD, directory, kMode, AT_EACCESS) == 0) return true;
  // Filters of old container runtimes forbid faccessat2(). The older call
  // checks the real user, which equals the effective one unless a program is
  // setuid.
  return errno == EPERM && access(directory, kMode) == 0;
}

// Whether names can be held (name_token.h). A limit of descriptors says nothing
// about that.
bool HasLocks(const char* directory) {
  const UniqueFd fd(open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return true;
  struct flock lock = {.l_type = F_RDLCK,
                       .l_whence = SEEK_SET,
                       .l_start = 0,
                       .l_len = 1,
                       .l_pid = 0};
  return fcntl(fd.get(), F_OFD_GETLK, &lock) == 0;
}

bool CanMakeNames() {
  struct statfs fs;
  return statfs("/dev/shm", &fs) == 0 && fs.f_type == TMPFS_MAGIC &&
         MayWrite("/dev/shm") && HasLocks("/dev/shm");
}

bool IsSupported(SharingStrategy strategy) {
  switch (strategy) {
    case SharingStrategy::kFileDescriptor:
      return CanMakeMemfds();
    case SharingStrategy::kFileSystem:
      return CanMakeNames();
  }
  return false;
}

}  // namespace

std::span<const SharingStrategy> AllSharingStrategies() { return kAll; }

std::vector<SharingStrategy> SupportedSharingStrategies() {
  std::vector<SharingStrategy> supported;
  for (const SharingStrategy strategy : kAll) {
    if (IsSupported(strategy)) supported.push_back(strategy);
  }
  return supported;
}

absl::string_view SharingStrategyName(SharingStrategy strategy) {
  switch (strategy) {
    case SharingStrategy::kFileDescriptor:
      return "file_descriptor";
    case SharingStrategy::kFileSystem:
      return "file_system";
  }
  return "unknown";
}

absl::StatusOr<SharingStrategy> ParseSharingStrategy(absl::string_view name) {
  for (SharingStrategy strategy : kAll) {
    if (name == SharingStrategyName(strategy)) return strategy;
  }
  const std::string known =
      absl::StrJoin(kAll, ", ", [](std::string* out, SharingStrategy strategy) {
        absl::StrAppend(out, SharingStrategyName(strategy));
      });
  return absl::InvalidArgumentError(absl::StrCat("unknown sharing strategy '",
                                                 absl::CHexEscape(name),
                                                 "'; want one of: ", known));
}

SharingStrategy GetSharingStrategy() {
  return current.load(std::memory_order_relaxed);
}

void SetSharingStrategy(SharingStrategy strategy) {
  current.store(strategy, std::memory_order_relaxed);
}

}  // namespace tenon

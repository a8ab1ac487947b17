// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/pages/shown_memfd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/memfd.h"

namespace tenon {
namespace {

// "/memfd:" and a label, of which the kernel takes 249 bytes, and " (deleted)".
constexpr size_t kMaxLink = 320;

std::string PathOf(pid_t pid, int fd) {
  return absl::StrCat("/proc/", pid, "/fd/", fd);
}

// The numbers among the entries of a directory of /proc, at most `most` + 1.
absl::StatusOr<std::vector<int>> NumbersIn(const std::string& folder,
                                           size_t most) {
  struct Close {
    void operator()(DIR* dir) const { closedir(dir); }
  };
  const std::unique_ptr<DIR, Close> dir(opendir(folder.c_str()));
  if (dir == nullptr) return PosixError(errno, "opendir", folder);
  std::vector<int> numbers;
  while (const dirent* entry = readdir(dir.get())) {
    int number;
    if (absl::SimpleAtoi(entry->d_name, &number)) numbers.push_back(number);
    if (numbers.size() > most) break;
  }
  return numbers;
}

// The attributes of a file that are known without a query of its file system.
std::optional<struct statx> StatWithoutSync(int at, const char* path,
                                            int flags) {
  struct statx file;
  if (statx(at, path, flags | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &file) !=
      0) {
    return std::nullopt;
  }
  return file;
}

MemfdId IdOf(const struct statx& file) {
  return {makedev(file.stx_dev_major, file.stx_dev_minor), file.stx_ino};
}

// The device of memfds, shared with only a few other internal files of the
// kernel.
absl::StatusOr<dev_t> DeviceOfMemfds() {
  static std::atomic<dev_t> known = 0;
  if (const dev_t device = known; device != 0) return device;
  TENON_ASSIGN_OR_RETURN(const UniqueFd fd,
                         OpenMemfd("tenon.look", 0, "a memfd to look at"));
  struct stat file;
  if (fstat(fd.get(), &file) != 0) return PosixError(errno, "fstat", "a memfd");
  known = file.st_dev;
  return file.st_dev;
}

// What is named like a memfd, behind "/memfd:".
std::optional<std::string> ReadLabel(const std::string& path) {
  char link[kMaxLink];
  const ssize_t length = readlink(path.c_str(), link, sizeof(link));
  if (length <= 0) return std::nullopt;
  absl::string_view label(link, static_cast<size_t>(length));
  if (!absl::ConsumePrefix(&label, "/memfd:") ||
      !absl::ConsumeSuffix(&label, " (deleted)")) {
    return std::nullopt;
  }
  return std::string(label);
}

bool IsALimit(int error) { return error == EMFILE || error == ENFILE; }

}  // namespace

absl::StatusOr<std::vector<pid_t>> AllPids() {
  return NumbersIn("/proc", SIZE_MAX - 1);
}

bool IsOfThisUser(pid_t pid) {
  struct stat process;
  return stat(absl::StrCat("/proc/", pid).c_str(), &process) == 0 &&
         process.st_uid == geteuid();
}

absl::StatusOr<std::vector<int>> FdsOf(pid_t pid, size_t most) {
  return NumbersIn(absl::StrCat("/proc/", pid, "/fd"), most);
}

std::string LabelOfOwnMemfd(int fd) {
  return ReadLabel(absl::StrCat("/proc/self/fd/", fd)).value_or("");
}

absl::StatusOr<std::optional<ShownMemfd>> InspectMemfd(pid_t pid, int fd) {
  using None = std::optional<ShownMemfd>;
  const std::string path = PathOf(pid, fd);
  std::optional<std::string> label = ReadLabel(path);
  if (!label.has_value()) return None();
  TENON_ASSIGN_OR_RETURN(const dev_t device, DeviceOfMemfds());
  const auto file = StatWithoutSync(AT_FDCWD, path.c_str(), 0);
  if (!file.has_value()) return None();
  const MemfdId id = IdOf(*file);
  if (id.device != device) return None();  // Only named like a memfd.
  return std::optional(ShownMemfd{*std::move(label), id, file->stx_size});
}

// The first descriptor (O_PATH) does not open the file, and so queries no file
// system.
absl::StatusOr<UniqueFd> OpenShownMemfd(pid_t pid, int fd, const MemfdId& id) {
  const std::string path = PathOf(pid, fd);
  const UniqueFd named(open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!named.valid()) {
    if (!IsALimit(errno)) return UniqueFd();
    return PosixError(errno, "open", path);
  }
  const auto file = StatWithoutSync(named.get(), "", AT_EMPTY_PATH);
  if (!file.has_value() || IdOf(*file) != id) return UniqueFd();
  UniqueFd opened(open(absl::StrCat("/proc/self/fd/", named.get()).c_str(),
                       O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!opened.valid() && IsALimit(errno)) {
    return PosixError(errno, "open", path);
  }
  return opened;
}

}  // namespace tenon

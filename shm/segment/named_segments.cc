// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/segment/named_segments.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/size_text.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/name_token.h"
#include "tenon/shm/segment/shm_name.h"

namespace tenon {
namespace {

using Folder = std::unique_ptr<DIR, int (*)(DIR*)>;
using Maybe = std::optional<NamedSegment>;
// What to do with a name: the segment, if it counts.
using Visit = absl::StatusOr<Maybe> (*)(int folder, const std::string& name);

struct FileId {
  uint64_t device;
  uint64_t inode;
  bool operator==(const struct stat& file) const {
    return file.st_dev == device && file.st_ino == inode;
  }
};

std::string Describe(absl::string_view name) {
  return absl::StrCat("segment '", name, "' in /dev/shm");
}

absl::StatusOr<Folder> OpenFolder() {
  Folder folder(opendir("/dev/shm"), closedir);
  if (folder == nullptr && errno != ENOENT) {
    return PosixError(errno, "opendir", "/dev/shm");
  }
  return folder;
}

// The file of a named segment, open for writing; nullopt if the name is not a
// segment of this user, or is gone.
struct OpenName {
  UniqueFd fd;
  struct stat file;
};
absl::StatusOr<std::optional<OpenName>> Open(int folder,
                                             const std::string& name) {
  OpenName open;
  // Before it is opened: opening a device or a FIFO has effects.
  if (fstatat(folder, name.c_str(), &open.file, AT_SYMLINK_NOFOLLOW) != 0 ||
      !HasNameToken(open.file)) {
    return std::nullopt;
  }
  open.fd = UniqueFd(
      openat(folder, name.c_str(),
             O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!open.fd.valid()) {
    const int error = errno;
    if (error == EMFILE || error == ENFILE || error == ENOMEM ||
        error == EROFS) {
      return PosixError(error, "openat", Describe(name));
    }
    return std::nullopt;  // Removed or exchanged since.
  }
  if (fstat(open.fd.get(), &open.file) != 0) {
    return PosixError(errno, "fstat", Describe(name));
  }
  if (!HasNameToken(open.file)) return std::nullopt;
  return open;
}

NamedSegment FromStat(const std::string& name, const struct stat& file,
                      bool is_held) {
  return {.name = name,
          .size_bytes = static_cast<uint64_t>(file.st_size),
          .allocated_bytes = static_cast<uint64_t>(file.st_blocks) * 512,
          .device = file.st_dev,
          .inode = file.st_ino,
          .created = absl::TimeFromTimespec(file.st_ctim),
          .is_finished = (file.st_mode & 07777) == kFinishedNameMode,
          .is_held = is_held};
}

absl::StatusOr<Maybe> Examine(int folder, const std::string& name) {
  TENON_ASSIGN_OR_RETURN(const std::optional<OpenName> open,
                         Open(folder, name));
  if (!open) return std::nullopt;
  TENON_ASSIGN_OR_RETURN(const bool is_held,
                         IsNameHeld(open->fd.get(), Describe(name)));
  return FromStat(name, open->file, is_held);
}

// Removes the name by a process that has locked its removal, so that it refers
// to that file until then; false if another process removed it before that, and
// there may be a new file of that name.
absl::StatusOr<bool> Remove(int folder, const std::string& name,
                            const struct stat& file) {
  struct stat now;
  if (fstatat(folder, name.c_str(), &now, AT_SYMLINK_NOFOLLOW) != 0 ||
      now.st_ino != file.st_ino || now.st_dev != file.st_dev) {
    return false;
  }
  if (unlinkat(folder, name.c_str(), 0) == 0) return true;
  if (errno == ENOENT) return false;
  return PosixError(errno, "unlinkat", Describe(name));
}

absl::StatusOr<Maybe> Reclaim(int folder, const std::string& name) {
  TENON_ASSIGN_OR_RETURN(const std::optional<OpenName> open,
                         Open(folder, name));
  if (!open) return std::nullopt;
  TENON_ASSIGN_OR_RETURN(const bool is_dead,
                         LockDeadName(open->fd.get(), Describe(name)));
  if (!is_dead) return std::nullopt;
  TENON_CRASH_POINT("segment.reclaim.locked");
  // From now on the file gains no holder.
  TENON_ASSIGN_OR_RETURN(const bool removed, Remove(folder, name, open->file));
  if (!removed) return std::nullopt;
  TENON_CRASH_POINT("segment.reclaim.removed");
  return FromStat(name, open->file, false);
}

struct Visited {
  std::vector<NamedSegment> segments;  // Sorted by name, each once.
  absl::Status first_error;            // Of any name, or of the folder.
};

Visited VisitAll(Visit visit) {
  Visited visited;
  const auto names = ListAllShmNames();
  const absl::StatusOr<Folder> folder = OpenFolder();
  visited.first_error = names.status();
  visited.first_error.Update(folder.status());
  if (!visited.first_error.ok() || *folder == nullptr) return visited;
  for (const std::string& name : *names) {
    absl::StatusOr<Maybe> segment = visit(dirfd(folder->get()), name);
    visited.first_error.Update(segment.status());
    if (segment.ok() && *segment) {
      visited.segments.push_back(**std::move(segment));
    }
  }
  return visited;
}

}  // namespace

absl::StatusOr<std::vector<NamedSegment>> ListNamedSegments() {
  Visited visited = VisitAll(Examine);
  if (!visited.first_error.ok()) return visited.first_error;
  return std::move(visited.segments);
}

absl::StatusOr<std::vector<NamedSegment>> ReclaimDeadNames() {
  Visited visited = VisitAll(Reclaim);
  if (!visited.first_error.ok() && visited.segments.empty()) {
    return visited.first_error;
  }
  return std::move(visited.segments);
}

namespace {

// Why a chosen name cannot be given to a new segment; OK if it is free, or will
// be as soon as another process has removed it.
absl::Status CheckIsFree(int folder, const std::string& name) {
  struct stat file;
  if (fstatat(folder, name.c_str(), &file, AT_SYMLINK_NOFOLLOW) != 0) {
    return absl::OkStatus();
  }
  if (!HasNameToken(file)) {
    return absl::AlreadyExistsError(absl::StrCat(
        Describe(name),
        " is a file of another program or user; choose another name"));
  }
  TENON_ASSIGN_OR_RETURN(const Maybe segment, Examine(folder, name));
  if (!segment || !segment->is_held) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat(Describe(name), " exists, ", SizeText(segment->size_bytes),
                   ", and is in use; open it instead, or choose another name"));
}

}  // namespace

bool DropHoldOfName(int fd) {
  DropName(fd);
  return IsNameHeld(fd, "a segment").value_or(false);
}

absl::Status GiveChosenName(absl::string_view made, absl::string_view chosen) {
  TENON_RETURN_IF_ERROR(CheckShmName(made));
  TENON_RETURN_IF_ERROR(CheckChosenShmName(chosen));
  const std::string from = absl::StrCat("/dev/shm/", made);
  const std::string name(chosen);
  const std::string to = absl::StrCat("/dev/shm/", name);
  const Deadline deadline = Deadline::After(kNameRemovalTime);
  for (;;) {
    if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(),
                  RENAME_NOREPLACE) == 0) {
      return absl::OkStatus();
    }
    if (errno != EEXIST) return PosixError(errno, "renameat2", Describe(made));
    TENON_ASSIGN_OR_RETURN(const Folder folder, OpenFolder());
    if (folder == nullptr) continue;  // renameat2() says so.
    TENON_ASSIGN_OR_RETURN(const Maybe removed,
                           Reclaim(dirfd(folder.get()), name));
    if (!removed) {
      TENON_RETURN_IF_ERROR(CheckIsFree(dirfd(folder.get()), name));
    }
    if (deadline.has_passed()) return NameRemovalTimeout(Describe(name));
    if (!removed) absl::SleepFor(absl::Microseconds(100));
  }
}

namespace {

// Removes a name, held or not; if there is an `only`, from that file alone.
absl::Status RemoveHeldName(absl::string_view name, const FileId* only) {
  TENON_RETURN_IF_ERROR(CheckShmName(name));
  const std::string text(name);
  TENON_ASSIGN_OR_RETURN(const Folder folder, OpenFolder());
  if (folder == nullptr) return absl::OkStatus();
  const Deadline deadline = Deadline::After(kNameRemovalTime);
  for (;;) {
    TENON_ASSIGN_OR_RETURN(const std::optional<OpenName> open,
                           Open(dirfd(folder.get()), text));
    if (!open || (only != nullptr && !(*only == open->file))) {
      return absl::OkStatus();
    }
    TENON_ASSIGN_OR_RETURN(const bool may_remove,
                           LockNameRemoval(open->fd.get(), Describe(name)));
    if (may_remove) {
      TENON_CRASH_POINT("segment.remove.locked");
      return Remove(dirfd(folder.get()), text, open->file).status();
    }
    if (deadline.has_passed()) return NameRemovalTimeout(Describe(name));
    absl::SleepFor(absl::Microseconds(100));
  }
}

}  // namespace

absl::Status RemoveSegmentName(absl::string_view name) {
  return RemoveHeldName(name, nullptr);
}

absl::Status RemoveNameOfFile(absl::string_view name, uint64_t device,
                              uint64_t inode) {
  const FileId only = {device, inode};
  return RemoveHeldName(name, &only);
}

absl::StatusOr<bool> ReclaimDeadName(absl::string_view name) {
  TENON_RETURN_IF_ERROR(CheckShmName(name));
  TENON_ASSIGN_OR_RETURN(const Folder folder, OpenFolder());
  if (folder == nullptr) return false;
  TENON_ASSIGN_OR_RETURN(const Maybe removed,
                         Reclaim(dirfd(folder.get()), std::string(name)));
  return removed.has_value();
}

}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/examples/photos/photo_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {
namespace {

// The entries of a folder, without hidden ones, each list sorted.
struct Entries {
  std::vector<std::string> folders;
  std::vector<std::string> photos;
  size_t other_files = 0;
};

struct CloseDir {
  void operator()(DIR* dir) const { closedir(dir); }
};
using UniqueDir = std::unique_ptr<DIR, CloseDir>;

std::string Join(absl::string_view folder, absl::string_view name) {
  return absl::StrCat(folder, absl::EndsWith(folder, "/") ? "" : "/", name);
}

bool IsPhotoName(absl::string_view name) {
  return absl::EndsWithIgnoreCase(name, ".jpg") ||
         absl::EndsWithIgnoreCase(name, ".jpeg");
}

absl::StatusOr<UniqueDir> OpenDir(const std::string& path) {
  UniqueFd fd(RetryOnEintr(
      [&] { return open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (!fd.valid() && errno == ENOTDIR) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "' is not a folder"));
  }
  if (!fd.valid()) return PosixError(errno, "open", path);
  UniqueDir dir(fdopendir(fd.get()));
  if (dir == nullptr) return PosixError(errno, "fdopendir", path);
  (void)fd.Release();  // Owned by `dir` from now on.
  return dir;
}

// The type of an entry, DT_DIR or DT_REG if it is one of these; symbolic links
// are followed. Not every file system stores the type in the entry.
absl::StatusOr<int> TypeOf(const dirent& entry, DIR* dir,
                           const std::string& path) {
  if (entry.d_type != DT_LNK && entry.d_type != DT_UNKNOWN) {
    return entry.d_type;
  }
  struct stat info;
  if (fstatat(dirfd(dir), entry.d_name, &info, 0) != 0) {
    return PosixError(errno, "fstatat", Join(path, entry.d_name));
  }
  return IFTODT(info.st_mode);
}

absl::StatusOr<Entries> ReadEntries(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(const UniqueDir dir, OpenDir(path));
  Entries entries;
  for (;;) {
    errno = 0;
    const dirent* entry = readdir(dir.get());
    if (entry == nullptr && errno != 0) {
      return PosixError(errno, "readdir", path);
    }
    if (entry == nullptr) break;
    const std::string name = entry->d_name;
    if (name[0] == '.') continue;
    TENON_ASSIGN_OR_RETURN(const int type, TypeOf(*entry, dir.get(), path));
    if (type == DT_DIR) {
      entries.folders.push_back(name);
    } else if (type == DT_REG && IsPhotoName(name)) {
      entries.photos.push_back(name);
    } else {
      ++entries.other_files;
    }
  }
  std::sort(entries.folders.begin(), entries.folders.end());
  std::sort(entries.photos.begin(), entries.photos.end());
  return entries;
}

}  // namespace

absl::StatusOr<PhotoFolder> ListPhotos(const std::string& path) {
  TENON_ASSIGN_OR_RETURN(Entries top, ReadEntries(path));
  PhotoFolder result;
  size_t other_files = top.other_files;
  for (const std::string& name : top.folders) {
    const std::string class_path = Join(path, name);
    TENON_ASSIGN_OR_RETURN(const Entries entries, ReadEntries(class_path));
    const int label = static_cast<int>(result.classes.size());
    for (const std::string& photo : entries.photos) {
      result.photos.push_back({Join(class_path, photo), label});
    }
    result.classes.push_back(name);
    other_files += entries.other_files;
  }
  if (result.photos.empty()) {
    return absl::NotFoundError(
        absl::StrCat("no photographs (*.jpg, *.jpeg) in the class folders of '",
                     path, "': ", result.classes.size(), " folders, ",
                     other_files, " files of other kinds, ", top.photos.size(),
                     " photographs outside a class folder"));
  }
  return result;
}

}  // namespace tenon

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/segment/shm_name.h"

#include <dirent.h>
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon {
namespace {

constexpr size_t kRandomDigits = 32;  // Of a made name.

bool IsNameCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' ||
         c == '_' || c == '-';
}

absl::Status Check(absl::string_view kind, absl::string_view text,
                   size_t max_length) {
  const bool good = !text.empty() && text.size() <= max_length &&
                    text[0] != '.' &&
                    std::all_of(text.begin(), text.end(), IsNameCharacter);
  if (good) return absl::OkStatus();
  // A name that is far too long is not repeated in full.
  return absl::InvalidArgumentError(absl::StrCat(
      "bad shared memory ", kind, " '",
      absl::CHexEscape(text.substr(0, kMaxShmNameLength)), "': want 1 to ",
      max_length,
      " characters out of [A-Za-z0-9._-], the first one not a dot"));
}

}  // namespace

absl::Status CheckShmName(absl::string_view name) {
  return Check("name", name, kMaxShmNameLength);
}

absl::Status CheckShmPrefix(absl::string_view prefix) {
  return Check("prefix", prefix, kMaxShmPrefixLength);
}

absl::StatusOr<std::string> MakeShmName(absl::string_view prefix) {
  TENON_RETURN_IF_ERROR(CheckShmPrefix(prefix));
  char random[16];
  if (getentropy(random, sizeof(random)) != 0) {
    return PosixError(errno, "getentropy", "16 bytes");
  }
  return absl::StrCat(
      prefix, "-",
      absl::BytesToHexString(absl::string_view(random, sizeof(random))));
}

bool IsMadeShmName(absl::string_view name) {
  if (name.size() < kRandomDigits + 2) return false;
  const absl::string_view random = name.substr(name.size() - kRandomDigits);
  return name[name.size() - kRandomDigits - 1] == '-' &&
         std::all_of(random.begin(), random.end(), [](char c) {
           return absl::ascii_isxdigit(static_cast<unsigned char>(c)) &&
                  !absl::ascii_isupper(static_cast<unsigned char>(c));
         });
}

absl::Status CheckChosenShmName(absl::string_view name) {
  TENON_RETURN_IF_ERROR(CheckShmName(name));
  if (!IsMadeShmName(name)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "bad shared memory name '", name, "': names that end in a dash and ",
      kRandomDigits, " hex digits are reserved; choose another"));
}

absl::StatusOr<std::vector<std::string>> ListAllShmNames() {
  std::vector<std::string> names;
  std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir("/dev/shm"), closedir);
  if (dir == nullptr && errno == ENOENT) return names;
  if (dir == nullptr) return PosixError(errno, "opendir", "/dev/shm");
  for (;;) {
    errno = 0;  // readdir() returns null at the end and on an error.
    const dirent* entry = readdir(dir.get());
    if (entry == nullptr) break;
    if (CheckShmName(entry->d_name).ok()) names.push_back(entry->d_name);
  }
  if (errno != 0) return PosixError(errno, "readdir", "/dev/shm");
  std::sort(names.begin(), names.end());
  // While others remove names, readdir() may return one twice.
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

absl::StatusOr<std::vector<std::string>> ListShmNames(
    absl::string_view prefix) {
  TENON_RETURN_IF_ERROR(CheckShmPrefix(prefix));
  TENON_ASSIGN_OR_RETURN(std::vector<std::string> names, ListAllShmNames());
  std::erase_if(names, [&](const std::string& name) {
    return !absl::StartsWith(name, prefix);
  });
  return names;
}

absl::Status RemoveShmName(absl::string_view name) {
  TENON_RETURN_IF_ERROR(CheckShmName(name));
  const std::string path = absl::StrCat("/", name);
  if (shm_unlink(path.c_str()) != 0 && errno != ENOENT) {
    return PosixError(errno, "shm_unlink", name);
  }
  return absl::OkStatus();
}

}  // namespace tenon

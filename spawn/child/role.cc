// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/child/role.h"

#include <sys/mman.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon::spawn {
namespace {

constexpr char kLabel[] = "tenon.role ";
// Of the 249 bytes of a label.
constexpr size_t kMaxEntry = 200;

}  // namespace

void ShowRole(const Role& role) {
  const std::string label =
      absl::StrCat(kLabel, role.parent_pid, " ", role.index, " ",
                   absl::CHexEscape(role.entry).substr(0, kMaxEntry));
  const UniqueFd fd(memfd_create(label.c_str(), MFD_CLOEXEC));
  if (!fd.valid()) return;
  constexpr size_t kPage = 4096;
  void* const shown = mmap(nullptr, kPage, PROT_NONE, MAP_PRIVATE, fd.get(), 0);
  if (shown != MAP_FAILED) madvise(shown, kPage, MADV_DONTFORK);
}

std::optional<Role> RoleInMapping(absl::string_view line) {
  const std::string path = absl::StrCat("/memfd:", kLabel);
  const size_t at = line.find(path);
  if (at == absl::string_view::npos) return std::nullopt;
  line.remove_prefix(at + path.size());
  absl::ConsumeSuffix(&line, " (deleted)");
  const std::vector<absl::string_view> fields =
      absl::StrSplit(line, absl::MaxSplits(' ', 2));
  Role role;
  if (fields.size() != 3 || !absl::SimpleAtoi(fields[0], &role.parent_pid) ||
      !absl::SimpleAtoi(fields[1], &role.index)) {
    return std::nullopt;
  }
  role.entry = std::string(fields[2]);
  return role;
}

}  // namespace tenon::spawn

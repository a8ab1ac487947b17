// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/tools/doctor/system_files.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/read_file.h"

namespace tenon::tools {
namespace {

// Whether a line of /proc/self/cgroup, "4:cpu,cpuacct:/path", belongs to that
// controller in version 1.
bool NamesController(const std::string& names, const std::string& controller) {
  const std::vector<std::string> all = absl::StrSplit(names, ',');
  return std::find(all.begin(), all.end(), controller) != all.end();
}

void ReadUpwards(const std::string& root, const std::string& mount,
                 std::string path, const std::string& file,
                 std::vector<CgroupFile>& files) {
  if (path == "/") path.clear();
  for (;;) {
    const std::string full = absl::StrCat(mount, path, "/", file);
    std::string text = ReadSystemFile(root + full);
    if (!text.empty()) files.push_back({full, std::move(text)});
    if (path.empty()) return;
    path.resize(path.rfind('/'));
  }
}

}  // namespace

std::string ReadSystemFile(const std::string& path) {
  std::string text = ReadFile(path).value_or("");
  absl::StripAsciiWhitespace(&text);
  return text;
}

std::optional<uint64_t> ReadSystemNumber(const std::string& path) {
  uint64_t number;
  if (!absl::SimpleAtoi(ReadSystemFile(path), &number)) return std::nullopt;
  return number;
}

std::vector<CgroupFile> ReadCgroupFiles(const std::string& controller,
                                        const std::string& v1_file,
                                        const std::string& v2_file,
                                        const std::string& root) {
  std::vector<CgroupFile> files;
  const std::string cgroups = ReadSystemFile(root + "/proc/self/cgroup");
  for (absl::string_view line : absl::StrSplit(cgroups, '\n')) {
    const std::vector<std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3 || parts[2].empty() || parts[2][0] != '/') continue;
    if (parts[1].empty()) {
      ReadUpwards(root, "/sys/fs/cgroup", parts[2], v2_file, files);
    } else if (NamesController(parts[1], controller)) {
      ReadUpwards(root, absl::StrCat("/sys/fs/cgroup/", controller), parts[2],
                  v1_file, files);
    }
  }
  return files;
}

}  // namespace tenon::tools

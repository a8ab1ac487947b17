// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Small files under /proc and /sys, and files of the cgroups around this
// process. `root` is prefixed to every path, for tests.

#ifndef TENON_TOOLS_DOCTOR_SYSTEM_FILES_H_
#define TENON_TOOLS_DOCTOR_SYSTEM_FILES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon::tools {

// Without white space at its ends; empty if it cannot be read.
std::string ReadSystemFile(const std::string& path);

// Empty if the file cannot be read or is not a number.
std::optional<uint64_t> ReadSystemNumber(const std::string& path);

struct CgroupFile {
  std::string path;  // Without `root`.
  std::string text;
};

// A file of each cgroup around this process that has it, innermost first:
// `v2_file` in version 2, `v1_file` in version 1 under `controller`.
std::vector<CgroupFile> ReadCgroupFiles(const std::string& controller,
                                        const std::string& v1_file,
                                        const std::string& v2_file,
                                        const std::string& root);

}  // namespace tenon::tools

#endif  // TENON_TOOLS_DOCTOR_SYSTEM_FILES_H_

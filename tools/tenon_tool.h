// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TenonTool: the command `tenon`, which shows Tenon's processes and memory.

#ifndef TENON_TOOLS_TENON_TOOL_H_
#define TENON_TOOLS_TENON_TOOL_H_

#include <ostream>
#include <string>
#include <vector>

namespace tenon::tools {

// Runs `tenon` with these arguments. Returns its exit code: 0 success; 1 a
// command failed, or the doctor found a failure; 2 invalid arguments. `mem
// --watch` blocks until `out` fails or a signal ends the process.
int RunTenonTool(const std::vector<std::string>& words, std::ostream& out,
                 std::ostream& errors);

}  // namespace tenon::tools

#endif  // TENON_TOOLS_TENON_TOOL_H_

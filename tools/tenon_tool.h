// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TenonTool: the command `tenon`, which shows what Tenon does on this machine.

#ifndef TENON_TOOLS_TENON_TOOL_H_
#define TENON_TOOLS_TENON_TOOL_H_

#include <ostream>
#include <string>
#include <vector>

namespace tenon::tools {

// Runs `tenon` with these words after its name. Returns its exit code: 0 all
// went well; 1 something could not be done, or the doctor found what must be
// fixed; 2 the words make no sense. Blocks under `mem --watch` until `out`
// fails or a signal ends the process.
int RunTenonTool(const std::vector<std::string>& words, std::ostream& out,
                 std::ostream& errors);

}  // namespace tenon::tools

#endif  // TENON_TOOLS_TENON_TOOL_H_

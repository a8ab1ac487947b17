// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Json: output of the tools under --json.

#ifndef TENON_TOOLS_CLI_JSON_H_
#define TENON_TOOLS_CLI_JSON_H_

#include <nlohmann/json.hpp>
#include <string>

namespace tenon::tools {

// Members keep the order in which they were added.
using Json = nlohmann::ordered_json;

// Indented by two, with a newline at the end. ASCII only; bytes that are not
// UTF-8, as may be in the name of a process, become U+FFFD. Pure.
std::string JsonText(const Json& json);

}  // namespace tenon::tools

#endif  // TENON_TOOLS_CLI_JSON_H_

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TerminalText: escapes text from other processes for a terminal.
//
//   out << TerminalText(name);  // "a\x1b[31mb" for one with an escape in it.
//
// A process chooses its own name, which may contain escape sequences, and those
// can rewrite the screen or act as typed input.

#ifndef TENON_TOOLS_CLI_TERMINAL_TEXT_H_
#define TENON_TOOLS_CLI_TERMINAL_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tenon::tools {

// `text` with every byte that is not a printable ASCII character, and every
// backslash, written as \xNN: so different texts look different. Pure.
std::string TerminalText(absl::string_view text);

}  // namespace tenon::tools

#endif  // TENON_TOOLS_CLI_TERMINAL_TEXT_H_

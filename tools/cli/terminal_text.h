// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TerminalText: words of other processes, made fit for a terminal.
//
//   out << TerminalText(name);  // "a\x1b[31mb" for one with an escape in it.
//
// A process calls itself what it likes, escape sequences included, and those
// can rewrite what is on the screen or be typed into it.

#ifndef TENON_TOOLS_CLI_TERMINAL_TEXT_H_
#define TENON_TOOLS_CLI_TERMINAL_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tenon::tools {

// `text` with every byte that is no printable ASCII character, and every
// backslash, written as \xNN: so no two texts look the same. Pure.
std::string TerminalText(absl::string_view text);

}  // namespace tenon::tools

#endif  // TENON_TOOLS_CLI_TERMINAL_TEXT_H_

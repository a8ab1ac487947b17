// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/tools/cli/terminal_text.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tenon::tools {

std::string TerminalText(absl::string_view text) {
  std::string result;
  for (const char c : text) {
    if (absl::ascii_isprint(static_cast<unsigned char>(c)) && c != '\\') {
      result.push_back(c);
    } else {
      absl::StrAppend(&result, "\\x",
                      absl::BytesToHexString(absl::string_view(&c, 1)));
    }
  }
  return result;
}

}  // namespace tenon::tools

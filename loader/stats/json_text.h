// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// JsonString: a string of JSON, quoted.

#ifndef TENON_LOADER_STATS_JSON_TEXT_H_
#define TENON_LOADER_STATS_JSON_TEXT_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tenon::loader {

// ASCII: each byte of 0x80 or more becomes U+FFFD. Pure.
inline std::string JsonString(absl::string_view text) {
  std::string json = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      absl::StrAppend(&json, "\\", std::string(1, c));
    } else if (byte >= 0x80) {
      json += "\\ufffd";
    } else if (byte < 0x20 || byte == 0x7f) {
      absl::StrAppend(&json, "\\u00", absl::Hex(byte, absl::kZeroPad2));
    } else {
      json += c;
    }
  }
  return json + "\"";
}

}  // namespace tenon::loader

#endif  // TENON_LOADER_STATS_JSON_TEXT_H_

// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/tools/cli/table.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tenon/tools/cli/terminal_text.h"

namespace tenon::tools {

Table::Table(const std::vector<std::string>& headers) {
  std::vector<std::string> row;
  for (absl::string_view header : headers) {
    to_the_right_.push_back(absl::ConsumePrefix(&header, ">"));
    row.emplace_back(header);
  }
  rows_.push_back(std::move(row));
}

void Table::AddRow(const std::vector<std::string>& cells) {
  std::vector<std::string> row(to_the_right_.size());
  for (size_t i = 0; i < std::min(row.size(), cells.size()); ++i) {
    row[i] = TerminalText(cells[i]);
  }
  rows_.push_back(std::move(row));
}

std::string Table::ToText(size_t indent) const {
  std::vector<size_t> widths(to_the_right_.size());
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line(indent, ' ');
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - row[i].size(), ' ');
      absl::StrAppend(&line, i == 0 ? "" : "  ",
                      to_the_right_[i] ? space + row[i] : row[i] + space);
    }
    absl::StripTrailingAsciiWhitespace(&line);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

}  // namespace tenon::tools

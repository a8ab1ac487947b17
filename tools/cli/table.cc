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
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tenon/tools/cli/terminal_text.h"

namespace tenon::tools {

Table::Table(const std::vector<std::string>& headers) {
  std::vector<std::string> row;
  for (absl::string_view header : headers) {
    optional_.push_back(absl::ConsumePrefix(&header, "?"));
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

std::vector<size_t> Table::Widths(size_t indent, size_t width) const {
  constexpr size_t kLeast = 8;  // Of a text that is cut.
  std::vector<size_t> widths(to_the_right_.size());
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  const auto excess = [&] {
    size_t sum = indent;
    for (const size_t column : widths) sum += column == 0 ? 0 : column + 2;
    sum -= 2;  // None behind the last one.
    return width == 0 || sum <= width ? 0 : sum - width;
  };
  for (size_t i = widths.size(); i-- > 0;) {
    if (optional_[i] && excess() > 0) widths[i] = 0;
  }
  while (excess() > 0) {
    size_t widest = widths.size();
    for (size_t i = 0; i < widths.size(); ++i) {
      if (to_the_right_[i] || widths[i] <= kLeast) continue;
      if (widest == widths.size() || widths[i] > widths[widest]) widest = i;
    }
    if (widest == widths.size()) break;
    widths[widest] =
        std::max(kLeast, widths[widest] - std::min(excess(), widths[widest]));
  }
  return widths;
}

std::string Table::ToText(size_t indent, size_t width) const {
  const std::vector<size_t> widths = Widths(indent, width);
  std::string text;
  for (const auto& row : rows_) {
    std::string line(indent, ' ');
    bool is_first = true;
    for (size_t i = 0; i < row.size(); ++i) {
      if (widths[i] == 0) continue;
      const std::string cell =
          row[i].size() <= widths[i]
              ? row[i]
              : absl::StrCat(row[i].substr(0, widths[i] - 1), "~");
      const std::string space(widths[i] - cell.size(), ' ');
      absl::StrAppend(&line, is_first ? "" : "  ",
                      to_the_right_[i] ? space + cell : cell + space);
      is_first = false;
    }
    absl::StripTrailingAsciiWhitespace(&line);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

namespace {

// The space at which the first `width` columns of a line end, or that behind a
// first word that is longer; 0: none.
size_t BreakOf(absl::string_view line, size_t width) {
  const size_t comma = line.rfind(", ", width - 1);
  if (comma != absl::string_view::npos && comma > 0) return comma + 1;
  const size_t text = line.find_first_not_of(' ');
  size_t space = line.rfind(' ', width);
  if (space == absl::string_view::npos || space < text) {
    space = line.find(' ', std::max(text, width));
  }
  return space == absl::string_view::npos ? 0 : space;
}

}  // namespace

std::string FoldLines(const std::string& text, size_t width) {
  if (width == 0) return text;
  std::string folded;
  for (absl::string_view line :
       absl::StrSplit(absl::StripSuffix(text, "\n"), '\n')) {
    std::string indent;
    while (indent.size() < width && indent.size() + line.size() > width) {
      const size_t space = BreakOf(line, width - indent.size());
      if (space == 0) break;
      absl::StrAppend(&folded, indent,
                      absl::StripTrailingAsciiWhitespace(line.substr(0, space)),
                      "\n");
      line = absl::StripLeadingAsciiWhitespace(line.substr(space));
      indent = "    ";
    }
    absl::StrAppend(&folded, indent, line, "\n");
  }
  return folded;
}

}  // namespace tenon::tools

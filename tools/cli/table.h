// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Table: columns of text for a terminal.
//
//   Table table({"PID", "NAME", ">BYTES"});
//   table.AddRow({"4711", "trainer", "16.0 MiB"});
//   out << table.ToText();

#ifndef TENON_TOOLS_CLI_TABLE_H_
#define TENON_TOOLS_CLI_TABLE_H_

#include <cstddef>
#include <string>
#include <vector>

namespace tenon::tools {

// Ownership: a value. Threads: thread-compatible. Failure: none.
class Table {
 public:
  // One column per header; a leading ">" aligns the column to the right. One
  // after "?" is left out where the table is too wide, the last one first.
  explicit Table(const std::vector<std::string>& headers);

  // Cells from the left; missing cells are empty, surplus cells are dropped.
  // They are escaped for a terminal (terminal_text.h).
  void AddRow(const std::vector<std::string>& cells);

  bool empty() const { return rows_.size() == 1; }

  // A line for the headers and each row, two spaces between columns, none at
  // the end of a line; `indent` spaces before each. If that exceeds `width`
  // columns of a terminal (0: any width), columns are left out, then texts are
  // cut, and end in "~".
  std::string ToText(size_t indent = 0, size_t width = 0) const;

 private:
  // The width of each column; 0: left out.
  std::vector<size_t> Widths(size_t indent, size_t width) const;

  std::vector<bool> to_the_right_;
  std::vector<bool> optional_;
  std::vector<std::vector<std::string>> rows_;  // The headers first.
};

// `text` with lines of at most `width` columns (0: any), broken after commas,
// or at a space in a line without commas; the rest of a line is indented by
// four spaces. A word that is longer than a line stays whole. Pure.
std::string FoldLines(const std::string& text, size_t width);

}  // namespace tenon::tools

#endif  // TENON_TOOLS_CLI_TABLE_H_

#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""Makes one C++ source of the examples of headers and READMEs.

    extract_examples.py [--names FILE] [--using NAMESPACE]... --source OUT.cc
        --list OUT.txt FILE...

A header is given where it is included from: .../_virtual_includes/NAME/INCLUDE.

bazel/README.md, "Examples that compile", states the conventions.
"""

import argparse
import pathlib
import re

INDENT = "//   "
FENCE = re.compile(r"^```(?:cpp|c\+\+)$")
ENDS_A_STATEMENT = re.compile(r"[;{}]\s*(?://.*)?$")
OTHER_PROCESS = re.compile(r"^// .*:$")
DECLARES = re.compile(r"^(?:class|struct|enum|template|namespace|extern)\b")
FUNCTION = re.compile(r"^(?!(?:if|for|while|switch)\b)[\w:<>,&*\s]+\s[&*]*[\w:]+"
                      r"\([^{;]*\)\s*(?:const\s*)?(?:->[^{;]*)?\{", re.S)


class Example:
    """Lines of code, and where the first of them is."""

    def __init__(self, path, line, lines):
        self.path = path
        self.line = line
        self.lines = lines


def in_header(path):
    """The indented blocks of code of a header's leading comment."""
    found, block, begin = [], [], 0
    for number, line in enumerate(path.read_text().split("\n"), 1):
        if line.startswith("#"):
            break
        if line.startswith(INDENT):
            begin = begin if block else number
            block.append(line[len(INDENT):])
        elif line == "//" and block:
            block.append("")
        else:
            found.append(Example(path, begin, block))
            block = []
    return [e for e in found if any(map(ENDS_A_STATEMENT.search, e.lines))]


def in_readme(path):
    """The blocks fenced as cpp or c++."""
    found, block = [], None
    for number, line in enumerate(path.read_text().split("\n"), 1):
        if block is None and FENCE.match(line):
            block = Example(path, number + 1, [])
        elif block and line == "```":
            found.append(block)
            block = None
        elif block:
            block.lines.append(line)
    return found


def is_declarations(lines):
    """Whether a block stands outside of functions."""
    text = "\n".join(line for line in lines
                     if line and not line.startswith("//"))
    return bool(DECLARES.match(text) or FUNCTION.match(text))


def scopes(lines):
    """Splits a fragment at its other processes: (offset, lines) of each."""
    starts = [0]
    for at, line in enumerate(lines):
        if at > 0 and not lines[at - 1] and OTHER_PROCESS.match(line):
            starts.append(at)
    return [(at, lines[at:end])
            for at, end in zip(starts, starts[1:] + [len(lines)])]


def without_includes(lines, includes):
    """Blank lines in their place, so that the numbers of lines stay."""
    kept = []
    for line in lines:
        if line.startswith("#include "):
            includes.append(line)
            line = ""
        kept.append(line)
    return kept


def translate(example, number, includes):
    """One example as C++."""
    lines = without_includes(example.lines, includes)
    where = f'#line {example.line} "{example.path}"'
    if not any(lines):
        return []
    if is_declarations(lines):
        if "template <>" in lines:  # Specialisations keep their namespace.
            return [where, *lines]
        return [f"namespace example_{number} {{", where, *lines, "}"]
    code = []
    for part, (offset, body) in enumerate(scopes(lines)):
        code += [f"[[maybe_unused]] static ExampleResult "
                 f"Example{number}_{part}() {{",
                 f'#line {example.line + offset} "{example.path}"',
                 *body, "return {};", "}"]
    return code


RESULT = """\
// What an example returns: a status, a value, or nothing.
struct ExampleResult {
  ExampleResult() = default;
  template <typename T>
  ExampleResult(T&&) {}
};
"""


def source_of(includes, names, namespaces, code):
    """The whole translation unit."""
    lines = ["// Made by bazel/extract_examples.py.", *dict.fromkeys(includes)]
    lines += [f'#include "{names}"'] if names else []
    lines += [f"using namespace {name};" for name in namespaces]
    return "\n".join([*lines, RESULT, *code, ""])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--names")
    parser.add_argument("--using", action="append", default=[])
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--list", type=pathlib.Path, required=True)
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    includes, code, listed = [], [], []
    for path in options.files:
        _, _, header = str(path).partition("/_virtual_includes/")
        found = in_header(path) if header else in_readme(path)
        include = header.partition("/")[2]
        includes += [f'#include "{include}"'] if header and found else []
        for example in found:
            code += translate(example, len(listed), includes)
            listed.append(f"{example.path}:{example.line}")
    options.source.write_text(
        source_of(includes, options.names, options.using, code))
    options.list.write_text("".join(f"{where}\n" for where in listed))


if __name__ == "__main__":
    main()

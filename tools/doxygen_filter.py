#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""Copies headers into a folder, with their comments as Doxygen reads them.

    doxygen_filter.py FOLDER HEADER...       # for tools/api_docs.sh

The text of a comment is literal: nothing in it is a command of Doxygen. Lines that are
indented by three spaces are code or a picture.
"""

import pathlib
import re
import sys

TRAILING = re.compile(r"^(\s*[^\s/].*?)//(?!/)\s?(.*)$")
COMMENT = re.compile(r"^(\s*)//(?!/)(.*)$")
LITERAL = str.maketrans({c: "\\" + c for c in '\\@<>&$#%"|'})


def literal(text):
    # After "Queue<T>" Doxygen would read "::Open()" as a request for a link.
    return text.translate(LITERAL).replace("\\>::", "\\>\\::")


def flush(block, out, is_file):
    """Writes a block of comment lines, each as one line."""
    verbatim = False
    for number, (indent, text) in enumerate(block):
        first = "@file\n" if is_file and number == 0 else ""
        is_code = text.startswith("   ")
        line = text if is_code else literal(text.strip())
        if is_code and not verbatim:
            line = "@verbatim\n" + line
        elif verbatim and not is_code and text.strip():
            line = "@endverbatim\n" + line
        verbatim = is_code or verbatim and not text.strip()
        if number == len(block) - 1 and verbatim:
            line += "\n@endverbatim"
        for part in (first + line).split("\n"):
            out.append(f"{indent}/// {part}")
    block.clear()


def convert(lines):
    out, block, is_file, seen_code = [], [], False, False
    for line in lines:
        match = COMMENT.match(line)
        if match and "SPDX" in line:
            continue
        if match:
            is_file = not seen_code
            block.append(match.groups())
            continue
        if block:
            flush(block, out, is_file)
            if not line.strip():
                # A comment that stands alone belongs to no declaration.
                out.append("")
        if line.strip():
            seen_code = True
        trailing = TRAILING.match(line)
        if trailing and '"' not in trailing.group(1):
            line = f"{trailing.group(1)}///< {literal(trailing.group(2))}"
        out.append(line)
    if block:
        flush(block, out, is_file)
    return out


def main(folder, *headers):
    for header in headers:
        copy = pathlib.Path(folder, header)
        copy.parent.mkdir(parents=True, exist_ok=True)
        text = pathlib.Path(header).read_text(encoding="utf-8")
        copy.write_text("\n".join(convert(text.split("\n"))), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])

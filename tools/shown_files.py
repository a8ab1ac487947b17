#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""Keeps the files that Markdown shows equal to the files themselves.

    tools/shown_files.py            # writes the files into the documents
    tools/shown_files.py --check    # exits 1 if a document shows another text

A line <!-- file: PATH --> stands before a fenced block, which shows PATH without its
licence. COPIES are equal files.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHOWN = re.compile(r"(<!-- file: ([^ ]+) -->\n```\w*\n)(.*?)(\n```\n)", re.S)
COPIES = [("examples/first.cc", "examples/outside/main.cc")]


def content(path):
    lines = (ROOT / path).read_text().split("\n")
    while lines and ("SPDX-" in lines[0] or not lines[0]):
        lines.pop(0)
    return "\n".join(lines).rstrip()


def main(arguments):
    check = "--check" in arguments
    documents = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, check=True,
                               capture_output=True, text=True).stdout.split()
    stale, count = [], 0
    for document in documents:
        text = (ROOT / document).read_text()
        count += len(SHOWN.findall(text))
        current = SHOWN.sub(lambda m: m[1] + content(m[2]) + m[4], text)
        if current != text:
            stale.append(document)
            if not check:
                (ROOT / document).write_text(current)
    for first, second in COPIES:
        if (ROOT / first).read_text() != (ROOT / second).read_text():
            stale.append(second)
            if not check:
                (ROOT / second).write_text((ROOT / first).read_text())
    if check and (stale or not count):
        print(f"not current: {' '.join(stale)}: run tools/shown_files.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

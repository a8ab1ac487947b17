#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""Counts the lines of the same programs in Python and in C++: docs/line_counts.md.

    tools/line_counts.py            # writes the table
    tools/line_counts.py --check    # exits 1 if it is not current

A line counts that is neither empty nor a comment; of Python without docstrings of modules.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "line_counts.md"
MARKS = re.compile(r"(<!-- lines -->\n).*?(<!-- /lines -->)", re.S)
PROGRAMS = {
    "two_consumers": "a queue of tensors, two consumers, with time",
    "named_memory": "memory by a name that programs choose",
    "pool": "a function in a pool of processes",
    "futures": "a pool of threads, steps, a coroutine, an error",
    "small_dataset": "a dataset, and a loader with two workers",
    "producer_exits": "a producer that ends before its tensor is received",
}


def count_cpp(path):
    return sum(1 for line in path.read_text().split("\n")
               if line.strip() and not line.strip().startswith("//"))


def count_python(path):
    text = re.sub(r'\A((?:#.*\n)*)""".*?"""\n', r"\1", path.read_text(), flags=re.S)
    return sum(1 for line in text.split("\n")
               if line.strip() and not line.strip().startswith("#"))


def table():
    rows = ["| program | Python | C++ | ratio |", "| --- | --- | --- | --- |"]
    for name, what in PROGRAMS.items():
        python = count_python(ROOT / f"examples/torch/{name}.py")
        cpp = count_cpp(ROOT / f"examples/{name}.cc")
        rows.append(f"| {what} | [{python}](../examples/torch/{name}.py) "
                    f"| [{cpp}](../examples/{name}.cc) | {cpp / python:.1f} |")
    return "\n".join(rows) + "\n"


def main(arguments):
    text = PAGE.read_text()
    current = MARKS.sub(lambda m: m.group(1) + table() + m.group(2), text)
    if "--check" not in arguments:
        PAGE.write_text(current)
        return 0
    if text != current or not MARKS.search(text):
        print("docs/line_counts.md is not current: run tools/line_counts.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

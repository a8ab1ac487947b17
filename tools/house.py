#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""The house in figures: what tools/house.sh prints.

    tools/house.py                        # this project, a row for each package
    tools/house.py DIR...                 # a row for each folder, of any project
    tools/house.py --words DIR...         # each counted word, with file and line
    tools/house.py --reach DIR...         # each public header and its reach

Function lengths are lizard's (PyPI); without it their column is empty.
docs/house.md explains the columns.
"""

import collections
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Pronouns in place of a named process, thread or block, and "lie" for "be".
# docs/house.md has the figures of other projects.
WORDS = re.compile(
    r"\b(?:nobody|somebody|everybody|anybody|who|whoever|"
    r"what\s+is|lie|lies|laid|lay)\b", re.I)
COMMENT = re.compile(
    r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//([^\n]*)|/\*(.*?)\*/', re.S)
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
CODE = (".h", ".cc")
SKIPPED = re.compile(r"^(?:\.|bazel-|external$|__pycache__)")
TEST = re.compile(r"_test\.|_testing\.|testing/|testdata/|_benchmark\.|_fuzz\.")


def files_under(folder):
    """All files below `folder`, without hidden and generated ones."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if not SKIPPED.match(f))
        for name in sorted(names):
            yield pathlib.Path(parent, name)


def read(path):
    return path.read_text(errors="replace")


def comments(text):
    """The comments of C++ source, without license lines, as (offset, text)."""
    for match in COMMENT.finditer(text):
        for group in (1, 2):
            words = match.group(group)
            if words is not None and "SPDX-" not in words:
                yield match.start(group), words


def count_words(text):
    return len(re.findall(r"[A-Za-z][\w'-]*", text))


def joined_comments(text):
    """As one text, so that a phrase is found across the ends of lines."""
    return "\n".join(words for _, words in comments(text))


class Share:
    """How many of a text's words are counted ones."""

    def __init__(self):
        self.words = 0
        self.hits = 0

    def add(self, text):
        self.words += count_words(text)
        self.hits += len(WORDS.findall(text))

    def __str__(self):
        return f"{1000 * self.hits / self.words:.1f}" if self.words else "-"


def is_build(path):
    return path.name in ("BUILD", "BUILD.bazel")


def targets(build):
    """The libraries of a BUILD file, as their text."""
    return re.findall(r"^(?:\w*cc_\w*library\w*|sapi_\w+)\((.*?)^\)",
                      read(build), re.S | re.M)


def is_public(target, build):
    """By its own visibility, or by its package's."""
    visibility = re.search(r"visibility = \[(.*?)\]", target, re.S)
    default = re.search(r"default_visibility = \[(.*?)\]", read(build), re.S)
    said = visibility or default
    return bool(said) and "//visibility:public" in said.group(1)


def headers_of(target):
    hdrs = re.search(r"\bhdrs = \[(.*?)\]", target, re.S)
    return re.findall(r'"([^":]+\.h)"', hdrs.group(1)) if hdrs else []


def public_headers(folder):
    """Headers of public libraries that are no test helpers."""
    found = set()
    for build in filter(is_build, files_under(folder)):
        for target in targets(build):
            if "testonly" in target or not is_public(target, build):
                continue
            found.update(build.parent / name for name in headers_of(target))
    return {path for path in found if path.exists()}


def resolve(include, user):
    """The file that `user` means by an include, if it is of its project."""
    name = include.removeprefix("tenon/")
    for folder in user.parents:
        if (folder / name).is_file():
            return folder / name
        if (folder / ".git").exists():
            return None
    return None


def reached(header, direct):
    """All headers of the project that including `header` brings."""
    seen, todo = set(), [header]
    while todo:
        user = todo.pop()
        if user not in direct:
            found = (resolve(i, user) for i in INCLUDE.findall(read(user)))
            direct[user] = [path for path in found if path]
        for path in direct[user]:
            if path not in seen:
                seen.add(path)
                todo.append(path)
    return seen - {header}


def reaches(folder, everywhere):
    """(headers reached, internal ones among them, header), largest first."""
    public, direct, rows = public_headers(everywhere), {}, []
    for header in public_headers(folder):
        seen = reached(header, direct)
        rows.append((len(seen), len(seen - public), header))
    return sorted(rows, reverse=True)


def functions(sources):
    """Lengths in lines of all functions, sorted; none without lizard."""
    try:
        import lizard
    except ImportError:
        return []
    return sorted(function.length for path in sources
                  for function in lizard.analyze_file(str(path)).function_list)


def spread(values):
    """Median / 90th percentile / largest."""
    if not values:
        return "-"
    return " / ".join(str(values[i]) for i in
                      (len(values) // 2, len(values) * 9 // 10, -1))


def measure(folder, everywhere):
    """One row of the table."""
    files = list(files_under(folder))
    folders = collections.Counter(path.parent for path in files)
    build_lines = {p: read(p).count("\n") for p in files if is_build(p)}
    production = [p for p in files if p.suffix in CODE
                  and not TEST.search(str(p.relative_to(everywhere)))]
    lines = sum(read(path).count("\n") for path in production)
    words, prose = Share(), Share()
    for path in files:
        if path.suffix in CODE:
            words.add(joined_comments(read(path)))
        elif path.suffix == ".md":
            prose.add(read(path))
    reach = reaches(folder, everywhere)
    build = sum(build_lines.values())
    return [
        spread(sorted(folders.values())),
        f"{build} ({100 * build / lines:.0f} %)" if lines else str(build),
        str(max(build_lines.values(), default=0)),
        spread(sorted(row[0] for row in reach)),
        spread(sorted(row[1] for row in reach)),
        spread(functions(production)),
        f"{words.words / 1000:.1f}k",
        str(words),
        str(prose),
    ]


COLUMNS = ["", "files a folder", "BUILD lines", "longest BUILD",
           "headers reached", "internal of them", "lines a function",
           "comment words", "counted per 1000", "in .md"]


def project_of(folder):
    """The outermost folder that could belong to the same checkout."""
    for parent in [folder, *folder.parents]:
        if (parent / ".git").exists():
            return parent
    return folder


def show_table(folders):
    print("| " + " | ".join(COLUMNS) + " |")
    print("|---" * len(COLUMNS) + "|")
    for folder in folders:
        name = "all" if folder == ROOT else folder.name
        print("| " + " | ".join([name] + measure(folder, project_of(folder)))
              + " |")


def show_words(folders):
    for folder in folders:
        for path in files_under(folder):
            text = read(path)
            if path.suffix in CODE:
                texts = comments(text)
            elif path.suffix == ".md":
                texts = [(0, text)]
            else:
                continue
            for at, words in texts:
                for match in WORDS.finditer(words):
                    line = text.count("\n", 0, at + match.start()) + 1
                    word = " ".join(match.group().split())
                    print(f"{os.path.relpath(path)}:{line}: {word}")


def show_reach(folders):
    for folder in folders:
        for count, internal, header in reaches(folder, project_of(folder)):
            print(f"{count:4} {internal:4}  {os.path.relpath(header)}")


def main(arguments):
    mode = show_table
    if arguments and arguments[0].startswith("--"):
        mode = {"--words": show_words, "--reach": show_reach}.get(
            arguments.pop(0))
        if mode is None:
            sys.exit(__doc__)
    folders = [pathlib.Path(a).resolve() for a in arguments]
    for folder in folders:
        if not folder.is_dir():
            sys.exit(f"house.py: {folder} is not a folder")
    if not folders:
        packages = {path.relative_to(ROOT).parts[0]
                    for path in files_under(ROOT)
                    if is_build(path) and path.parent != ROOT}
        folders = [ROOT / name for name in sorted(packages)] + [ROOT]
    mode(folders)


if __name__ == "__main__":
    main(sys.argv[1:])

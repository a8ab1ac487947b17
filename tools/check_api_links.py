#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""Checks the links of API pages, and the headers that comments name.

    check_api_links.py HTML_FOLDER HEADER...       # for tools/api_docs.sh
"""

import pathlib
import re
import subprocess
import sys

HREF = re.compile(r'href="([^"#:]*)(#[^"]+)?"')
NAMES = re.compile(r'(?:id|name)="([^"]+)"')
MENTION = re.compile(r"(?<![\w/<.\"-])((?:[\w]+/)*\w+\.h)\b")
# Of the system and of other projects.
OTHERS = {"dlpack.h", "cuda.h"}
# Doxygen 1.9.4 links to a summary that it omits if all nested classes are private.
OMITTED = {"#nested-classes"}


def broken_links(folder):
    pages = {page.name: page.read_text(errors="replace")
             for page in folder.glob("*.html")}
    anchors = {name: set(NAMES.findall(text)) for name, text in pages.items()}
    files = {path.name for path in folder.iterdir()}
    for page, text in pages.items():
        for target, anchor in HREF.findall(text):
            target = target or page
            if "/" in target:
                continue
            if target not in files:
                yield f"{page}: there is no page {target}"
            elif anchor and anchor not in OMITTED and target in anchors and (
                    anchor[1:] not in anchors[target]):
                yield f"{page}: {target} has no {anchor}"


def missing_headers(headers):
    known = subprocess.run(["git", "ls-files", "*.h"], capture_output=True,
                           text=True, check=True).stdout.split()
    names = {path.rsplit("/", 1)[-1] for path in known}
    for header in headers:
        for number, line in enumerate(open(header, encoding="utf-8"), 1):
            comment = line.partition("//")[2]
            for mention in MENTION.findall(comment):
                name = mention.rsplit("/", 1)[-1]
                if name not in names and name not in OTHERS:
                    yield f"{header}:{number}: there is no header {mention}"


def main(folder, *headers):
    broken = [*broken_links(pathlib.Path(folder)), *missing_headers(headers)]
    print(*sorted(set(broken))[:50], sep="\n")
    count = len(list(pathlib.Path(folder).glob("*.html")))
    print(f"{count} pages of {len(headers)} headers, {len(broken)} broken links")
    return 1 if broken or count < len(headers) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

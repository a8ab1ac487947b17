#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/index.md: all public targets, their headers, and a line on each.

    tools/public_index.py            # writes docs/index.md
    tools/public_index.py --check    # exits 1 if it is not current
    tools/public_index.py --headers  # prints the paths of the public headers

Asks Bazel, so that targets made by macros count. The line is the first sentence of the
header's comment. BAZEL may name another Bazel (bazel_query.py).
"""

import os
import pathlib
import re
import sys
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import bazel_query  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
INDEX = ROOT / "docs" / "index.md"
FLOORS = ("loader", "spawn", "shm_manager", "cuda_ipc", "ipc", "futures", "shm")
HEAD = """\
# Index of public targets

Written by `tools/public_index.py`, which CI runs with `--check`. A user may depend on these
targets and on no others. Include a header as `"tenon/PACKAGE/HEADER.h"`, such as
`"tenon/shm/segment/segment.h"`.
"""


def query(expression):
    """The rules of a query, as elements of Bazel's XML."""
    text = bazel_query.query("--output=xml", expression)
    return xml.etree.ElementTree.fromstring(
        text.replace("version='1.1'", "version='1.0'")
        .replace('version="1.1"', 'version="1.0"')).findall("rule")


def public_targets():
    """{floor: [(label, [headers])]} of the public libraries, umbrellas aside."""
    found = {floor: [] for floor in FLOORS}
    everything = " + ".join(f"//{floor}/..." for floor in FLOORS)
    for rule in query(f'attr(visibility, "//visibility:public", '
                      f'kind(cc_library, {everything}))'):
        label = rule.get("name")
        floor = re.match(r"//(\w+)", label)[1]
        headers = [h.get("value")[2:].replace(":", "/")
                   for attribute in ("hdrs", "textual_hdrs")
                   for h in rule.findall(f"list[@name='{attribute}']/label")]
        if headers or label != f"//{floor}:{floor}":  # Not the umbrella.
            found[floor].append((label, headers))
    for targets in found.values():
        targets.sort()
    return found


def first_sentence(path):
    """The first sentence of a header's leading comment, licence aside."""
    text, begun = "", False
    for line in (ROOT / path).read_text().split("\n"):
        if not line.startswith("//"):
            if begun:
                break
            continue
        words = line[2:].strip()
        if words.startswith("SPDX"):
            continue
        if begun and not words:
            break
        begun = True
        text = f"{text} {words}".strip()
        if text.endswith((".", ":")):
            break
    text = re.split(r"(?<=[a-z\d)\"])[.] ", text)[0].rstrip(".: ")
    # The name of the header's subject is in the label.
    text = re.sub(r"^[\w<>:, ]{1,60}?: ", "", text)
    return text.replace("|", "\\|").replace("<", "&lt;")


def short(label):
    package, _, name = label[2:].partition(":")
    return f"//{package}" if package.split("/")[-1] == name else label


def index(targets):
    lines = [HEAD]
    for floor, labels in targets.items():
        lines += [f"## {floor}", "| target | header | |", "| --- | --- | --- |"]
        for label, headers in labels:
            links = "<br>".join(f"[{os.path.basename(h)}](../{h})" for h in headers)
            name = label.partition(":")[2] + ".h"
            main = [h for h in headers if h.endswith("/" + name)] or headers
            about = first_sentence(main[0]) if main else "no header"
            lines.append(f"| `{short(label)}` | {links} | {about} |")
        lines.append("")
    return "\n".join(lines)


def main(arguments):
    targets = public_targets()
    if "--headers" in arguments:
        print(*sorted({h for labels in targets.values() for _, hs in labels
                       for h in hs}), sep="\n")
        return 0
    text = index(targets)
    if "--check" not in arguments:
        INDEX.write_text(text)
        return 0
    count = sum(map(len, targets.values()))
    if count < 50 or INDEX.read_text() != text:
        print("docs/index.md is not current: run tools/public_index.py")
        return 1
    print(f"docs/index.md names all {count} public targets")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

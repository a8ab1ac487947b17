#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""Checks that every target, package and file that a document names exists.

    tools/check_labels.py                  # all Markdown, CHANGELOG.md aside
    tools/check_labels.py README.md

Asks Bazel, so that targets made by macros count. A file is named by a link that
is relative to the document. Without arguments also checks that every public
target is named by a README of its floor. Exits 1 and lists what is missing.
BAZEL may name another Bazel (bazel_query.py).
"""

import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import bazel_query  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
LABEL = re.compile(r"(?<![\w:/.-])(?:@tenon)?(//\w+(?:/\w+)*"
                   r"(?::[\w.-]*\w|/\.\.\.)?)(?![\w/:*-])")
LINK = re.compile(r"\]\(([^)\s#]+)[^)\s]*\)")
# Their READMEs say that a user can depend on no other targets.
FLOORS = ("shm", "futures", "ipc", "cuda_ipc", "spawn", "loader")


def broken_links(path, text):
    """The relative links of the document `path` that lead to no file."""
    return [link for link in LINK.findall(text) if "://" not in link
            and not (ROOT / path).parent.joinpath(link).exists()]


def labels_in(text):
    """The labels of this repository that a document names."""
    return set(LABEL.findall(text))


def query(labels):
    """Those of `labels` that are targets, and Bazel's complaints."""
    with tempfile.NamedTemporaryFile("w", suffix=".query") as file:
        file.write(" + ".join(sorted(labels)) or "set()")
        file.flush()
        run = bazel_query.run_query("--keep_going", f"--query_file={file.name}")
    return set(run.stdout.split()), run.stderr


def is_there(label):
    """Whether a label names a package, or a source file, of the checkout."""
    package, _, name = label[2:].removesuffix("/...").partition(":")
    if name and name != "all":
        return (ROOT / package / name).is_file()
    return label.endswith("/...") and (ROOT / package).is_dir() or (
        ROOT / package / "BUILD.bazel").is_file()


def missing(labels, ask):
    """Those labels that name no target, package or file."""
    unknown = {label for label in labels if not is_there(label)
               and not label.startswith("//visibility:")}
    found, complaints = ask(unknown) if unknown else (set(), "")
    return unknown - found, complaints


def public_targets(ask):
    """The targets of FLOORS that users may depend on, without Bazel's rest."""
    found, complaints = ask({f'attr(visibility, "//visibility:public", '
                             f'//{floor}/...)' for floor in FLOORS})
    return {label for label in found if label.startswith("//")}, complaints


def unnamed(public, named):
    """Those of `public` that no README of their floor names.

    `named` has the labels of each document, by its path.
    """
    by_floor = {floor: set().union(*(
        labels for path, labels in named.items()
        if path.startswith(floor + "/") and path.endswith("README.md")))
                for floor in FLOORS}

    def is_named(label):
        package, _, name = label[2:].partition(":")
        names = {label, f"//{package}"} if (
            package.split("/")[-1] == name) else {label}
        return names & by_floor[package.split("/")[0]]
    return sorted(label for label in public if not is_named(label))


def main(documents):
    all_documents = not documents
    if all_documents:
        documents = subprocess.run(
            ["git", "ls-files", "*.md", ":!CHANGELOG.md"], cwd=ROOT, capture_output=True,
            text=True, check=True).stdout.split()
    texts = {path: (ROOT / path).read_text() for path in documents}
    broken = [f"{path}: there is no file {link}"
              for path, text in texts.items()
              for link in broken_links(path, text)]
    named = {path: labels_in(text) for path, text in texts.items()}
    everything = set().union(*named.values())
    gone, complaints = missing(everything, query)
    broken += [f"{path}: there is no target {label}"
               for path, labels in named.items()
               for label in sorted(labels & gone)]
    if all_documents:
        public, complaints_of_public = public_targets(query)
        broken += [f"no README of its floor names the public target {label}"
                   for label in unnamed(public, named)]
        if not public:
            broken.append("Bazel names no public target")
            print(complaints_of_public, file=sys.stderr)
    if gone:
        print(complaints, file=sys.stderr)
    print(*broken, sep="\n")
    print(f"{len(everything)} labels named, {len(gone)} of them missing")
    return 1 if broken or not everything else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

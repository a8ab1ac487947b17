#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""Proves that no package depends sideways or upward, over the whole graph.

    BAZEL="bazel --output_base=/tmp/other" tools/check_layers.py

The macros of bazel/cc.bzl check what is written in them. This asks Bazel for
every edge, made by any rule, and compares it with the ranks of
bazel/layers.bzl. It also checks that each umbrella names every public library
of its floor. Prints which room uses which; exits 1 with each edge that must
not be.
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import bazel_query  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
EDGE = re.compile(r'^  "(//[^"]*)" -> "(//[^"]*)"$', re.M)


def layers():
    """What bazel/layers.bzl defines: Starlark of a kind that Python runs."""
    names = {}
    exec((ROOT / "bazel/layers.bzl").read_text(), names)  # pylint: disable=exec-used
    return names


def query(expression, *options):
    """The output of a Bazel query."""
    return bazel_query.query("--noimplicit_deps", *options, expression)


def package_of(label):
    return label[2:].split(":")[0]


def check_edges(edges, libraries, place):
    """The (room, room) pairs that are used, and a line for each bad edge."""
    uses, bad = set(), []
    for above, below in edges:
        below_package = package_of(below)
        if below_package in ("", "bazel") or package_of(above) == below_package:
            continue
        is_library = above in libraries
        here, rank = place(package_of(above), is_library)
        there, rank_there = place(below_package, is_library)
        if here is None or there is None:
            missing = above if here is None else below
            bad.append(f"{missing}: no rank in bazel/layers.bzl")
        elif here != there:
            if is_library:
                uses.add((here, there))
            if rank_there >= rank:
                bad.append(f"{above} (rank {rank}) -> {below} "
                           f"(rank {rank_there})")
    return uses, bad


def check_umbrellas(umbrellas):
    """A line for each public library that its umbrella leaves out.

    Not for those tagged "optional", which need a package of their own.
    """
    left_out = []
    for umbrella in umbrellas:
        public = query(f'attr(visibility, "//visibility:public", '
                       f'kind("cc_library rule", {umbrella}/...)) '
                       f'except attr(testonly, 1, {umbrella}/...) '
                       f'except attr(tags, optional, {umbrella}/...)').split()
        named = query(f"labels(deps, {umbrella})").split()
        itself = f"{umbrella}:{umbrella[2:]}"
        left_out += [f"{umbrella} leaves out {label}" for label in public
                     if label not in named and label != itself]
    return left_out


def main():
    house = layers()
    graph = query("deps(//...)", "--output=graph", "--nograph:factored")
    edges = EDGE.findall(graph)
    libraries = set(query('kind("cc_library rule", //...) except '
                          'attr(testonly, 1, //...)').split())
    uses, bad = check_edges(edges, libraries, house["place"])
    bad += check_umbrellas(house["UMBRELLAS"])
    if bad or not uses:
        print(*bad, sep="\n")
        print("check_layers: these must not be" if uses else
              "check_layers: no edges, no proof")
        return 1
    for room, rank in sorted(house["ROOMS"].items(), key=lambda item: item[1]):
        below = sorted(lower for upper, lower in uses if upper == room)
        if below:
            print(f"{rank:2} {room:19} -> {' '.join(below)}")
    print(f"check_layers: {len(edges)} edges, none goes sideways or up")
    return 0


if __name__ == "__main__":
    sys.exit(main())

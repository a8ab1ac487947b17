#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""Writes compile_commands.json, for clangd and clang-tidy.

  tools/compile_commands.py [TARGETS] [-- OPTIONS OF BAZEL]

TARGETS are //... unless told. The commands are those Bazel would run, except
that "tenon/shm/segment/segment.h" is looked up in the checkout itself, not among the
links that Bazel makes while it builds: nothing has to be built first, and going
to a definition leads to the file you edit. A test file that is compiled as a part
of a generated unit (cc_tests) gets the command of its unit.
"""

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Holds one link, tenon -> the checkout. Ignored by git.
INCLUDE = ROOT / ".cache" / "include"

# Flags of gcc that clang does not know, flags that write files, the one that
# makes a compiler's warnings errors, and the precompiled headers of cc.bzl.
DROPPED = {"-MD", "-Werror", "-fno-canonical-system-headers",
           "-Wno-free-nonheap-object"}
DROPPED_WITH_VALUE = {"-MF", "-c", "-o", "-include"}
DROPPED_PREFIXES = ("-frandom-seed=",)

# What cc_tests runs to generate a unit.
UNIT = re.compile(r"for file in (?P<files>[^;]*); do .*> (?P<unit>\S+_unit\.cc)$")


def bazel(command, *arguments):
  """Returns what a Bazel command prints."""
  program = shlex.split(os.environ.get("BAZEL", str(ROOT / "bazelw")))
  return subprocess.run([*program, command, *arguments], cwd=ROOT, check=True,
                        stdout=subprocess.PIPE, text=True).stdout


def translate(arguments, output_base):
  """Returns the arguments of a compiler run from the checkout, for clang."""
  result = []
  words = iter(arguments)
  for word in words:
    if word in DROPPED_WITH_VALUE:
      next(words)
    elif word.startswith("external/"):
      result.append(f"{output_base}/{word}")
    elif (word not in DROPPED and not word.startswith(DROPPED_PREFIXES) and
          "/_virtual_includes/" not in word):
      result.append(word)
  return result + [f"-I{INCLUDE}"]


def source_of(arguments):
  """Returns the file that is compiled: what follows -c."""
  return arguments[arguments.index("-c") + 1]


def units_of(actions):
  """Returns the files of each generated unit: see cc_tests in bazel/cc.bzl."""
  units = {}
  for action in actions:
    if action["mnemonic"] == "Genrule":
      match = UNIT.search(action["arguments"][-1])
      if match:
        units[match["unit"]] = match["files"].split()
  return units


def entries(actions, output_base):
  """Yields the entries of the database, one for each source file."""
  units = units_of(actions)
  seen = set()
  for action in actions:
    if action["mnemonic"] != "CppCompile":
      continue
    compiled = source_of(action["arguments"])
    arguments = translate(action["arguments"], output_base)
    for source in units.get(compiled, [compiled]):
      if source in seen or source.startswith(("external/", "bazel-out/")):
        continue
      seen.add(source)
      yield {
          "directory": str(ROOT),
          "file": source,
          "arguments": arguments + [source],
      }


def read_actions(targets, options):
  """Returns the compilations of the targets, and what generates sources."""
  query = f'mnemonic("CppCompile|Genrule", {targets})'
  graph = bazel("aquery", "--output=jsonproto", "--noshow_progress", *options,
                query)
  return json.loads(graph).get("actions", [])


def main():
  arguments = sys.argv[1:]
  split = arguments.index("--") if "--" in arguments else len(arguments)
  targets = " + ".join(arguments[:split]) or "//..."
  database = list(entries(read_actions(targets, arguments[split + 1:]),
                          bazel("info", "output_base").strip()))
  INCLUDE.mkdir(parents=True, exist_ok=True)
  link = INCLUDE / "tenon"
  link.unlink(missing_ok=True)
  link.symlink_to(ROOT)
  out = ROOT / "compile_commands.json"
  out.write_text(json.dumps(database, indent=1) + "\n")
  print(f"{out}: {len(database)} files")


if __name__ == "__main__":
  main()

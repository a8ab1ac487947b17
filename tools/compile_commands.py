#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""Writes compile_commands.json, for clangd and clang-tidy.

  tools/compile_commands.py [TARGETS] [-- OPTIONS OF BAZEL]

TARGETS are //... unless told. The commands are those Bazel would run, except
that "tenon/shm/segment/segment.h" is looked up in the checkout itself, not among the
links that Bazel makes while it builds: nothing has to be built first, and going
to a definition leads to the file you edit.
"""

import json
import os
import pathlib
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Holds one link, tenon -> the checkout. Ignored by git.
INCLUDE = ROOT / ".cache" / "include"

# Flags of gcc that clang does not know, and flags that write files.
DROPPED = {"-MD", "-fno-canonical-system-headers", "-Wno-free-nonheap-object"}
DROPPED_WITH_VALUE = {"-MF", "-c", "-o"}
DROPPED_PREFIXES = ("-frandom-seed=",)


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


def commands(targets, options):
  """Yields the entries of the database, one for each source file."""
  output_base = bazel("info", "output_base").strip()
  query = f'mnemonic("CppCompile", {targets})'
  graph = json.loads(bazel("aquery", "--output=jsonproto", "--noshow_progress",
                           *options, query))
  seen = set()
  for action in graph.get("actions", []):
    arguments = action["arguments"]
    source = source_of(arguments)
    if source in seen or source.startswith(("external/", "bazel-out/")):
      continue
    seen.add(source)
    yield {
        "directory": str(ROOT),
        "file": source,
        "arguments": translate(arguments, output_base) + [source],
    }


def main():
  arguments = sys.argv[1:]
  split = arguments.index("--") if "--" in arguments else len(arguments)
  targets = " + ".join(arguments[:split]) or "//..."
  database = list(commands(targets, arguments[split + 1:]))
  INCLUDE.mkdir(parents=True, exist_ok=True)
  link = INCLUDE / "tenon"
  link.unlink(missing_ok=True)
  link.symlink_to(ROOT)
  out = ROOT / "compile_commands.json"
  out.write_text(json.dumps(database, indent=1) + "\n")
  print(f"{out}: {len(database)} files")


if __name__ == "__main__":
  main()

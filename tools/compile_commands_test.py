#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of compile_commands.py, on actions as `bazel aquery` prints them."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import compile_commands  # noqa: E402


def compilation(source, *flags):
  return {"mnemonic": "CppCompile",
          "arguments": ["/usr/bin/gcc", "-Wall", "-Werror", *flags, "-MD", "-MF",
                        "x.d", "-c", source, "-o", "x.o"]}


def generation(unit, *files):
  command = (f"source setup.sh; for file in {' '.join(files)}; do echo "
             f'"#include \\"$file\\""; done > {unit}')
  return {"mnemonic": "Genrule", "arguments": ["/bin/bash", "-c", command]}


def commands(*actions):
  return {entry["file"]: entry["arguments"]
          for entry in compile_commands.entries(actions, "/base")}


class CompileCommandsTest(unittest.TestCase):

  def test_a_source_has_the_flags_that_clang_knows(self):
    found = commands(compilation("shm/a.cc", "-O2", "-include", "bazel/b.h"))
    self.assertEqual(found, {"shm/a.cc": [
        "/usr/bin/gcc", "-Wall", "-O2", f"-I{compile_commands.INCLUDE}",
        "shm/a.cc"]})

  def test_each_file_of_a_unit_has_its_command(self):
    unit = "bazel-out/bin/shm/all_test_unit.cc"
    found = commands(compilation(unit, "-O0"),
                     generation(unit, "shm/a_test.cc", "shm/b_test.cc"))
    self.assertEqual(list(found), ["shm/a_test.cc", "shm/b_test.cc"])
    for source, arguments in found.items():
      self.assertIn("-O0", arguments)
      self.assertEqual(arguments[-1], source)
      self.assertNotIn(unit, arguments)

  def test_other_generated_sources_have_none(self):
    generated = "bazel-out/bin/shm/examples.cc"
    self.assertEqual(commands(
        compilation(generated),
        generation("bazel-out/bin/shm/other.txt", "shm/a.cc")), {})

  def test_a_file_that_is_compiled_twice_has_one_command(self):
    found = compile_commands.entries(
        [compilation("shm/a.cc"), compilation("shm/a.cc", "-fPIC")], "/base")
    self.assertEqual(len(list(found)), 1)

  def test_external_paths_begin_at_the_output_base(self):
    found = commands(compilation("shm/a.cc", "external/abseil/include"),
                     compilation("external/abseil/a.cc"))
    self.assertIn("/base/external/abseil/include", found["shm/a.cc"])
    self.assertEqual(list(found), ["shm/a.cc"])


if __name__ == "__main__":
  unittest.main()

#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""The version of bazel/version.bzl is that of what cannot load that file."""

import pathlib
import re
import unittest

VERSION = re.search(r'^VERSION = "(\d+\.\d+\.\d+)"$',
                    pathlib.Path("bazel/version.bzl").read_text(),
                    re.MULTILINE)[1]


class VersionTest(unittest.TestCase):

  def test_of_the_module(self):
    module = pathlib.Path("MODULE.bazel").read_text()
    self.assertIn(f'module(\n    name = "tenon",\n    version = "{VERSION}",',
                  module)

  def test_of_plugins(self):
    header = pathlib.Path("loader/data/plugin_version.h").read_text()
    self.assertRegex(header,
                     rf'kPluginVersion\[\] = "{re.escape(VERSION)}/\d+";')

  def test_of_the_header(self):
    header = pathlib.Path("shm/base/version.h").read_text()
    self.assertIn(f'kVersion[] = "{VERSION}";', header)

  def test_has_release_notes(self):
    notes = pathlib.Path(f"docs/releases/v{VERSION}.md").read_text()
    self.assertTrue(notes.startswith(f"# Tenon {VERSION}\n"), notes[:80])


if __name__ == "__main__":
  unittest.main()

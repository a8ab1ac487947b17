#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""Measures small projects whose figures are known."""

import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import house  # noqa: E402

BUILD = """\
package(default_visibility = ["//visibility:private"])

cc_library(
    name = "door",
    hdrs = ["door.h"],
    visibility = ["//visibility:public"],
    deps = [":hinge"],
)

cc_library(
    name = "hinge",
    hdrs = ["hinge.h"],
)

cc_library(
    name = "door_testing",
    testonly = True,
    hdrs = ["door_testing.h"],
    visibility = ["//visibility:public"],
)
"""


class HouseTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        (self.root / ".git").mkdir()
        self.room = self.root / "room"
        self.room.mkdir()

    def write(self, name, text):
        path = self.room / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    def printed(self, *arguments):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            house.main(list(arguments))
        return out.getvalue()

    def row(self):
        return house.measure(self.room, self.root)

    def test_reach_follows_includes_and_counts_internal_ones(self):
        self.write("BUILD.bazel", BUILD)
        self.write("door.h", '#include "tenon/room/hinge.h"\n#include <map>\n')
        self.write("hinge.h", '#include "room/screw.h"\n')
        self.write("screw.h", '#include "absl/none.h"\n')
        self.write("door_testing.h", '#include "room/door.h"\n')
        self.assertEqual(house.reaches(self.room, self.root),
                         [(2, 2, self.room / "door.h")])

    def test_headers_that_include_each_other_end(self):
        self.write("BUILD.bazel", BUILD)
        self.write("door.h", '#include "room/hinge.h"\n')
        self.write("hinge.h", '#include "room/door.h"\n')
        self.assertEqual(house.reaches(self.room, self.root),
                         [(1, 1, self.room / "door.h")])

    def test_words_count_in_comments_alone(self):
        self.write("a.cc", 'int lie;  // Nobody lies here.\n'
                   'f("who // what is");  /* one two three */\n')
        self.assertEqual(self.row()[6:8], ["0.0k", "333.3"])

    def test_a_phrase_is_counted_across_lines(self):
        self.write("a.h", "// It keeps what\n// is sent.\n")
        self.assertEqual(house.WORDS.findall(
            house.joined_comments((self.room / "a.h").read_text())),
            ["what\n is"])

    def test_license_lines_are_no_comments(self):
        self.write("a.h", "// SPDX-License-Identifier: Apache-2.0\n// One.\n")
        share = house.Share()
        share.add(house.joined_comments((self.room / "a.h").read_text()))
        self.assertEqual(share.words, 1)

    def test_markdown_is_counted_beside_comments(self):
        self.write("README.md", "Whoever waits is woken.\n")
        self.assertEqual(self.row()[8], "250.0")

    def test_files_and_build_lines(self):
        self.write("BUILD.bazel", BUILD)
        self.write("door.cc", "x\n" * 80)
        self.write("door_test.cc", "x\n" * 1000)
        self.write("inner/one.cc", "")
        self.assertEqual(self.row()[:3], ["3 / 3 / 3", "20 (25 %)", "20"])

    def test_hidden_and_generated_folders_are_left_out(self):
        self.write(".cache/a.h", "// nobody\n")
        self.write("bazel-out/a.h", "// nobody\n")
        self.assertEqual(list(house.files_under(self.room)), [])

    def test_words_are_listed_with_their_lines(self):
        self.write("a.h", "int a;\n\n// It\n// lies.\n")
        self.assertIn("a.h:4: lies",
                      self.printed("--words", str(self.room)))

    def test_the_table_has_a_row_for_each_folder(self):
        self.write("a.h", "// One.\n")
        lines = self.printed(str(self.room), str(self.root)).splitlines()
        self.assertEqual(len(lines), 4)
        self.assertEqual(len(set(line.count("|") for line in lines)), 1)

    def test_a_folder_that_is_not_there_is_an_error(self):
        with self.assertRaisesRegex(SystemExit, "none is not a folder"):
            house.main([str(self.root / "none")])


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""The scripts that write documents: index, counts of lines, shown files, API pages."""

import os
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import bazel_query  # noqa: E402
import check_api_links  # noqa: E402
import doxygen_filter  # noqa: E402
import line_counts  # noqa: E402
import public_index  # noqa: E402
import shown_files  # noqa: E402

HEADER = """\
// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Door: opens and
// closes. For houses.
//
//   Door door;

#include <x>

// As Queue<T>::Open().
int Knock(int times);  // At least 1.
"""


class DocumentsTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def test_the_first_sentence_without_its_subject(self):
        path = self.write("door.h", HEADER)
        self.assertEqual(public_index.first_sentence(path), "opens and closes")
        self.assertEqual(public_index.short("//shm/door:door"), "//shm/door")
        self.assertEqual(public_index.short("//shm/door:knob"), "//shm/door:knob")

    # Of which the words come late on a busy machine.
    def test_a_bazel_that_waits_for_its_lock_is_an_error(self):
        bazel = self.write("bazel", "#!/bin/sh\necho 'Another command (pid=7) is running.' "
                                    ">&2\nexec sleep 600\n")
        bazel.chmod(0o755)
        for patience in (1, 4, 16):
            with unittest.mock.patch.dict(os.environ, BAZEL=str(bazel)), \
                    unittest.mock.patch.object(bazel_query, "PATIENCE", patience), \
                    self.assertRaises(SystemExit) as ended:
                public_index.query("//...")
            if "pid=7" in str(ended.exception):
                break
        self.assertIn("Another command (pid=7) is running.\n", str(ended.exception))
        self.assertIn(f"no answer within {patience} s", str(ended.exception))
        self.assertIn("--output_base", str(ended.exception))

    def test_the_error_of_a_query_is_bazels(self):
        bazel = self.write("bazel", "#!/bin/sh\necho 'no such target' >&2\nexit 7\n")
        bazel.chmod(0o755)
        with unittest.mock.patch.dict(os.environ, BAZEL=str(bazel)), \
                self.assertRaisesRegex(SystemExit, "no such target"):
            public_index.query("//...")

    def test_comments_are_literal(self):
        lines = doxygen_filter.convert(HEADER.split("\n"))
        self.assertEqual(lines[1:], [
            "/// @file", "/// Door: opens and", "/// closes. For houses.", "/// ",
            "/// @verbatim", "///    Door door;", "/// @endverbatim", "", "",
            "#include <x>", "", "/// As Queue\\<T\\>\\::Open().",
            "int Knock(int times);  ///< At least 1.", ""])

    def test_lines_that_count(self):
        cpp = self.write("a.cc", HEADER)
        self.assertEqual(line_counts.count_cpp(cpp), 2)
        python = self.write("a.py", '# Licence\n"""Text.\n\nMore.\n"""\n\nx = 1  # One\n')
        self.assertEqual(line_counts.count_python(python), 1)

    def test_a_shown_file_is_without_its_licence(self):
        shown_files.ROOT, root = self.folder, shown_files.ROOT
        self.addCleanup(setattr, shown_files, "ROOT", root)
        self.write("a.cc", HEADER)
        self.assertTrue(shown_files.content("a.cc").startswith("// Door: opens"))
        found = shown_files.SHOWN.findall("<!-- file: a.cc -->\n```cc\nold\n```\n")
        self.assertEqual(found[0][1:3], ("a.cc", "old"))

    def test_links_that_lead_nowhere(self):
        self.write("a.html", '<a id="here"></a><a href="b.html#there"></a>'
                             '<a href="#here"></a><a href="gone.html"></a>')
        self.write("b.html", "")
        self.assertEqual(list(check_api_links.broken_links(self.folder)),
                         ["a.html: b.html has no #there",
                          "a.html: there is no page gone.html"])


if __name__ == "__main__":
    unittest.main()

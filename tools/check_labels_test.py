#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""Which labels check_labels.py finds in a document, and misses in a build."""

import pathlib
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import check_labels  # noqa: E402


class CheckLabelsTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        patch = unittest.mock.patch.object(check_labels, "ROOT", self.root)
        self.addCleanup(patch.stop)
        patch.start()

    def test_labels_are_found(self):
        self.assertEqual(
            check_labels.labels_in("`//shm/segment`, \"@tenon//ipc/channel\","
                                   " test //tools/... and //loader."),
            {"//shm/segment", "//ipc/channel", "//tools/...", "//loader"})

    def test_other_slashes_are_no_labels(self):
        self.assertEqual(
            check_labels.labels_in("https://example.org/a // comment\n"
                                   "@googletest//:gtest a//b //shm:* //..."),
            set())

    def test_a_target_that_is_not_there_is_missing(self):
        def ask(labels):
            self.assertEqual(labels, {"//ipc:none", "//ipc/queue"})
            return {"//ipc/queue"}, "no such target"
        self.assertEqual(
            check_labels.missing({"//ipc/queue", "//ipc:none"}, ask),
            ({"//ipc:none"}, "no such target"))

    def test_packages_and_files_are_there_without_bazel(self):
        (self.root / "shm").mkdir()
        (self.root / "shm/BUILD.bazel").touch()
        (self.root / "shm/rules.bzl").touch()
        self.assertEqual(
            check_labels.missing({"//shm", "//shm/...", "//shm:all",
                                  "//shm:rules.bzl",
                                  "//visibility:public"}, self.fail),
            (set(), ""))

    def test_links_lead_to_files(self):
        (self.root / "docs").mkdir()
        (self.root / "README.md").touch()
        self.assertEqual(
            check_labels.broken_links(
                "docs/a.md", "[a](../README.md#top) [b](#here) [c](b.md)\n"
                "[d](https://example.org/x.md)"),
            ["b.md"])

    def test_public_targets_are_asked_for_by_floor(self):
        def ask(queries):
            self.assertEqual(len(queries), len(check_labels.FLOORS))
            self.assertIn(
                'attr(visibility, "//visibility:public", //ipc/...)', queries)
            return {"//ipc/queue:pipe", "Loading:"}, "complaints"
        self.assertEqual(check_labels.public_targets(ask),
                         ({"//ipc/queue:pipe"}, "complaints"))

    def test_a_public_target_is_named_by_a_readme_of_its_floor(self):
        named = {"ipc/README.md": {"//ipc/queue", "//ipc/queue:pipe"},
                 "shm/arena/README.md": {"//shm/arena:arena"},
                 "docs/queues.md": {"//ipc/queue:queue_value"},
                 "shm/README.md": {"//ipc/ring"}}
        self.assertEqual(
            check_labels.unnamed(
                {"//ipc/queue:queue", "//ipc/queue:pipe", "//shm/arena:arena",
                 "//ipc/queue:queue_value", "//ipc/ring:ring",
                 "//loader:loader"}, named),
            ["//ipc/queue:queue_value", "//ipc/ring:ring", "//loader:loader"])

    def test_a_folder_that_is_not_there_is_missing(self):
        gone, _ = check_labels.missing({"//none/...", "//none"},
                                       lambda _: (set(), ""))
        self.assertEqual(gone, {"//none/...", "//none"})


if __name__ == "__main__":
    unittest.main()

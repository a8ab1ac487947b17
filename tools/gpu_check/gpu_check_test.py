#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0

"""Packs the checks of a GPU, and runs them under the fake driver."""

import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

# In the place of Bazel, which has built everything before the test.
BAZELW = """#!/bin/sh
echo "$@" > built
ln -s "$BUILT" bazel-bin
"""
ROOT = pathlib.Path(os.environ["TEST_SRCDIR"]) / os.environ["TEST_WORKSPACE"]
TESTS = ["device_allocation", "device_kill", "device_pool", "device_spawn", "devices", "fence",
         "legacy_memory", "torch"]
BINARIES = [ROOT / "tools/gpu_check/checks", ROOT / "cuda_ipc/fake/libcuda.so.1",
            *(ROOT / f"cuda_ipc/{test}_gpu_test" for test in TESTS)]
TORCH_PEER = "shm_manager/testdata/torch_peer.py"


class GpuCheckTest(unittest.TestCase):
    """One folder, packed once."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))) / "packed"
        subprocess.run([sys.executable, ROOT / "tools/gpu_check/pack.py", cls.folder, *BINARIES],
                       check=True)

    def run_wrapper(self, environment, *arguments):
        """Starts gpu_check in a checkout whose Bazel has built the runfiles."""
        checkout = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
        tools = checkout / "tools/gpu_check"
        tools.mkdir(parents=True)
        for name in ("gpu_check", "pack.py", "run.py"):
            shutil.copy(ROOT / "tools/gpu_check" / name, tools)
        (checkout / TORCH_PEER).parent.mkdir(parents=True)
        shutil.copy(ROOT / TORCH_PEER, checkout / TORCH_PEER)
        (checkout / "bazelw").write_text(BAZELW)
        (checkout / "bazelw").chmod(0o755)
        done = subprocess.run([tools / "gpu_check", *arguments],
                              env={"PATH": "/usr/bin:/bin", "BUILT": str(ROOT), **environment},
                              stdout=subprocess.PIPE, text=True, timeout=250, check=False)
        return done, (checkout / "built").read_text().split()

    def run_packed(self, environment, *arguments):
        """Starts run.py in an empty environment but for `environment`."""
        return subprocess.run([sys.executable, self.folder / "run.py", *arguments],
                              cwd=self.folder, env={"PATH": "/usr/bin:/bin", **environment},
                              stdout=subprocess.PIPE, text=True, timeout=250, check=False)

    def import_packed(self):
        """run.py as a module."""
        spec = importlib.util.spec_from_file_location("packed_run", self.folder / "run.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def test_all_run_under_the_fake_driver(self):
        folder = self.folder.parent / "by_the_wrapper"
        done, built = self.run_wrapper(
            # Another file than the fake driver that tests find beside them, and reset.
            {"TENON_LIBCUDA": str(ROOT / "cuda_ipc/fake/libcuda.so.1"),
             "TENON_FAKE_CUDA": "machine=gpu_check",
             "PYTHONPATH": str(ROOT / "cuda_ipc/testdata/torch_double")}, folder, "--quick")
        print(done.stdout)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(built[0], "build")
        self.assertEqual({ROOT / target[2:].replace(":", "/") for target in built[1:]},
                         set(BINARIES))
        written = json.loads((folder / "gpu_check.json").read_text())
        self.assertTrue(written["facts"]["fake"])
        results = {r["id"]: r for r in written["results"]}
        for number in range(1, 16):
            ids = [i for i in results if re.fullmatch(rf"G{number}(\..*)?", i)]
            self.assertTrue(ids, f"G{number}")
        for result in results.values():
            self.assertIn(result["result"], ("pass", "seen", "figure", "not run"), result)
            if result["result"] == "not run":
                self.assertTrue(result["detail"], result)
        self.assertEqual(results["G13"]["result"], "pass", results["G13"])
        self.assertIn(" 0 skipped", results["G13"]["detail"])
        self.assertIn("torch double", (folder / "logs/G13.log").read_text())
        self.assertEqual(results["A1"]["result"], "seen", results["A1"])
        # The fake has no kernels, and says so.
        self.assertIn("kernels", results["G2.kernel"]["detail"])
        self.assertIn("fake driver", (folder / "gpu_check.md").read_text())

    def test_without_a_torch_that_has_cuda_g13_says_why(self):
        module = self.import_packed()
        folder = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))

        def problem(program, fake=False):
            python = folder / "python"
            python.write_text(f"#!/bin/sh\n{program}\n")
            python.chmod(0o755)
            return module.torch_problem(str(python), fake)

        self.assertIn("no interpreter", module.torch_problem("/nonexistent/python3", False))
        self.assertRegex(problem("echo 'No module named torch'; exit 1"),
                         "no torch: .*exit code 1: No module named torch")
        self.assertIn("no output", problem("exit 1"))
        self.assertRegex(problem("echo torch 2.15.0+cpu False"), "torch without CUDA: .*2.15.0.cpu")
        self.assertIn("fake driver", problem("echo torch 2.15.0 True", fake=True))
        self.assertIsNone(problem("echo torch 2.15.0 True; echo 'a warning' >&2"))

    def test_each_assumption_of_the_fake_driver_has_a_check(self):
        listed = subprocess.run([self.folder / "checks", "--list"], stdout=subprocess.PIPE,
                                text=True, check=True).stdout
        checks = [json.loads(line) for line in listed.splitlines()]
        texts = [c["text"] for c in checks if c["group"] == "assumption"]
        readme = (ROOT / "cuda_ipc/fake/README.md").read_text()
        rows = [line.strip("| ").split(" | ") for line in readme.splitlines()
                if line.startswith("|") and "assumed" in line.split(" | ")[-1]]
        assumed = [row[0] for row in rows]
        self.assertGreater(len(assumed), 20)
        for row in assumed:
            self.assertTrue(any(row.startswith(text) for text in texts), row)
        for text in texts:
            self.assertTrue(any(row.startswith(text) for row in assumed), text)

    def test_a_machine_without_a_driver_says_so(self):
        done = self.run_packed({"TENON_LIBCUDA": "/nonexistent/libcuda.so.1"})
        self.assertEqual(done.returncode, 2)
        self.assertIn("not run: NOT_FOUND", done.stdout)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""Runs a Bazel query for the other tools, in a bounded time.

Bazel runs one command of a checkout at a time: a query waits for the lock that another
command holds, without a limit of its own. BAZEL may name another Bazel, as in
BAZEL="bazel --output_base=/tmp/other".
"""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PATIENCE = 900  # Seconds; a query of a checkout that was never loaded takes minutes.


def run_query(*arguments):
    """The finished process of `bazel query ARGUMENTS`; exits if it takes too long."""
    bazel = os.environ.get("BAZEL", "./bazelw").split()
    try:
        return subprocess.run(
            [*bazel, "query", "--noshow_progress", *arguments], cwd=ROOT,
            capture_output=True, text=True, check=False, timeout=PATIENCE)
    except subprocess.TimeoutExpired as expired:
        said = expired.stderr or ""
        if isinstance(said, bytes):  # Even with text=True, before Python 3.12.
            said = said.decode(errors="replace")
        sys.exit(f"{said.strip()}\nbazel query: no answer within {PATIENCE} s; if another "
                 "command holds the lock of this checkout, let it end or end it, or give "
                 "the query a server of its own: "
                 'BAZEL="./bazelw --output_base=/tmp/other"')


def query(*arguments):
    """The output of a query; exits with Bazel's messages if it fails."""
    run = run_query(*arguments)
    if run.returncode != 0:
        sys.exit(run.stderr)
    sys.stderr.write(run.stderr)  # Its warnings.
    return run.stdout

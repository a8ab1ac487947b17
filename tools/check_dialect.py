#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""Checks what a user with a dialect older than C++20 reads: one error.

    tools/check_dialect.py

Before its own code, each public header includes shm/base/cplusplus_20.h: the
first include of Tenon's, and the first one in that, and so on, lead there. And
that header ends a compilation as C++17 with its own message and no other.
Prints each header that does not; exits 1 then.
"""

import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import house  # noqa: E402

GUARD = house.ROOT / "shm/base/cplusplus_20.h"


def first_reached(header):
    """The end of the chain of first includes of the project's headers."""
    while True:
        found = (house.resolve(include, header)
                 for include in house.INCLUDE.findall(house.read(header)))
        below = next((path for path in found if path), None)
        if below is None:
            return header
        header = below


def errors_of(dialect):
    """The first lines of the errors of compiling the guard alone."""
    compiled = subprocess.run(
        [os.environ.get("CXX", "c++"), f"-std={dialect}", "-fsyntax-only",
         "-Wno-error", "-x", "c++", GUARD],
        stderr=subprocess.PIPE, text=True, check=False,
        env={**os.environ, "LC_ALL": "C"})
    return [line for line in compiled.stderr.splitlines() if "error: " in line]


def main():
    own = house.ROOT / "third_party"  # Headers of others, in C.
    bad = [f"{header.relative_to(house.ROOT)}: does not reach {GUARD.name} "
           "before its own code"
           for header in sorted(house.public_headers(house.ROOT))
           if own not in header.parents and first_reached(header) != GUARD]
    old = errors_of("c++17")
    if len(old) != 2 or "Tenon needs C++20" not in old[0]:
        bad.append(f"{GUARD.name} as C++17: {old}")
    if errors_of("c++20"):
        bad.append(f"{GUARD.name} as C++20: {errors_of('c++20')}")
    print("\n".join(bad) or "every public header asks for C++20")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""Checks that every test that a document names is there.

    tools/check_parity.py                    # docs/parity.md
    tools/check_parity.py docs/trust.md

A test is named as `Suite.Name`, or `Suite.*` for all of a suite. Exits 1 and
lists those that no test file of this repository defines.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEFINED = re.compile(r"^(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", re.M)
NAMED = re.compile(r"`(\w+(?:Test|Handle)\w*)\.(\w+|\*)`")


def defined_tests():
    tests = set()
    for path in ROOT.glob("*/**/*_test.cc"):
        for suite, name in DEFINED.findall(path.read_text()):
            tests.update({(suite, name), (suite, "*")})
    return tests


def main(documents):
    tests = defined_tests()
    missing = named = 0
    for document in documents:
        for suite, name in NAMED.findall((ROOT / document).read_text()):
            named += 1
            if (suite, name) not in tests:
                missing += 1
                print(f"{document}: there is no test {suite}.{name}")
    print(f"{named} tests named, {missing} of them missing")
    return 1 if missing or not named else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["docs/parity.md"]))

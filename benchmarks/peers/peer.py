# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""What the peers in Python share: flags, keys, and the lines that they print.

    PEER [--seconds=S] [--budget=S] [KEY...]

S of --seconds is the time of each case; without a KEY all cases are wanted.
After --budget seconds no further case begins. Lines are `KEY us=FIGURE`, or
`KEY missing: REASON`.
"""

import statistics
import sys
import time

FLAGS = dict(argument[2:].split("=", 1) for argument in sys.argv[1:]
             if argument.startswith("--"))
KEYS = {argument for argument in sys.argv[1:] if not argument.startswith("--")}
SECONDS = float(FLAGS.get("seconds", 1))
_END = time.monotonic() + float(FLAGS.get("budget", "inf"))


def wanted(*keys, takes_s=0):
    """Those of `keys` that are to be measured. When the budget has less left than
    takes_s, says so of each, and returns none."""
    chosen = [key for key in keys if not KEYS or key in KEYS]
    if time.monotonic() + takes_s < _END:
        return chosen
    for key in chosen:
        missing(key, "left out of --quick: too little is left of the "
                f"{FLAGS['budget']} s of this peer")
    return []


def missing(key, reason):
    print(f"{key}  missing: {reason}", flush=True)


def say(key, us):
    print(f"{key}  us={us:.3f}", flush=True)


def repeated(once, least):
    """The results of `once`, called for SECONDS, and `least` times or more."""
    results = []
    end = time.perf_counter() + SECONDS
    while len(results) < least or time.perf_counter() < end:
        results.append(once())
    return results


def median_of(once, least=4):
    """The first call warms up."""
    return statistics.median(repeated(once, least)[1:])

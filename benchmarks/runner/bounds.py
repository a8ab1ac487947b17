# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""The bounds of ratios to the limit: bounds.json."""

import json
import pathlib


def load():
    for folder in [pathlib.Path(__file__).parent.parent,
                   pathlib.Path(__file__).resolve().parent.parent]:
        path = folder / "bounds.json"
        if path.exists():
            return json.loads(path.read_text())["bounds"]
    raise FileNotFoundError("bounds.json")


def of(all_bounds, name, distance, kind="bound"):
    """A number for all distances, or one for each; None: there is none."""
    value = all_bounds.get(name, {}).get(kind)
    return value.get(distance) if isinstance(value, dict) else value


def guard_of(all_bounds, name, distance):
    """What the check allows: the bound, or the ratio of a known miss."""
    guard = of(all_bounds, name, distance, "guard")
    return guard if guard is not None else of(all_bounds, name, distance)


def check(report):
    """Prints what exceeds its guard. Returns the exit code."""
    exceeded, failed, checked = [], [], 0
    for name, scenario in report["scenarios"].items():
        if scenario["status"] == "failed":
            failed.append(f"{name}: {scenario['reason']}")
        for distance, group in scenario["distances"].items():
            guard, ratio = group.get("guard"), group.get("tenon_over_limit")
            if guard is None or ratio is None:
                continue
            checked += 1
            if ratio > guard:
                exceeded.append(f"{name} ({distance}): {ratio:.2f} of its limit, "
                                f"the bound is {guard:.2f}")
    for line in exceeded + failed:
        print(f"check: {line}")
    print(f"check: {checked} ratios, {len(exceeded)} exceed their bounds")
    return 1 if exceeded or failed or checked == 0 else 0

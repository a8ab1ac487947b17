#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""Prints where the time of one run of .ci/run went.

    tools/ci_table.py DIRECTORY

DIRECTORY holds `sections`, one line per section of the run (seconds, test
cases, profile, name, separated by tabs; `-` where a section has none), the
profiles that Bazel wrote (--profile), and `warm`, one line per cache that was
not empty when the run began. The seconds of an action are the wall time of its
process, or of the whole action, less its wait for a core, where Bazel runs the
process without a sandbox.
Bounds per package come from tools/ci_budget; exceeding one fails nothing.
"""

import bisect
import collections
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
KINDS = {"Compiling": "compilations", "Linking": "links", "Testing": "tests"}
# "Testing //ipc/ring:ring_test (shard 1 of 2)" and "Compiling ipc/ring.cc".
ACTION = re.compile(r"(Compiling|Linking|Testing) (?://)?(\S+)( \(.*\))?$")

Action = collections.namedtuple("Action", "kind name section seconds")
Section = collections.namedtuple("Section", "name seconds cases profile")


def read_sections(directory):
    for line in (directory / "sections").read_text().splitlines():
        seconds, cases, profile, name = line.split("\t")
        yield Section(name, int(seconds), 0 if cases == "-" else int(cases),
                      None if profile == "-" else directory / profile)


def read_actions(section):
    """The actions of a profile, each with the seconds of its processes."""
    if section.profile is None or not section.profile.exists():
        return
    try:
        events = json.loads(section.profile.read_text())["traceEvents"]
    except ValueError as error:  # Bazel did not finish it.
        print(f"{section.name}: no times of its actions: {error}")
        return
    processes = by_thread(e for e in events if e.get("name") == "subprocess.run")
    waits = by_thread(e for e in events if e.get("cat") == "action resource lock")
    for event in events:
        match = ACTION.match(event.get("name", ""))
        if match is None or event.get("cat") != "action processing":
            continue
        # Without a sandbox there is no separate event for the process.
        duration = (within(event, processes) or
                    event["dur"] - within(event, waits))
        yield Action(match[1], match[2] + (match[3] or ""), section.name,
                     duration / 1e6)


def by_thread(events):
    """The begin and the duration of each, in order of time."""
    sorted_events = collections.defaultdict(list)
    for event in sorted(events, key=lambda e: (e["ts"], e["dur"])):
        sorted_events[event["tid"]].append((event["ts"], event["dur"]))
    return sorted_events


def within(action, events):
    """The duration of those events of its thread that began during an action."""
    mine = events[action["tid"]]
    begin = bisect.bisect_left(mine, (action["ts"], 0))
    end = bisect.bisect_right(mine, (action["ts"] + action["dur"], 0))
    return sum(duration for _, duration in mine[begin:end])


def package_of(name):
    """The package of a file's path or a label; None outside of Tenon."""
    folder = pathlib.PurePath(name.split(":")[0])
    for parent in [folder, *folder.parents]:
        if str(parent) != "." and (ROOT / parent / "BUILD.bazel").exists():
            return str(parent)
    return None


def read_budget():
    budget = {}
    for line in (ROOT / "tools/ci_budget").read_text().splitlines():
        fields = line.split("#")[0].split()
        if fields:
            budget[fields[0]] = int(fields[1])
    return budget


def print_caches(directory):
    warm = (directory / "warm").read_text().splitlines()
    print("Cold: the output base and all caches were empty." if not warm else
          "Warm: " + ", ".join(warm) + ".")


def print_sections(sections, actions):
    print(f"{'seconds':>7} {'compile':>8} {'link':>6} {'test':>6} "
          f"{'files':>6} {'tests':>6} {'cases':>6}  section")
    for section in sections:
        mine = [action for action in actions if action.section == section.name]
        spent = {kind: sum(a.seconds for a in mine if a.kind == kind)
                 for kind in KINDS}
        ran = collections.Counter(a.kind for a in mine if a.seconds > 0)
        print(f"{section.seconds:7d} {spent['Compiling']:8.0f} "
              f"{spent['Linking']:6.0f} {spent['Testing']:6.0f} "
              f"{ran['Compiling']:6d} {ran['Testing']:6d} "
              f"{section.cases:6d}  {section.name}")
    print(f"{sum(s.seconds for s in sections):7d} in all")


def print_slowest(actions, count=10):
    for kind, plural in KINDS.items():
        print(f"\nThe {count} slowest {plural}, in seconds:")
        chosen = [action for action in actions if action.kind == kind]
        chosen.sort(key=lambda action: -action.seconds)
        for action in chosen[:count]:
            print(f"{action.seconds:7.1f}  {action.name}  [{action.section}]")


def print_budget(actions):
    spent = collections.Counter()
    for action in actions:
        spent[package_of(action.name)] += action.seconds
    print("\nPer package, in seconds of all its actions, beside its bound in "
          "tools/ci_budget:")
    budget = read_budget()
    for package in sorted(set(spent) | set(budget), key=str):
        if package is None:
            continue
        bound = budget.get(package)
        finding = ("  no bound" if bound is None else
                   "  OVER ITS BOUND" if spent[package] > bound else "")
        print(f"{spent[package]:7.0f} {bound or '-':>6}  {package}{finding}")


def main(directory):
    directory = pathlib.Path(directory)
    sections = list(read_sections(directory))
    actions = [action for section in sections
               for action in read_actions(section)]
    print_caches(directory)
    print_sections(sections, actions)
    print_slowest(actions)
    print_budget(actions)


if __name__ == "__main__":
    main(*sys.argv[1:])

#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the benchmarks side by side and writes results.json and report.html.

    ./bazelw run -c opt //benchmarks:compare -- --out DIR [--only REGEX] [--quick]

docs/benchmarks.md explains the scenarios and how to read the results. Exit codes:
0; 1 a scenario could not be measured, or with --check one exceeds its bound;
2 a bad flag, or a Python package is missing.
"""

import argparse
import os
import pathlib
import re
import signal
import sys

sys.dont_write_bytecode = True
for folder in [pathlib.Path(__file__).parent,
               pathlib.Path(__file__).resolve().parent]:
    if (folder / "runner").is_dir():
        sys.path.insert(0, str(folder))
        break

from runner import bounds, machine, results, rounds, scenarios  # noqa: E402

MISSING_PACKAGES = """\
compare: Python has no {packages}. Any of these installs what is needed:
  apt-get install python3-matplotlib python3-tqdm
  python3 -m venv ENV && ENV/bin/pip install matplotlib tqdm, then put ENV/bin first in PATH
or measure without plots and progress bar: --no-report
"""


def parse(argv):
    parser = argparse.ArgumentParser(prog="compare", description=__doc__.split(
        "\n")[0])
    parser.add_argument("--out", help="folder of results.json, report.html and PNGs")
    parser.add_argument("--only", default="",
                        help="only scenarios whose names match this regex")
    parser.add_argument("--quick", action="store_true",
                        help="three minutes, with a wider spread")
    parser.add_argument("--smoke", action="store_true",
                        help="one short iteration of each: figures mean nothing")
    parser.add_argument("--rounds", type=int, default=None,
                        help="interleaved repetitions (5; quick: 2); with --quick "
                        "all of them, and slow peers, however long they take")
    parser.add_argument("--peers", default=os.environ.get("TENON_PEERS", ""),
                        help="the folder of tools/install_peers ($TENON_PEERS)")
    parser.add_argument("--no-report", dest="report", action="store_false",
                        help="only results.json; needs no Python package")
    parser.add_argument("--check", action="store_true",
                        help="exit with 1 if a ratio exceeds its bound; no report")
    parser.add_argument("--list", action="store_true",
                        help="print the names of the scenarios")
    args = parser.parse_args(argv)
    try:
        args.only = re.compile(args.only)
    except re.error as error:
        parser.error(f"--only: {error}")
    if args.rounds is not None and args.rounds < 1:
        parser.error("--rounds: at least 1")
    if not (args.out or args.check or args.list):
        parser.error("--out DIR is needed")
    return args


def path_of(path):
    """A relative path is relative to where `bazel run` was called."""
    return pathlib.Path(os.environ.get("BUILD_WORKING_DIRECTORY", "."),
                        path).absolute()


def programs_folder():
    """Where the benchmark programs are, as //benchmarks:side_by_side is."""
    runfiles = pathlib.Path(sys.argv[0]).absolute()
    for folder in [pathlib.Path.cwd(), *sorted(
            runfiles.parent.glob(runfiles.name + ".runfiles/*"))]:
        if (folder / "benchmarks" / "side_by_side").exists():
            return folder
    sys.exit("compare: no benchmark programs here; start it by "
             "`./bazelw run -c opt //benchmarks:compare -- --out DIR`")


def missing_packages():
    missing = []
    for package in ["matplotlib", "tqdm"]:
        try:
            __import__(package)
        except ImportError:
            missing.append(package)
    return missing


def main(argv):
    # Ends what it has started, as an interrupt does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    args = parse(argv)
    chosen = [s for s in scenarios.ALL if args.only.search(s.name)]
    wants_in_flight = bool(args.only.search(scenarios.IN_FLIGHT)) and not args.check
    if not (chosen or wants_in_flight):
        print(f"compare: no scenario matches --only={args.only.pattern}; "
              "see --list", file=sys.stderr)
        return 2
    if args.list:
        print("\n".join([s.name for s in chosen] +
                        [scenarios.IN_FLIGHT] * wants_in_flight))
        return 0
    wants_report = args.report and not args.check
    missing = missing_packages() if wants_report else []
    if missing:
        sys.stderr.write(MISSING_PACKAGES.format(packages=" and no ".join(missing)))
        return 2
    mode = rounds.mode_of(args)
    context = machine.context(mode, argv)
    machine.print_head(context)
    measured, in_flight = rounds.run(
        chosen, mode, programs_folder(),
        path_of(args.peers) if args.peers else None, context, wants_in_flight)
    report = results.build(chosen, measured, context, bounds.load(), in_flight)
    if args.out:
        out = path_of(args.out)
        results.write(report, out)
        if wants_report:
            from runner import report as html  # Needs matplotlib.
            html.write(report, out)
        print(f"\n{out}/results.json" +
              (f"\n{out}/report.html" if wants_report else ""))
    results.print_table(report)
    if args.check:
        return bounds.check(report)
    failed = [name for name, row in report["scenarios"].items()
              if row["status"] == "failed"]
    for name in failed:
        print(f"compare: {name}: {report['scenarios'][name]['reason']}",
              file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

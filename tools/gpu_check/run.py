#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0

"""Runs all checks of a packed folder on this machine's GPU.

    ./run.py [--json FILE] [--table FILE] [--quick]

Needs Python 3.8, NVIDIA's driver and nothing else: no Bazel, no CUDA toolkit,
no network. Prints a line for each check, and ends with 1 if one failed. Writes
all results as JSON, a table for docs/gpu.md, and the output of the test
binaries into the folder logs. A check that needs more than the machine has is
"not run", with the reason. The Python of $TENON_TORCH_PYTHON, or python3, may
have torch with CUDA, for G13. Without a driver or a device nothing is run, and
the exit code is 2.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent

# (id, text, binary, filter of its tests)
TESTS = [
    ("G2", "memory by descriptor, read and written by both", "device_pool_gpu_test",
     "DeviceSharingTest.AReceiverReadsAndWritesTheSameMemory"),
    ("G3", "the owner exits or is killed, and its receiver reads on",
     "device_pool_gpu_test",
     "DeviceSharingTest.AForwardedTensorReachesTheThirdAfterItsOwnersExit:"
     "DeviceSharingTest.TheReceiverOfAKilledOwnerKeepsReadingAndForwarding"),
    ("G5", "read-only imports", "device_pool_gpu_test",
     "DeviceSharingTest.AReadOnlyPoolIsReadOnlyForReceivers"),
    ("G6", "forwarded, with the first process gone", "device_pool_gpu_test",
     "*AChainOfFourOutlivesItsFirstProcess*"),
    ("G9", "words of memory: order, their end, a killed recorder", "fence_gpu_test",
     "FenceProcessTest.TenThousand*:FenceTest.*:DeadSenderTest.AKilled*"),
    ("G12", "kills at random times leave nothing", "device_kill_gpu_test",
     "DeviceKillTest.*"),
    ("T.devices", "all tests of devices", "devices_gpu_test", "*"),
    ("T.allocation", "all tests of allocations", "device_allocation_gpu_test", "*"),
    ("T.fence", "all tests of fences", "fence_gpu_test", "*"),
    ("T.pool", "all tests of pools, with parity's GPU column", "device_pool_gpu_test", "*"),
    ("T.spawn", "all tests of device tensors as arguments of processes", "device_spawn_gpu_test",
     "*"),
    ("T.legacy", "all tests of legacy handles", "legacy_memory_gpu_test", "*"),
    ("T.kill", "all tests of kills, with parity's GPU column", "device_kill_gpu_test", "*"),
]
QUICK = {"G2", "G3", "G5", "G6", "G9", "G12", "T.allocation", "T.pool", "T.devices", "T.spawn",
         "T.legacy"}

# Prints the version of torch, and whether it has CUDA.
TORCH_PROBE = "import torch; print('torch', torch.__version__, torch.cuda.is_available())"


def report(results, check, text, result, detail="", value=None):
    """Prints and keeps one result."""
    entry = {"id": check, "text": text, "result": result, "detail": detail}
    figure = ""
    if value is not None:
        entry["value"] = value
        figure = f" {value:.4g}"
    results.append(entry)
    print(f"{check:10} {result:8}{figure} {detail}".rstrip() + f"  [{text}]", flush=True)


def run(command, timeout_s, cwd=None):
    """The exit code, or None after the time; and the output."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=timeout_s, check=False, cwd=cwd)
        return done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        output = late.stdout or ""
        return None, output if isinstance(output, str) else output.decode()


def ended(code, timeout_s):
    """How a process ended."""
    if code is None:
        return f"no result after {timeout_s} s"
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def run_checks(results):
    """Those of the program `checks`, each in a process of its own."""
    listed = subprocess.run([HERE / "checks", "--list"], stdout=subprocess.PIPE, text=True,
                            check=True).stdout
    for line in listed.splitlines():
        check = json.loads(line)
        code, output = run([HERE / "checks", check["id"]], 60)
        last = output.strip().splitlines()[-1] if output.strip() else ""
        if code == 0 and last.startswith("{"):
            seen = json.loads(last)
            value = seen["value"] if seen["result"] == "figure" else None
            report(results, check["id"], check["text"], seen["result"], seen["detail"], value)
        else:
            report(results, check["id"], check["text"], "fail", f"{ended(code, 60)}: {last}")


def run_test(results, check, text, binary, tests):
    """Some tests of a packed binary. They run in the folder, where their files are."""
    command = [HERE / binary, f"--gtest_filter={tests}", "--gtest_color=no"]
    code, output = run(command, 600, cwd=HERE)
    logs = HERE / "logs"
    logs.mkdir(exist_ok=True)
    (logs / f"{check}.log").write_text(output)
    passed = len(re.findall(r"^\[       OK \]", output, re.M))
    skipped = sorted(set(re.findall(r"^\[  SKIPPED \] (\S+) \(", output, re.M)))
    failed = sorted(set(re.findall(r"^\[  FAILED  \] (\S+) \(", output, re.M)))
    counts = f"{passed} passed, {len(skipped)} skipped, {len(failed)} failed"
    if code != 0:
        detail = f"{ended(code, 600)}: {counts} {' '.join(failed)}"
        report(results, check, text, "fail", detail)
    elif passed == 0:
        report(results, check, text, "not run", counts)
    else:
        report(results, check, text, "pass", counts)


def run_tests(results, quick):
    """Those of the packed test binaries."""
    for check, text, binary, tests in TESTS:
        if quick and check not in QUICK:
            report(results, check, text, "not run", "--quick")
        else:
            run_test(results, check, text, binary, tests)


def torch_problem(python, fake):
    """Why `python` has no torch that shares CUDA tensors; None if it does."""
    if shutil.which(python) is None:
        return f"no interpreter: {python} is not an executable program"
    code, output = run([python, "-c", TORCH_PROBE], 300)
    found = re.search(r"^torch (\S+) (True|False)$", output, re.M)
    if code != 0 or found is None:
        last = (output.strip().splitlines() or ["no output"])[-1]
        return f"no torch: {python}: {ended(code, 300)}: {last}"
    version, has_cuda = found.groups()
    if has_cuda != "True":
        return (f"torch without CUDA: torch.cuda.is_available() is false in torch {version} "
                f"of {python}")
    if fake and version != "double":
        return f"torch {version} of {python} does not use the fake driver"
    return None


def run_torch(results, fake):
    """G13."""
    text = "torch at the other end"
    python = os.environ.get("TENON_TORCH_PYTHON", "python3")
    if os.sep in python:
        python = os.path.abspath(python)
    problem = torch_problem(python, fake)
    if problem is not None:
        report(results, "G13", text, "not run", problem)
        return
    os.environ["TENON_TORCH_PYTHON"] = python
    run_test(results, "G13", text, "torch_gpu_test", "*")


def run_sanitizer(results, quick):
    """G15."""
    text = "a receiver under compute-sanitizer"
    tool = shutil.which("compute-sanitizer")
    if tool is None or quick:
        report(results, "G15", text, "not run",
               "--quick" if quick else "compute-sanitizer is not installed")
        return
    code, output = run([tool, "--target-processes=all", HERE / "device_pool_gpu_test",
                        "--gtest_filter=DeviceSharingTest.AReceiver*"], 600)
    clean = "ERROR SUMMARY: 0 errors" in output
    report(results, "G15", text, "pass" if code == 0 and clean else "fail",
           ended(code, 600))


def summary_of_assumptions(results):
    """G14: the fake driver's table beside this driver."""
    rows = [r for r in results if re.fullmatch(r"A\d+", r["id"])]
    count = {kind: sum(r["result"] == kind for r in rows)
             for kind in ("seen", "wrong", "fail", "not run")}
    detail = ", ".join(f"{n} {kind}" for kind, n in count.items())
    good = count["wrong"] == 0 and count["fail"] == 0
    report(results, "G14", "the fake driver's assumptions", "pass" if good else "fail", detail)


def table(facts, results):
    """Markdown, for docs/gpu.md."""
    lines = [f"{facts['date']}, {facts['device']}", "",
             "| check | | result | |", "|---|---|---|---|"]
    for r in results:
        result = r["result"]
        if "value" in r:
            result = f"{r['value']:.4g} {r['detail']}"
        detail = "" if "value" in r else r["detail"].replace("|", "/")
        lines.append(f"| {r['id']} | {r['text']} | {result} | {detail} |")
    return "\n".join(lines) + "\n"


def main():
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", default="gpu_check.json")
    parser.add_argument("--table", default="gpu_check.md")
    parser.add_argument("--quick", action="store_true", help="few of the test binaries")
    options = parser.parse_args()
    fake = "TENON_FAKE_CUDA" in os.environ
    os.environ["TENON_TEST_DRIVER"] = "machine"
    code, output = run([HERE / "checks", "G1"], 120)
    if code == 2:
        print(f"not run: {output.strip()}")
        return 2
    results = []
    run_checks(results)
    run_tests(results, options.quick)
    run_torch(results, fake)
    run_sanitizer(results, options.quick)
    summary_of_assumptions(results)
    probe = next(r for r in results if r["id"] == "G1")
    facts = {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "kernel": platform.release(),
        "device": "the fake driver: no figures of a GPU" if fake else probe["detail"],
        "fake": fake,
    }
    pathlib.Path(options.json).write_text(
        json.dumps({"facts": facts, "results": results}, indent=1) + "\n")
    pathlib.Path(options.table).write_text(table(facts, results))
    bad = [r["id"] for r in results if r["result"] in ("fail", "wrong")]
    print(f"{len(results)} checks, {len(bad)} failed or wrong: {' '.join(bad) or 'none'}; "
          f"{options.json}, {options.table}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

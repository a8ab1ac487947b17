# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""The machine: its cores, whether they share one, and whether it is idle."""

import datetime
import os
import pathlib
import platform
import re
import subprocess
import time

BUSY_ABOVE = 0.1  # Of the time of the cores.


def usable_cores():
    return sorted(os.sched_getaffinity(0))


def siblings_of(core):
    """The hardware threads of its core; itself alone where the kernel hides it."""
    path = pathlib.Path(f"/sys/devices/system/cpu/cpu{core}/topology"
                        "/thread_siblings_list")
    try:
        return path.read_text().strip()
    except OSError:
        return str(core)


def share_a_core(cores):
    return len(cores) > 1 and len({siblings_of(core) for core in cores[:2]}) == 1


def cpu_times(cores):
    """All and idle ticks of `cores`; a hypervisor's steal is not idle."""
    wanted = {f"cpu{core}" for core in cores}
    total = idle = 0
    for line in pathlib.Path("/proc/stat").read_text().splitlines():
        name, *ticks = line.split()
        if name in wanted:
            values = [int(tick) for tick in ticks[:8]]
            total += sum(values)
            idle += values[3] + values[4]
    return total, idle


def busy_share(cores, seconds):
    """The share of the cores' time that other programs use, while this sleeps."""
    total, idle = cpu_times(cores)
    time.sleep(seconds)
    total_now, idle_now = cpu_times(cores)
    passed = total_now - total
    return 1 - (idle_now - idle) / passed if passed > 0 else 0.0


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown"


def commit():
    folder = os.environ.get("BUILD_WORKSPACE_DIRECTORY")
    if not folder:
        return "unknown"
    described = subprocess.run(
        ["git", "-C", folder, "describe", "--always", "--dirty", "--abbrev=40",
         "--exclude=*"], capture_output=True, text=True, check=False)
    return described.stdout.strip() or "unknown"


def command(flags):
    """How the figures are measured again, without the folders of this machine."""
    shown = " ".join(flags)
    for flag, folder in [("--out", "DIR"), ("--peers", "PEERS")]:
        shown = re.sub(rf"{flag}[ =]\S+", f"{flag} {folder}", shown)
    return f"./bazelw run -c opt //benchmarks:compare -- {shown}"


def context(mode, flags):
    """Google Benchmark's context, and what figures mean nothing without."""
    cores = usable_cores()
    busy = busy_share(cores, mode.idle_seconds)
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(
            timespec="seconds"),
        "host_name": platform.node(),
        "executable": "//benchmarks:compare",
        "num_cpus": len(cores),
        "load_avg": list(os.getloadavg()),
        "library_build_type": "release",
        "commit": commit(),
        "command": command(flags),
        "mode": mode.name,
        "processor": processor(),
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE"),
        "usable_cores": cores,
        "cores": cores[:2] if len(cores) > 1 else [],
        "share_a_core": share_a_core(cores),
        "busy_share": [round(busy, 3)],
    }


def is_idle(facts):
    return max(facts["busy_share"]) <= BUSY_ABOVE


def idle_line(facts):
    busy = max(facts["busy_share"])
    if is_idle(facts):
        return f"idle: other programs used at most {busy:.0%} of the cores"
    return (f"NOT IDLE: other programs used up to {busy:.0%} of the cores between "
            "runs; compare ratios, not times, and repeat it on an idle machine")


def cores_line(facts):
    if not facts["cores"]:
        return "one core: rows of two processes are skipped"
    first, second = facts["cores"]
    shared = ("hardware threads of one core" if facts["share_a_core"]
              else "different cores")
    return (f"two processes run on cores {first} and {second}: {shared}; "
            f"{facts['num_cpus']} cores are usable")


def print_head(facts):
    print(f"{facts['processor']}, {facts['kernel']}, commit {facts['commit']}")
    print(cores_line(facts))
    print(idle_line(facts), flush=True)

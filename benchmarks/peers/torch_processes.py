# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""The peer torch.processes: torch.multiprocessing's start_processes().

    torch_processes.py --seconds=S KEY...

prints the time for each KEY that it knows: spawn_2, spawn_8, spawn_32 and fork_8
start and join children that do nothing; error_to_parent is the time from a
forked child's exception until it is raised in the parent, whose 8 other
children have ended.
"""

import signal
import statistics
import sys
import time

import torch.multiprocessing as mp

SIBLINGS = 8


def nothing(_):
    pass


def start_and_join(children, method):
    begin = time.perf_counter()
    mp.start_processes(nothing, nprocs=children, start_method=method)
    return (time.perf_counter() - begin) * 1e6


def fail_when_told(index, go, when):
    if index > 0:
        signal.pause()
    go.recv()
    when.send(time.perf_counter())
    raise ValueError("told to")


def error_to_parent():
    context = mp.get_context("fork")
    go, tell = context.Pipe(duplex=False)
    when, at = context.Pipe(duplex=False)
    processes = mp.start_processes(fail_when_told, (go, at), nprocs=SIBLINGS + 1,
                                   join=False, start_method="fork")
    time.sleep(0.05)  # All of them block by then.
    tell.send(None)
    began = when.recv()
    try:
        while not processes.join():
            pass
    except mp.ProcessRaisedException:
        return (time.perf_counter() - began) * 1e6
    sys.exit("the child has not failed")


KINDS = {
    "spawn_2": lambda: start_and_join(2, "spawn"),
    "spawn_8": lambda: start_and_join(8, "spawn"),
    "spawn_32": lambda: start_and_join(32, "spawn"),
    "fork_8": lambda: start_and_join(8, "fork"),
    "error_to_parent": error_to_parent,
}


def main():
    seconds = float(next((a[len("--seconds="):] for a in sys.argv
                          if a.startswith("--seconds=")), 1))
    for key in sys.argv[1:]:
        if key not in KINDS:
            continue
        times = []
        end = time.perf_counter() + seconds
        while not times or time.perf_counter() < end:
            times.append(KINDS[key]())
        print(f"{key}  us={statistics.median(times):.3f}", flush=True)


if __name__ == "__main__":
    main()

# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""The peer torch.processes: torch.multiprocessing's start_processes().

Prints the time (peer.py) of spawn_2, spawn_8, spawn_32 and fork_8, which start and
join children that do nothing, and of error_to_parent: from a forked child's
exception until it is raised in the parent, whose 8 other children have ended.
"""

import signal
import statistics
import sys
import time

import peer

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


# Key: seconds that it takes about, and what is measured.
KINDS = {
    "fork_8": (0, lambda: start_and_join(8, "fork")),
    "error_to_parent": (0, error_to_parent),
    "spawn_2": (2, lambda: start_and_join(2, "spawn")),
    "spawn_8": (8, lambda: start_and_join(8, "spawn")),
    "spawn_32": (40, lambda: start_and_join(32, "spawn")),
}


def main():
    for key, (takes_s, microseconds) in KINDS.items():
        if peer.wanted(key, takes_s=takes_s):
            peer.say(key, statistics.median(peer.repeated(microseconds, 1)))


if __name__ == "__main__":
    main()

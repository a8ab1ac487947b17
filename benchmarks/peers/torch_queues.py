# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""The peers torch.fd and torch.fs: torch's SimpleQueue, by sharing strategy.

    torch_queues.py --strategy=file_descriptor --seconds=S KEY...

prints the time of a hand-over for each KEY that it knows, which are names of
scenarios of //benchmarks:compare. Tensors are created in shared memory and
filled once, torch's fastest form; the receiver maps them and drops them.
"""

import os
import statistics
import sys
import time

import torch
import torch.multiprocessing as mp

# Key: bytes, and whether tensors go one way.
KINDS = {
    "handover_new": (4096, False), "stream_4KiB": (4096, True),
    "small_1KiB": (1024, True), "fresh_fd_4KiB": (4096, True),
    "pooled_copy_1MiB": (1 << 20, False), "pooled_copy_16MiB": (16 << 20, False),
}
for size, size_bytes in {"64": 64, "1k": 1 << 10, "4k": 4 << 10, "64k": 64 << 10,
                         "1m": 1 << 20, "16m": 16 << 20, "64m": 64 << 20}.items():
    KINDS[f"size_{size}_there_back"] = (size_bytes, False)
    KINDS[f"size_{size}_stream"] = (size_bytes, True)


def new_filled(source):
    storage = torch.UntypedStorage._new_shared(source.numel(), device="cpu")
    tensor = torch.empty(0, dtype=torch.uint8).set_(storage, 0, source.shape)
    return tensor.copy_(source)


def count_of(size):
    return 50 if size <= 64 << 10 else 10 if size <= 1 << 20 else 2


def answer(strategy, core, orders, there, back):
    mp.set_sharing_strategy(strategy)
    torch.set_num_threads(1)
    os.sched_setaffinity(0, {core})
    while (order := orders.recv()) is not None:
        size, one_way = order
        source = torch.ones(size, dtype=torch.uint8)
        for _ in range(count_of(size)):
            there.get()
            if not one_way:
                back.put(new_filled(source))
        if one_way:
            back.put(None)


def microseconds(size, one_way, orders, there, back):
    source = torch.ones(size, dtype=torch.uint8)
    count = count_of(size)
    orders.send((size, one_way))
    begin = time.perf_counter()
    for _ in range(count):
        there.put(new_filled(source))
        if not one_way:
            back.get()
    if one_way:
        back.get()
    return (time.perf_counter() - begin) * 1e6 / count


def median_of(kind, seconds, ends):
    times = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        times.append(microseconds(*kind, *ends))
    return statistics.median(times[1:])  # The first one warms up.


def main():
    flags = dict(a[2:].split("=", 1) for a in sys.argv[1:] if a.startswith("--"))
    strategy = flags["strategy"]
    mp.set_sharing_strategy(strategy)
    torch.set_num_threads(1)
    cores = sorted(os.sched_getaffinity(0))
    context = mp.get_context("fork")
    there, back = context.SimpleQueue(), context.SimpleQueue()
    orders, theirs = context.Pipe()
    child = context.Process(target=answer, daemon=True, args=(
        strategy, cores[-1 if len(cores) < 2 else 1], theirs, there, back))
    child.start()
    os.sched_setaffinity(0, {cores[0]})
    for key in sys.argv[1:]:
        if key in KINDS:
            us = median_of(KINDS[key], float(flags.get("seconds", 1)),
                           (orders, there, back))
            print(f"{key}  us={us:.3f}", flush=True)
    orders.send(None)
    child.join()


if __name__ == "__main__":
    main()

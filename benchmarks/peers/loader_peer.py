# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""What the loaders in Python share: their cases, batches, starts and stops."""

import multiprocessing
import statistics
import time

import peer


def cases(of_workers=(0, 1, 2)):
    """Key, floats of a sample, samples of a batch, batches of a round, workers."""
    for floats, batch_size, batches in [(1, 64, 512), (3 * 32 * 32, 64, 128),
                                        (3 * 224 * 224, 32, 16)]:
        for workers in of_workers:
            yield (f"BM_Batch/floats:{floats}/workers:{workers}", floats,
                   batch_size, batches, workers)
    for batch_size in [1, 8, 64, 512]:
        yield (f"BM_BatchSize/batch:{batch_size}/workers:2", 3 * 32 * 32,
               batch_size, max(4, 512 // batch_size), 2)


def batch_microseconds(batches_of, batches):
    """Of a batch: `batches_of()` begins a round, which has `batches`."""
    def once():
        begin = time.perf_counter()
        iterator = batches_of()
        for _ in range(batches):
            assert next(iterator)[0, 0] == 1
        return (time.perf_counter() - begin) * 1e6 / batches
    return peer.median_of(once)


# ---- Starts and stops. ----

# Of a loader that is started: samples of one float, 64 in a batch, 8 batches.
BATCH_SIZE, BATCHES = 64, 8


def has_ended(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def await_ends(pids):
    end = time.perf_counter() + 60
    while not all(map(has_ended, pids)):
        if time.perf_counter() > end:
            raise RuntimeError("workers are there 60 s after their loader's end")
        time.sleep(0.0001)


def start_and_stop(started, workers):
    """Microseconds from construction to the first batch, and from the loader's end
    until its worker processes have ended. `started()` constructs a loader, takes
    its first batch, and returns what ends it."""
    before = {child.pid for child in multiprocessing.active_children()}
    begin = time.perf_counter()
    end_of = started()
    start = time.perf_counter() - begin
    pids = {child.pid for child in multiprocessing.active_children()} - before
    if len(pids) != workers:
        raise RuntimeError(f"{len(pids)} worker processes, not {workers}")
    begin = time.perf_counter()
    end_of()
    await_ends(pids)
    return start * 1e6, (time.perf_counter() - begin) * 1e6


def print_starts(way, started_of, processes=True, takes_s=0):
    """Of 1, 2 and 4 workers that start in that way; `started_of(workers)` is as
    start_and_stop() needs it, and a worker is expected to take takes_s."""
    for workers in [1, 2, 4]:
        keys = {"start": f"start_{way}_{workers}", "stop": f"stop_{way}_{workers}"}
        chosen = peer.wanted(*keys.values(), takes_s=2 * workers * takes_s)
        if not chosen:
            continue
        times = peer.repeated(lambda: start_and_stop(
            lambda: started_of(workers), workers if processes else 0), 2)
        for index, key in enumerate(keys.values()):
            if key in chosen:
                peer.say(key, statistics.median(pair[index] for pair in times))

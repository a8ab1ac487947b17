# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""The peer loader.grain: Grain's MapDataset, in process and with processes.

Prints the time of a batch. A sample is a copy of the same values; two batches
for each worker are made ahead. The data set repeats without end, as Grain
starts its workers anew for each iteration.
"""

import statistics
import sys
import time

import grain
import numpy

# For each case, of --seconds=S. The other arguments are the keys of the cases that
# are wanted; none: all.
SECONDS = float(next((argument[len("--seconds="):] for argument in sys.argv
                      if argument.startswith("--seconds=")), 1))
WANTED = {argument for argument in sys.argv[1:] if not argument.startswith("--")}


def cases():
    """Key, floats of a sample, samples of a batch, batches of a round, workers."""
    for floats, batch_size, batches in [(1, 64, 512), (3 * 32 * 32, 64, 128),
                                        (3 * 224 * 224, 32, 16)]:
        for workers in [0, 1, 2]:
            yield (f"BM_Batch/floats:{floats}/workers:{workers}", floats,
                   batch_size, batches, workers)
    for batch_size in [1, 8, 64, 512]:
        yield (f"BM_BatchSize/batch:{batch_size}/workers:2", 3 * 32 * 32,
               batch_size, max(4, 512 // batch_size), 2)


class Copy(grain.transforms.Map):

    def __init__(self, floats):
        self.values = numpy.ones(floats, numpy.float32)

    def map(self, index):
        return self.values.copy()


def batch_microseconds(iterator, batches):
    times = []
    end = time.perf_counter() + SECONDS
    while len(times) < 4 or time.perf_counter() < end:
        begin = time.perf_counter()
        for _ in range(batches):
            assert next(iterator)[0, 0] == 1
        times.append((time.perf_counter() - begin) * 1e6 / batches)
    return statistics.median(times[1:])  # The first one warms up.


def main():
    for key, floats, batch_size, batches, workers in cases():
        if WANTED and key not in WANTED:
            continue
        data = (grain.MapDataset.range(batch_size * batches).map(
            Copy(floats)).batch(batch_size).repeat().to_iter_dataset(
                grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)))
        if workers > 0:
            data = data.mp_prefetch(
                grain.MultiprocessingOptions(num_workers=workers,
                                             per_worker_buffer_size=2))
        us = batch_microseconds(iter(data), batches)
        print(f"{key}  us={us:.3f}", flush=True)


if __name__ == "__main__":
    main()

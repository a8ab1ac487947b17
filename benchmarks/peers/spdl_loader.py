# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""The peer loader.spdl: a pipeline of SPDL with threads.

Prints the time of a batch. A sample is a copy of the same values, written into
its place of the batch; two batches for each thread are made ahead, in order. It
has no form without threads.
"""

import itertools
import statistics
import sys
import time

import numpy
from spdl.pipeline import PipelineBuilder

# For each case, of --seconds=S. The other arguments are the keys of the cases that
# are wanted; none: all.
SECONDS = float(next((argument[len("--seconds="):] for argument in sys.argv
                      if argument.startswith("--seconds=")), 1))
WANTED = {argument for argument in sys.argv[1:] if not argument.startswith("--")}


def cases():
    """Key, floats of a sample, samples of a batch, batches of a round, workers."""
    for floats, batch_size, batches in [(1, 64, 512), (3 * 32 * 32, 64, 128),
                                        (3 * 224 * 224, 32, 16)]:
        for workers in [1, 2]:
            yield (f"BM_Batch/floats:{floats}/workers:{workers}", floats,
                   batch_size, batches, workers)
    for batch_size in [1, 8, 64, 512]:
        yield (f"BM_BatchSize/batch:{batch_size}/workers:2", 3 * 32 * 32,
               batch_size, max(4, 512 // batch_size), 2)


def batch_microseconds(batches_of, batches):
    times = []
    end = time.perf_counter() + SECONDS
    while len(times) < 4 or time.perf_counter() < end:
        begin = time.perf_counter()
        for _ in range(batches):
            assert next(batches_of)[0, 0] == 1
        times.append((time.perf_counter() - begin) * 1e6 / batches)
    return statistics.median(times[1:])  # The first one warms up.


def maker_of(floats, batch_size):
    values = numpy.ones(floats, numpy.float32)

    def make(_):
        batch = numpy.empty((batch_size, floats), numpy.float32)
        for i in range(batch_size):
            batch[i] = values
        return batch
    return make


def main():
    for key, floats, batch_size, batches, workers in cases():
        if WANTED and key not in WANTED:
            continue
        pipeline = (PipelineBuilder().add_source(itertools.count()).pipe(
            maker_of(floats, batch_size), concurrency=workers,
            output_order="input").add_sink(2 * workers).build(
                num_threads=workers))
        with pipeline.auto_stop():
            us = batch_microseconds(iter(pipeline), batches)
        print(f"{key}  us={us:.3f}", flush=True)


if __name__ == "__main__":
    main()

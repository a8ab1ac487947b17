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

# For each case, of --seconds=S; other arguments do not matter.
SECONDS = float(next((argument[len("--seconds="):] for argument in sys.argv
                      if argument.startswith("--seconds=")), 1))
# Floats of a sample, samples of a batch, batches of a round.
SHAPES = [(1, 64, 512), (3 * 32 * 32, 64, 128), (3 * 224 * 224, 32, 16)]


def batch_microseconds(batches_of, batches):
    times = []
    end = time.perf_counter() + SECONDS
    while len(times) < 4 or time.perf_counter() < end:
        begin = time.perf_counter()
        for _ in range(batches):
            assert next(batches_of)[0, 0] == 1
        times.append((time.perf_counter() - begin) * 1e6 / batches)
    return statistics.median(times[1:])  # The first one warms up.


def main():
    for floats, batch_size, batches in SHAPES:
        values = numpy.ones(floats, numpy.float32)

        def make(_):
            batch = numpy.empty((batch_size, floats), numpy.float32)
            for i in range(batch_size):
                batch[i] = values
            return batch

        for workers in [1, 2]:
            pipeline = (PipelineBuilder().add_source(itertools.count()).pipe(
                make, concurrency=workers, output_order="input").add_sink(
                    2 * workers).build(num_threads=workers))
            with pipeline.auto_stop():
                us = batch_microseconds(iter(pipeline), batches)
            print(f"BM_Batch/floats:{floats}/workers:{workers}/threads:1"
                  f"  us={us:.3f}", flush=True)


if __name__ == "__main__":
    main()

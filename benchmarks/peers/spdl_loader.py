# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""The peer loader.spdl: a pipeline of SPDL with threads.

Prints the time of a batch, of starts and of stops (peer.py). A sample is a copy
of the same values, written into its place of the batch; two batches for each
thread are made ahead, in order. It has no form without threads.
"""

import itertools

import peer

import numpy
from spdl.pipeline import PipelineBuilder

import loader_peer


def maker_of(floats, batch_size):
    values = numpy.ones(floats, numpy.float32)

    def make(_):
        batch = numpy.empty((batch_size, floats), numpy.float32)
        for i in range(batch_size):
            batch[i] = values
        return batch
    return make


def pipeline_of(floats, batch_size, workers):
    return (PipelineBuilder().add_source(itertools.count()).pipe(
        maker_of(floats, batch_size), concurrency=workers,
        output_order="input").add_sink(2 * workers).build(num_threads=workers))


def started(workers):
    pipeline = pipeline_of(1, loader_peer.BATCH_SIZE, workers)
    pipeline.start()
    pipeline.get_item()
    return pipeline.stop


def main():
    for key, *shape, batches, workers in loader_peer.cases(of_workers=(1, 2)):
        if peer.wanted(key):
            pipeline = pipeline_of(*shape, workers)
            with pipeline.auto_stop():
                iterator = iter(pipeline)
                peer.say(key, loader_peer.batch_microseconds(
                    lambda: iterator, batches))
    loader_peer.print_starts("threads", started, processes=False)


if __name__ == "__main__":
    main()

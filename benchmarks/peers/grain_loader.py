# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""The peer loader.grain: Grain's MapDataset, in process and with processes.

Prints the time of a batch, of starts and of stops (peer.py). A sample is a copy
of the same values; two batches for each worker are made ahead. The data set
repeats without end, as Grain starts its workers anew for each iteration; it
spawns them.
"""

import peer

import grain
import numpy

import loader_peer


class Copy(grain.transforms.Map):

    def __init__(self, floats):
        self.values = numpy.ones(floats, numpy.float32)

    def map(self, index):
        return self.values.copy()


def iterator_of(floats, batch_size, batches, workers):
    data = (grain.MapDataset.range(batch_size * batches).map(
        Copy(floats)).batch(batch_size).repeat().to_iter_dataset(
            grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)))
    if workers > 0:
        data = data.mp_prefetch(
            grain.MultiprocessingOptions(num_workers=workers,
                                         per_worker_buffer_size=2))
    return iter(data)


def started(workers):
    # The list has the only reference: its end stops the workers.
    held = [iterator_of(1, loader_peer.BATCH_SIZE, loader_peer.BATCHES, workers)]
    next(held[0])
    return held.clear


def main():
    for key, *shape, batches, workers in loader_peer.cases():
        if peer.wanted(key):
            iterator = iterator_of(*shape, batches, workers)
            peer.say(key, loader_peer.batch_microseconds(lambda: iterator, batches))
    loader_peer.print_starts("spawn", started)


if __name__ == "__main__":
    main()

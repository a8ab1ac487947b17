# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""The peer loader.torch: torch's DataLoader, in process and with processes.

Prints the time of a batch. A sample is a copy of the same values; two batches
for each worker are made ahead, and the workers stay between epochs.
"""

import statistics
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

# For each case, of --seconds=S. The other arguments are the keys of the cases that
# are wanted; none: all.
SECONDS = float(next((argument[len("--seconds="):] for argument in sys.argv
                      if argument.startswith("--seconds=")), 1))
WANTED = {argument for argument in sys.argv[1:] if not argument.startswith("--")}


def cases():
    """Key, floats of a sample, samples of a batch, batches of an epoch, workers."""
    for floats, batch_size, batches in [(1, 64, 512), (3 * 32 * 32, 64, 128),
                                        (3 * 224 * 224, 32, 16)]:
        for workers in [0, 1, 2]:
            yield (f"BM_Batch/floats:{floats}/workers:{workers}", floats,
                   batch_size, batches, workers)
    for batch_size in [1, 8, 64, 512]:
        yield (f"BM_BatchSize/batch:{batch_size}/workers:2", 3 * 32 * 32,
               batch_size, max(4, 512 // batch_size), 2)


class Flat(Dataset):

    def __init__(self, floats, size):
        self.values = torch.ones(floats)
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return self.values.clone()


def batch_microseconds(loader, batches):
    times = []
    end = time.perf_counter() + SECONDS
    while len(times) < 4 or time.perf_counter() < end:
        begin = time.perf_counter()
        count = 0
        for batch in loader:
            assert batch[0, 0] == 1
            count += 1
        assert count == batches
        times.append((time.perf_counter() - begin) * 1e6 / batches)
    return statistics.median(times[1:])  # The first one warms up.


def main():
    torch.set_num_threads(1)
    for key, floats, batch_size, batches, workers in cases():
        if WANTED and key not in WANTED:
            continue
        loader = DataLoader(Flat(floats, batch_size * batches), batch_size,
                            num_workers=workers, persistent_workers=workers > 0)
        us = batch_microseconds(loader, batches)
        print(f"{key}  us={us:.3f}", flush=True)


if __name__ == "__main__":
    main()

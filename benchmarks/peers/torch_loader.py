# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""The peer loader.torch: torch's DataLoader, in process and with processes.

Prints the time of a batch, of starts and of stops (peer.py). A sample is a copy
of the same values; two batches for each worker are made ahead, and the workers
stay between epochs.
"""

import peer

import torch
from torch.utils.data import DataLoader, Dataset

import loader_peer


class Flat(Dataset):

    def __init__(self, floats, size):
        self.values = torch.ones(floats)
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return self.values.clone()


def started(way, workers):
    loader = DataLoader(Flat(1, loader_peer.BATCH_SIZE * loader_peer.BATCHES),
                        loader_peer.BATCH_SIZE, num_workers=workers,
                        multiprocessing_context=way)
    # The list has the only reference: its end stops the workers.
    held = [iter(loader)]
    next(held[0])
    return held.clear


def main():
    torch.set_num_threads(1)
    for key, floats, batch_size, batches, workers in loader_peer.cases():
        if peer.wanted(key):
            loader = DataLoader(Flat(floats, batch_size * batches), batch_size,
                                num_workers=workers, persistent_workers=workers > 0)
            peer.say(key, loader_peer.batch_microseconds(
                lambda: iter(loader), batches))
    # Workers that import torch come last.
    for way, takes_s in [("fork", 0), ("forkserver", 1), ("spawn", 1)]:
        loader_peer.print_starts(way, lambda workers: started(way, workers),
                                 takes_s=takes_s)


if __name__ == "__main__":
    main()

# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""A dataset and its loader, with two worker processes."""

import time

import torch
from torch.utils.data import DataLoader, Dataset


class Noise(Dataset):
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return torch.rand(3, 64, 64), index % 10


if __name__ == "__main__":
    loader = DataLoader(Noise(2000), batch_size=64, shuffle=True, num_workers=2)
    began = time.perf_counter()
    total = 0.0
    for images, labels in loader:
        total += images[0, 0, 0, 0].item()
    print(f"{len(loader)} batches of 3 MB:",
          f"{(time.perf_counter() - began) * 1000:.0f} ms")
    print("mean of their first pixels", total / len(loader))

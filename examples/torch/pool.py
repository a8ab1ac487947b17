# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""A pool of worker processes."""

import torch.multiprocessing as mp


def count_primes(below):
    count = 0
    for n in range(2, below):
        d = 2
        while d * d <= n and n % d != 0:
            d += 1
        count += d * d > n
    return count


if __name__ == "__main__":
    with mp.Pool(2) as pool:
        for count in pool.map(count_primes, [10_000, 100_000, 1_000_000]):
            print(count, "primes")

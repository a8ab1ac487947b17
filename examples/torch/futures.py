# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""Futures: work on a pool of threads, a step after each result, an error."""

import asyncio
from concurrent.futures import ThreadPoolExecutor


def half(n):
    if n % 2 != 0:
        raise ValueError("an odd number")
    return n // 2


async def quarter(pool, n):
    loop = asyncio.get_running_loop()
    return half(await loop.run_in_executor(pool, half, n))


with ThreadPoolExecutor(2) as pool:
    halves = [pool.submit(half, n) for n in (10, 20, 30)]
    for future in halves:
        print("a half:", future.result())
    for n in (20, 10):
        try:
            print(f"a quarter of {n}:", asyncio.run(quarter(pool, n)))
        except ValueError as error:
            print(f"a quarter of {n}:", error)

# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""A queue of tensors with one producer and two consumers."""

import time

import torch
import torch.multiprocessing as mp


def consume(index, frames, done):
    count = total = 0
    while (frame := frames.get()) is not None:
        count += 1
        total += int(frame.view(-1)[-1])
    print(f"consumer {index}: {count} frames, sum {total}")
    done.wait()


if __name__ == "__main__":
    mp.set_start_method("spawn")
    frames, done = mp.Queue(8), mp.Event()
    both = mp.spawn(consume, (frames, done), nprocs=2, join=False)
    began = time.perf_counter()
    for n in range(1000):
        frame = torch.zeros(3, 480, 640)
        frame.view(-1)[-1] = n
        frames.put(frame)
    frames.put(None)
    frames.put(None)
    done.set()
    both.join()
    each = (time.perf_counter() - began) / 1000
    began = time.perf_counter()
    torch.zeros(3, 480, 640).clone()
    copy = time.perf_counter() - began
    print(f"a frame of 3.7 MB, of 1000, to one of them: {each * 1e6:.0f} us;",
          f"a copy of one: {copy * 1e6:.0f} us")

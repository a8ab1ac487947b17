# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""A producer that puts a tensor into a torch queue and ends: the consumer gets
an error. //examples:producer_exits does the same with Tenon, and gets the
tensor.

Run it with: python3 -m venv v && v/bin/pip install torch numpy
             v/bin/python examples/torch/producer_exits.py
"""

import torch
import torch.multiprocessing as mp


def produce(queue):
    queue.put(torch.ones(1_000_000))


if __name__ == "__main__":
    mp.set_start_method("spawn")
    queue = mp.Queue()
    producer = mp.Process(target=produce, args=(queue,))
    producer.start()
    producer.join()
    print("the producer has ended")
    print("its tensor:", queue.get())

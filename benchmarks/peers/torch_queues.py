# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""The peers torch.fd and torch.fs: torch's SimpleQueue, by sharing strategy.

    torch_queues.py --strategy=file_descriptor ...

Prints the time of a hand-over (peer.py). Tensors are created in shared memory and
filled once, torch's fastest form; the receiver maps them and drops them.
fan_out_N is the time until N sleeping processes have a tensor of 4 KiB, each from a
queue of its own, and forward_third until a third process has one that a second
one sent on. Each receiver reads the clock when it has the tensor, and the last
one counts; a round in which a process was awake is discarded.
"""

import os
import resource
import statistics
import time

import peer

import torch
import torch.multiprocessing as mp

# Key: bytes, and whether tensors go one way.
KINDS = {
    "handover_new": (4096, False), "stream_4KiB": (4096, True),
    "small_1KiB": (1024, True), "fresh_fd_4KiB": (4096, True),
    "pooled_copy_1MiB": (1 << 20, False), "pooled_copy_16MiB": (16 << 20, False),
}
for size, size_bytes in {"64": 64, "1k": 1 << 10, "4k": 4 << 10, "64k": 64 << 10,
                         "1m": 1 << 20, "16m": 16 << 20, "64m": 64 << 20}.items():
    KINDS[f"size_{size}_there_back"] = (size_bytes, False)
    KINDS[f"size_{size}_stream"] = (size_bytes, True)

STRATEGY = peer.FLAGS.get("strategy", "file_descriptor")
CORES = sorted(os.sched_getaffinity(0))
CONTEXT = mp.get_context("fork")


def begin_on(core):
    mp.set_sharing_strategy(STRATEGY)
    torch.set_num_threads(1)
    os.sched_setaffinity(0, {CORES[core % len(CORES)]})


def new_filled(source):
    storage = torch.UntypedStorage._new_shared(source.numel(), device="cpu")
    tensor = torch.empty(0, dtype=torch.uint8).set_(storage, 0, source.shape)
    return tensor.copy_(source)


def started(target, *arguments):
    process = CONTEXT.Process(target=target, daemon=True, args=arguments)
    process.start()
    return process


# ---- Between two processes. ----

def count_of(size):
    return 50 if size <= 64 << 10 else 10 if size <= 1 << 20 else 2


def answer(orders, there, back):
    begin_on(1)
    while (order := orders.recv()) is not None:
        size, one_way = order
        source = torch.ones(size, dtype=torch.uint8)
        for _ in range(count_of(size)):
            there.get()
            if not one_way:
                back.put(new_filled(source))
        if one_way:
            back.put(None)


def microseconds(size, one_way, orders, there, back):
    source = torch.ones(size, dtype=torch.uint8)
    count = count_of(size)
    orders.send((size, one_way))
    begin = time.perf_counter()
    for _ in range(count):
        there.put(new_filled(source))
        if not one_way:
            back.get()
    if one_way:
        back.get()
    return (time.perf_counter() - begin) * 1e6 / count


def print_two_processes():
    there, back = CONTEXT.SimpleQueue(), CONTEXT.SimpleQueue()
    orders, theirs = CONTEXT.Pipe()
    child = started(answer, theirs, there, back)
    begin_on(0)
    for key, kind in KINDS.items():
        if peer.wanted(key):
            peer.say(key, peer.median_of(
                lambda: microseconds(*kind, orders, there, back), 3))
    orders.send(None)
    child.join()


# ---- To several processes, and onward. ----

def receive_all(core, tensors, reports, onward):
    begin_on(core)
    while True:
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
        tensor = tensors.get()
        at = time.perf_counter()
        slept = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw > before
        if onward is not None:
            onward.put(tensor)
        reports.put((at, slept))
        if tensor is None:
            return


def rounds_of(queues, report_queues):
    """Microseconds of each round in which all receivers slept."""
    source = torch.ones(4096, dtype=torch.uint8)

    def once():
        tensor = new_filled(source)
        time.sleep(0.002)  # All of them block by then.
        begin = time.perf_counter()
        for queue in queues:
            queue.put(tensor)
        # No report is read before the end: that would wake this process.
        reports = [each.get() for each in report_queues]
        slept = all(slept for _, slept in reports)
        return (max(at for at, _ in reports) - begin) * 1e6 if slept else None
    times = [us for us in peer.repeated(once, 9)[1:] if us is not None]
    for queue in queues:
        queue.put(None)
    return times


def say_asleep(key, times):
    if times:
        peer.say(key, statistics.median(times))
    else:
        peer.missing(key, "no round in which all processes have slept")


def print_fan_out(consumers):
    queues = [CONTEXT.SimpleQueue() for _ in range(consumers)]
    reports = [CONTEXT.SimpleQueue() for _ in range(consumers)]
    children = [started(receive_all, index + 1, queues[index], reports[index], None)
                for index in range(consumers)]
    begin_on(0)
    say_asleep(f"fan_out_{consumers}", rounds_of(queues, reports))
    for child in children:
        child.join()


def print_forward():
    there, onward = CONTEXT.SimpleQueue(), CONTEXT.SimpleQueue()
    reports = [CONTEXT.SimpleQueue(), CONTEXT.SimpleQueue()]
    children = [started(receive_all, 1, there, reports[0], onward),
                started(receive_all, 0, onward, reports[1], None)]
    begin_on(0)
    say_asleep("forward_third", rounds_of([there], reports))
    for child in children:
        child.join()


def main():
    mp.set_sharing_strategy(STRATEGY)
    for consumers in [1, 2, 4, 8]:
        if peer.wanted(f"fan_out_{consumers}"):
            print_fan_out(consumers)
    if peer.wanted("forward_third"):
        print_forward()
    print_two_processes()


if __name__ == "__main__":
    main()

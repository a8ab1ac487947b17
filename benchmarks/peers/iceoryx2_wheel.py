# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""The peer iceoryx2.wheel of //benchmarks:compare: iceoryx2 through Python.

Two processes, each with a publisher and a subscriber, hand samples of 4 KiB
over; both spin. The protocol with the benchmark is described in
benchmarks/harness/peer_program.h. Most of the time is Python's: the row is the
cost for users of the wheel, not the limit of iceoryx2.
"""

import argparse
import ctypes
import os
import subprocess
import sys
import time
from importlib import metadata

BYTES = 4096
UNSUPPORTED = {
    "handover.4k.forwarded.spin":
        "iceoryx2 does not forward a received sample: see handover.4k.new.spin",
}
NEW = "handover.4k.new.spin"
FILLED = "handover.4k.filled.spin"
STREAM = "handover.4k.stream_filled.spin"


class Ports:
    """One process's publisher and subscriber."""

    def __init__(self, iox2, name, sends_to, hears_from):
        class Sample(ctypes.Structure):
            _fields_ = [("bytes", ctypes.c_uint8 * BYTES)]

            @staticmethod
            def type_name():
                return "Sample"

        iox2.set_log_level(iox2.LogLevel.Error)
        self.node = iox2.NodeBuilder.new().create(iox2.ServiceType.Ipc)
        self.publisher = (
            self.service(iox2, Sample, name + sends_to).publisher_builder()
            .backpressure_strategy(
                iox2.BackpressureStrategy.RetryUntilDelivered).create())
        self.subscriber = (
            self.service(iox2, Sample, name + hears_from)
            .subscriber_builder().create())
        self.filling = ctypes.create_string_buffer(b"\1" * BYTES, BYTES)

    def service(self, iox2, sample, name):
        return (self.node.service_builder(iox2.ServiceName.new(name))
                .publish_subscribe(sample).enable_safe_overflow(False)
                .subscriber_max_buffer_size(64).open_or_create())

    def send(self, filled):
        sample = self.publisher.loan_uninit()
        if filled:
            ctypes.memmove(sample.payload_ptr, self.filling, BYTES)
        sample.assume_init().send()

    def receive(self):
        sample = self.subscriber.receive()
        while sample is None:
            sample = self.subscriber.receive()
        sample.delete()


def answer(ports, row, count):
    for _ in range(count):
        ports.receive()
        if row != STREAM:
            ports.send(filled=row == FILLED)
    if row == STREAM:
        ports.send(filled=False)


# Returns when the other process has received the last sample. It spins for
# that, as in the other subjects: a line of the pipe would wake this process.
def ask(ports, row, count):
    for _ in range(count):
        ports.send(filled=row != NEW)
        if row != STREAM:
            ports.receive()
    if row == STREAM:
        ports.receive()


def serve_answers(ports, row):
    print("ready", flush=True)
    for line in sys.stdin:
        print("begun", flush=True)
        answer(ports, row, int(line))
        print("done", flush=True)


def serve_turns(ports, row, other):
    def expect(word):
        if other.stdout.readline().strip() != word:
            sys.exit("the answering process has ended")

    expect("ready")
    print("ready iceoryx2", metadata.version("iceoryx2"), "through Python",
          flush=True)
    for line in sys.stdin:
        count = int(line.split()[1])
        print(count, file=other.stdin, flush=True)
        expect("begun")
        begin = time.perf_counter_ns()
        ask(ports, row, count)
        elapsed = time.perf_counter_ns() - begin
        expect("done")
        print("ns", elapsed / count, flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--row", required=True)
    parser.add_argument("--cores", required=True)
    parser.add_argument("--answer", default="")
    flags = parser.parse_args()
    if flags.row not in (NEW, FILLED, STREAM):
        reason = UNSUPPORTED.get(flags.row, "this row is not implemented")
        print("unsupported", reason, flush=True)
        return
    try:
        import iceoryx2 as iox2
    except ImportError as error:
        print("unsupported", error, flush=True)
        return
    cores = [int(core) for core in flags.cores.split(",")]
    if flags.answer:
        os.sched_setaffinity(0, {cores[1]})
        serve_answers(Ports(iox2, flags.answer, "-back", "-there"), flags.row)
        return
    os.sched_setaffinity(0, {cores[0]})
    name = f"tenon-compare-{os.getpid()}"
    ports = Ports(iox2, name, "-there", "-back")
    command = [sys.executable, __file__, *sys.argv[1:], f"--answer={name}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as other:
        serve_turns(ports, flags.row, other)


if __name__ == "__main__":
    main()

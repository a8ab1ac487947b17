# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""The scenarios, in the order in which they are run.

A scenario has a stable name, and says which run of which program measures it,
where its figures are in what the program prints, and which peers do the same
work. Several scenarios may share a run.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Run:
    """One call of a program: Google Benchmark's, or side_by_side."""
    program: str
    select: str  # The benchmark, or the row of side_by_side. No regex.
    seconds: float = 1.0  # Expected, at full length.
    one_core: bool = False  # Both processes on one core.
    fixed: bool = False  # Its length cannot be chosen: once in --quick.

    @property
    def is_rows(self):
        return self.program == SIDE_BY_SIDE


@dataclasses.dataclass(frozen=True)
class Figure:
    """A member of a benchmark's JSON, and its factor to nanoseconds.

    real_time has a unit of its own; its factor is applied after that.
    """
    member: str
    factor: float = 1.0
    plus_ns: float = 0.0


@dataclasses.dataclass(frozen=True)
class Scenario:
    name: str
    what: str
    run: Run
    tenon: object  # A Figure, or a subject of the row.
    limit: object  # A Figure, or a subject of the row.
    limit_is: str
    # Peers in the row's own turns are found there; these are programs that
    # print "KEY us=FIGURE": peer -> KEY.
    peers: dict = dataclasses.field(default_factory=dict)
    # A point of a plot, which has a curve for each way: of SWEEPS by `at` bytes,
    # of LOADER_BATCH by samples of a batch, of LOADER_START and LOADER_STOP by
    # workers.
    sweep: str = ""
    way: str = ""
    at: int = 0
    facts: tuple = ()  # Members of the benchmark's JSON that are kept.


SIDE_BY_SIDE = "benchmarks/side_by_side"
US, MS = 1e3, 1e6

# Not a ratio: what tensors in flight cost, once in a run.
IN_FLIGHT = "in_flight"
IN_FLIGHT_PROGRAM = "benchmarks/in_flight_benchmark"
FAN_OUT = "benchmarks/fan_out_benchmark"
STRATEGIES = ["pooled", "descriptor", "name"]

BY_HAND = "the protocol by hand, in the same turns"


def row(name, what, select, tenon="tenon.queue", limit="hand.two_lines",
        limit_is=BY_HAND, **more):
    return Scenario(name, what, Run(SIDE_BY_SIDE, select), tenon, limit,
                    limit_is, **more)


def loader(name, what, floats, workers, tenon, limit, limit_is):
    run = Run("loader/loader_benchmark",
              f"BM_Batch/floats:{floats}/workers:{workers}/threads:0/manual_time",
              seconds=2)
    key = f"BM_Batch/floats:{floats}/workers:{workers}"
    peers = {peer: key for peer in LOADERS
             if workers > 0 or peer != "loader.spdl"}
    return Scenario(name, what, run, Figure(tenon, US), Figure(limit, US),
                    limit_is, peers)


# Peers that are programs of their own print "KEY us=FIGURE"; here the KEY is the
# scenario's name.
QUEUES = ("torch.fd", "torch.fs")


def called(name, *peers):
    return {peer: name for peer in peers}


LOADERS = ["loader.torch", "loader.libtorch", "loader.spdl", "loader.grain"]
IMAGE = 3 * 224 * 224
SMALL = 3 * 32 * 32
PROCESS = "spawn/process/process_benchmark"
SPIN_FLOOR = "processes by hand that copy and count, spinning"
SLEEP_FLOOR = "processes by hand that copy and count, asleep on a futex"


def spawn(children):
    return Scenario(
        f"spawn_{children}", f"start and join {children} new programs",
        Run(PROCESS, f"BM_Spawn_StartJoin/children:{children}/argument_bytes:0"
            "/manual_time"), Figure("real_time"), Figure("limit_us", US),
        "posix_spawn() and waitpid() of the same program",
        called(f"spawn_{children}", "torch.processes"))


SIZES = {"64": 64, "1k": 1 << 10, "4k": 4 << 10, "64k": 64 << 10, "1m": 1 << 20,
         "16m": 16 << 20, "64m": 64 << 20}
SWEEPS = {"there_back": "a filled tensor there, another back",
          "stream": "filled tensors in a row, one way"}


def sizes(sweep):
    """Tenon is the pooled tensor through a queue; other strategies and carriers
    are variants."""
    return [row(f"size_{size}_{sweep}", f"{SWEEPS[sweep]}, both spin",
                f"size.{size}.{sweep}.spin", "tenon.pooled",
                peers=called(f"size_{size}_{sweep}", *QUEUES), sweep=sweep,
                at=at) for size, at in SIZES.items()]


LOADER_BATCH, LOADER_START, LOADER_STOP = "loader_batch", "start", "stop"
LOADER_PROGRAM = "loader/loader_benchmark"
# Workers, and whether they are threads.
LOADER_WAYS = {"no worker": (0, 0), "1 process": (1, 0), "2 processes": (2, 0),
               "4 processes": (4, 0), "2 threads": (2, 1)}
# As BM_Start numbers them, and what the limit of a start is.
START_WAYS = {"threads": (1, "bare threads"), "spawn": (2, "posix_spawn()"),
              "fork": (3, "fork()"), "forkserver": (4, "fork()")}
# Grain spawns its processes, SPDL and LibTorch have threads only.
START_PEERS = {"threads": ["loader.libtorch", "loader.spdl"],
               "spawn": ["loader.torch", "loader.grain"],
               "fork": ["loader.torch"], "forkserver": ["loader.torch"]}


def by_batch():
    for way, (workers, threads) in LOADER_WAYS.items():
        for batch in [1, 8, 64, 512]:
            select = f"BM_BatchSize/batch:{batch}/workers:{workers}/threads:{threads}"
            yield Scenario(
                f"loader_batch_{batch}_{way.replace(' ', '_')}",
                f"a batch of {batch} of 3x32x32 floats, {way}",
                Run(LOADER_PROGRAM, f"{select}/manual_time", seconds=0.8, fixed=True),
                Figure("us", US), Figure("spin_us" if workers else "copy_us", US),
                SPIN_FLOOR if workers else "memcpy() of the samples",
                {peer: f"BM_BatchSize/batch:{batch}/workers:2" for peer in LOADERS
                 if workers == 2}, sweep=LOADER_BATCH, way=way, at=batch)


def copies():
    for kind, which, more in [
            ("hot", "", {}),
            ("cold", "Cold", {"facts": ("set_mib",)})]:
        for size in ["1MiB", "16MiB"]:
            yield Scenario(
                f"copy_{kind}_{size}", f"CopyFrom() of {size}, source and target {kind}",
                Run("shm/tensor/tensor_benchmark", f"BM_TensorCopy{which}/bytes:"
                    f"{int(size[:-3]) << 20}/manual_time"),
                Figure("real_time"), Figure("limit_us", US),
                f"memcpy(), source and target {kind}", **more)


def starts_and_stops(sweep):
    for way, (number, bare) in START_WAYS.items():
        for workers in [1, 2, 4]:
            first = sweep == LOADER_START
            yield Scenario(
                f"loader_{sweep}_{way}_{workers}",
                "Create() and the first tiny batch" if first
                else "a loader destroyed after that", Run(
                    LOADER_PROGRAM, f"BM_Start/workers:{workers}/way:{number}"
                    "/iterations:11/manual_time", seconds=0.5, fixed=True),
                Figure("ms" if first else "stop_ms", MS),
                Figure("bare_ms" if first else "bare_stop_ms", MS),
                f"as many {bare}" if first else f"their ends, of {bare}",
                called(f"{sweep}_{way}_{workers}", *START_PEERS[way]), sweep=sweep, way=way, at=workers)


def fan_outs():
    for way, ring, what in [("ring", 1, "by a ring"),
                            ("queues", 0, "by a queue for each")]:
        for consumers in [1, 2, 4, 8]:
            yield Scenario(
                f"fan_out_{way}_{consumers}",
                f"until {consumers} sleeping processes have a tensor, {what}",
                Run(FAN_OUT, f"BM_FanOut/consumers:{consumers}/ring:{ring}"
                    "/iterations:100", seconds=0.5, fixed=True),
                Figure("us", US), Figure("limit_us", US),
                "one FUTEX_WAKE of as many sleepers",
                called(f"fan_out_{consumers}", *QUEUES, "iceoryx2.native"))


ALL = [
    row("handover_spin", "a tensor of 4 KiB there and the same one back, both spin",
        "handover.4k.forwarded.spin"),
    row("handover_new", "a new tensor of 4 KiB there, another back, both spin",
        "handover.4k.new.spin", peers=called("handover_new", *QUEUES)),
    row("handover_sleep", "a tensor of 4 KiB there and back, both really asleep",
        "handover.4k.forwarded.asleep", limit="bare.poll",
        limit_is="a bare wake there and back by ppoll()"),
    row("arena_alone", "a block of an arena there, its receipt back, no queue",
        "arena.4k.receipted.spin", "tenon.arena", "bare.lines",
        "a line of 64 B there, another back"),
    Scenario("ring_64B", "a record of 64 B through a ring, both spin",
             Run("ipc/ring/ring_benchmark", "BM_Stream/batch:1/iterations:32"),
             Figure("ns"), Figure("limit_ns"), "a bare ring of 64 B",
             called("ring_64B", "boost")),
    Scenario("queue_64B", "an item of 64 B through a queue, both spin",
             Run("ipc/queue/queue_benchmark",
                 "BM_Queue/batch:1/bytes:64/iterations:8", seconds=2),
             Figure("spin_ns"), Figure("bare_ns"), "a bare ring of 64 B"),
    *(Scenario(f"channel_{name}", f"a message of 64 B {what} there and back, asleep",
               Run("ipc/channel/channel_benchmark",
                   f"BM_Channel_RoundTrip/fds:{fds}/cores:2/manual_time"),
               Figure("p50_us", US), Figure("bare_p50_us", US),
               "bare sendmsg() and recvmsg() on such a socket")
      for name, fds, what in [("64B", 0, "through a channel"),
                              ("fd", 1, "and a descriptor")]),
    Scenario("fan_out_4", "a record to 4 readers of a ring, the sender's CPU time",
             Run("ipc/ring/ring_benchmark", "BM_Broadcast/iterations:1", fixed=True),
             Figure("ns"), Figure("limit_ns"), "the same with 1 reader"),
    *fan_outs(),
    Scenario("forward_third", "until a third process has a tensor that a second one "
             "sent on, all asleep",
             Run(FAN_OUT, "BM_Forward/iterations:100", seconds=0.5, fixed=True),
             Figure("us", US), Figure("limit_us", US),
             "two wakes by futex, one after the other",
             called("forward_third", *QUEUES, "iceoryx2.native")),
    *(Scenario(f"many_small_{name}",
               f"each of 10,000 tensors of 1 KiB in one message, {what}",
               Run("ipc/tensor_queue/tensor_queue_benchmark",
                   f"BM_ManyInOneMessage/one_block:{number}/real_time"),
               Figure("ns"), Figure("limit_ns"), "memcpy() of 1 KiB alone")
      for name, number, what in [("blocks", 0, "a block each"),
                                 ("one_block", 1, "all in one block")]),
    row("stream_4KiB", "new tensors of 4 KiB in a row, filled",
        "handover.4k.stream_filled.spin",
        peers=called("stream_4KiB", *QUEUES, "boost")),
    row("small_1KiB", "new tensors of 1 KiB in a row, filled",
        "handover.1k.stream_filled.spin",
        peers=called("small_1KiB", *QUEUES, "boost")),
    Scenario("fresh_fd_4KiB", "a tensor of 4 KiB in a new segment, by descriptor",
             Run("ipc/tensor_queue/tensor_queue_benchmark",
                 "BM_Fresh/from_bytes:0/real_time"),
             Figure("ns"), Figure("limit_ns"),
             "memfd, SCM_RIGHTS, mmap at both ends",
             called("fresh_fd_4KiB", "torch.fd")),
    Scenario("segment_4KiB", "a segment of 4 KiB created, mapped and closed",
             Run("shm/segment/segment_calls_benchmark",
                 "BM_CreateMapClose/file_descriptor/bytes:4096/manual_time"),
             Figure("real_time"), Figure("limit_us", US),
             "memfd_create(), fallocate(), mmap(), seals, munmap(), close()"),
    *copies(),
    row("own_16MiB", "a tensor of 16 MiB in a segment of its own, from bytes",
        "own.16m.from_bytes.one_thread", "tenon.own", "bare.pwrite",
        "memfd, pwrite(), mmap()"),
    Scenario("own_recycled_16MiB",
             "the same, beside what a recycled segment would cost",
             Run("shm/tensor/tensor_benchmark",
                 "BM_TensorFromBytesOrWarmMemory/bytes:16777216/manual_time"),
             Figure("real_time"), Figure("limit_us", US),
             "memcpy() into memory that was written before"),
    Scenario("shm_register", "a name kept or released by the daemon, on one core",
             Run("shm_manager/shm_manager_benchmark",
                 "BM_KeepAndReleaseName/manual_time", one_core=True),
             Figure("real_time", 0.5), Figure("limit_us", US),
             "64 bytes there and back over a socket"),
    row("pooled_copy_1MiB", "1 MiB filled there, another back, both spin",
        "handover.1m.filled.spin",
        peers=called("pooled_copy_1MiB", *QUEUES)),
    row("pooled_copy_16MiB", "16 MiB filled there, another back, both spin",
        "handover.16m.filled.spin",
        peers=called("pooled_copy_16MiB", *QUEUES)),
    loader("loader_machinery_spin", "a batch of 64 floats, 1 worker", 1, 1, "us",
           "spin_us", SPIN_FLOOR),
    loader("loader_machinery_asleep", "the same, a loader that never spins", 1, 1,
           "asleep_us", "sleep_us", SLEEP_FLOOR),
    loader("loader_machinery_2", "the same with 2 workers, never spinning", 1, 2,
           "asleep_us", "sleep_us", SLEEP_FLOOR),
    loader("loader_w0", "a batch of 64 floats without workers", 1, 0, "us",
           "copy_us", "memcpy() of the samples"),
    loader("loader_small", "a batch of 64 of 3x32x32 floats, 1 worker", SMALL, 1,
           "us", "spin_us", SPIN_FLOOR),
    loader("loader_image", "a batch of 32 of 3x224x224 floats, 1 worker", IMAGE, 1,
           "us", "spin_us", SPIN_FLOOR),
    Scenario("loader_first_batch", "Create() and the first batch, 2 workers",
             Run("loader/loader_benchmark", "BM_FirstBatch/workers:2/manual_time"),
             Figure("ms", MS), Figure("bare_ms", MS, plus_ns=1 * MS),
             "bare starts of 2 programs, and one sample of 1 ms"),
    Scenario("loader_stop", "the destructor, 2 idle workers",
             Run("loader/loader_benchmark",
                 "BM_Stop/workers:2/iterations:21/manual_time"),
             Figure("ms", MS), Figure("bare_ms", MS),
             "SIGTERM to 2 sleeping programs and waitpid()",
             called("stop_spawn_2", *START_PEERS["spawn"])),
    spawn(2),
    spawn(8),
    spawn(32),
    Scenario("fork_8", "start and join 8 children by fork, of a small process",
             Run(PROCESS, "BM_Fork_StartJoin/children:8/argument_bytes:0"
                 "/parent_mib:0/manual_time"),
             Figure("real_time"), Figure("limit_us", US),
             "fork() and waitpid()", called("fork_8", "torch.processes")),
    Scenario("error_to_parent",
             "a child's error until its parent has ended 8 siblings",
             Run(PROCESS, "BM_Processes_ErrorToKnowing/siblings:8/iterations:51"
                 "/manual_time", seconds=12, fixed=True),
             Figure("median_us", US), Figure("limit_median_us", US),
             "bare forks, kill() and waitpid()",
             called("error_to_parent", "torch.processes")),
    row("future_wait", "a future created, set and waited for", "future.set_wait",
        "tenon.future", "hand.mutex", "the same by hand with a mutex"),
    row("future_then", "the same with one Then()", "future.then",
        "tenon.future", "hand.mutex", "the same by hand with a mutex"),
    row("future_chain", "a chain of 1,000 Then()", "future.chain_1000",
        "tenon.future", "hand.mutex", "the same by hand with a mutex"),
    row("future_collect_all", "1,000 futures collected", "future.collect_1000",
        "tenon.future", "hand.mutex", "the same by hand with a mutex"),
    *sizes("there_back"),
    *sizes("stream"),
    *by_batch(),
    *starts_and_stops(LOADER_START),
    *starts_and_stops(LOADER_STOP),
]


@dataclasses.dataclass(frozen=True)
class Limit:
    """What the machine allows: a limit or a bare subject of a scenario."""
    name: str
    what: str
    scenario: str
    subject: str = "limit"
    size_bytes: int = 0  # Copied in that time.


LIMITS = [
    Limit("line_bounce", "a cache line to another core, and one back", "arena_alone"),
    Limit("futex_wake", "a sleeping process woken by a futex, there and back",
          "handover_sleep", "bare.futex"),
    Limit("poll_wake", "the same by ppoll() over an eventfd and a pidfd",
          "handover_sleep"),
    Limit("socket_wake", "64 B over a socket to a sleeping process, and back",
          "channel_64B"),
    Limit("memcpy_hot_1MiB", "memcpy() of 1 MiB, hot", "copy_hot_1MiB",
          size_bytes=1 << 20),
    Limit("memcpy_hot_16MiB", "memcpy() of 16 MiB, hot", "copy_hot_16MiB",
          size_bytes=16 << 20),
    Limit("memcpy_cold_1MiB", "memcpy() of 1 MiB, cold", "copy_cold_1MiB",
          size_bytes=1 << 20),
    Limit("memcpy_cold_16MiB", "memcpy() of 16 MiB, cold", "copy_cold_16MiB",
          size_bytes=16 << 20),
    Limit("memfd_life_cycle", "a memfd of 4 KiB created, mapped, sealed and closed",
          "segment_4KiB"),
    Limit("posix_spawn", "posix_spawn() and waitpid() of 2 programs", "spawn_2"),
]

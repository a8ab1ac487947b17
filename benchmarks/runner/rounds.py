# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""Runs the programs: each once in a fixed order, and all of that several times.

So a scenario's repetitions are far apart in time, and a disturbance of some
seconds reaches one repetition of several scenarios instead of all of one.
"""

import collections
import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

from runner import machine, scenarios
from runner.scenarios import Figure

# Of peers that are programs of their own.
PEER_LINE = re.compile(r"(\S+)\s+(?:us=([0-9.]+)|missing: (.*))$")
UNITS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
# A run that hangs is ended after so many times its expected length.
PATIENCE = 30


@dataclasses.dataclass(frozen=True)
class Mode:
    name: str
    rounds: int
    row_seconds: float  # Of side_by_side; at least one turn is kept.
    row_turns: int
    min_time: float  # Of Google Benchmark.
    budget_s: float  # Of all runs; divided among them. 0: none.
    peer_seconds: float
    idle_seconds: float = 1.0
    most_in_a_turn: int = 0  # Of hand-overs in a row; 0: as the row has.


FULL = Mode("full", rounds=5, row_seconds=4, row_turns=51, min_time=0.5,
            budget_s=0, peer_seconds=1)
QUICK = Mode("quick", rounds=2, row_seconds=0.8, row_turns=21, min_time=0.1,
             budget_s=160, peer_seconds=0.1)
SMOKE = Mode("smoke", rounds=1, row_seconds=0.05, row_turns=1, min_time=0.001,
             budget_s=0, peer_seconds=0.01, idle_seconds=0.05,
             most_in_a_turn=32)


def mode_of(args):
    mode = SMOKE if args.smoke else QUICK if args.quick else FULL
    if not args.rounds:
        return mode
    return dataclasses.replace(mode, rounds=args.rounds, budget_s=0)


# Of the budget, where peers are wanted.
PEERS_SHARE = 0.4
# A run is not shortened further: a row would keep no turn.
LEAST_SHARE = 0.25
# What runs past its share by so many seconds is ended.
GRACE_S = 12
LEFT_OUT = "left out of --quick: its time was used up"


class Budget:
    """Divides the seconds that are left among what is to come, in proportion to
    the seconds that each is expected to take. What ends early leaves its rest to
    the others."""

    def __init__(self, seconds, to_come):
        self.end = time.monotonic() + seconds if seconds else float("inf")
        self.to_come = to_come

    def left(self):
        return max(0.0, self.end - time.monotonic())

    def share(self, expected_s):
        """Of the next, as a part of what it is expected to take: 1 at most."""
        part = self.left() / max(self.to_come, expected_s)
        self.to_come -= expected_s
        return min(1.0, part)

    def timeout(self, usual_s):
        return min(usual_s, self.left() + GRACE_S)


@dataclasses.dataclass
class Sample:
    """One repetition of a scenario, at one distance of the cores, in ns."""
    round: int
    distance: str  # near, far, or any.
    tenon: dict  # ns, lower, upper
    limit: dict
    ratio: float
    others: dict = dataclasses.field(default_factory=dict)
    cpu_ns: float = None
    slept: float = None
    iterations: int = 1


@dataclasses.dataclass
class Measured:
    samples: list = dataclasses.field(default_factory=list)
    missing: dict = dataclasses.field(default_factory=dict)  # Peer: why.
    failure: str = ""
    skipped: str = ""
    facts: dict = dataclasses.field(default_factory=dict)


class Bar:
    """tqdm's bar of the expected seconds, or plain lines without tqdm."""

    def __init__(self, seconds):
        try:
            from tqdm import tqdm
        except ImportError:
            self.bar = None
            return
        self.bar = tqdm(total=round(seconds, 1), unit="s", bar_format=(
            "{percentage:3.0f}% |{bar:20}| {elapsed} gone, {remaining} left  "
            "{desc}"))

    def begin(self, what):
        if self.bar is not None:
            self.bar.set_description_str(what)

    def done(self, seconds):
        if self.bar is not None:
            self.bar.update(min(seconds, self.bar.total - self.bar.n))

    def close(self):
        if self.bar is not None:
            self.bar.close()


def expected(run, mode):
    if run.fixed:
        return run.seconds
    if run.is_rows:
        return mode.row_seconds + 0.2
    return run.seconds * (1 if mode.name == "full" else 0.3)


# ---- Calling a program. ----

def call(command, timeout, one_core=False):
    """Its output. Raises RuntimeError with a reason."""
    output, reason = output_of(command, timeout, one_core)
    if reason:
        raise RuntimeError(reason)
    return output


def output_of(command, timeout, one_core=False):
    """Its output, and why it is not complete, or "". Ends it after `timeout`, with
    the processes that it has started."""
    core = {machine.usable_cores()[-1]}
    try:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            stdin=subprocess.DEVNULL, start_new_session=True,
            preexec_fn=(lambda: os.sched_setaffinity(0, core)) if one_core
            else None)
    except OSError as error:
        return "", f"{command[0]}: {error.strerror}"
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0], (
            f"{command[0]}: no end after {timeout:.0f} s")
    except BaseException:  # An interrupt: it is in a group of its own.
        os.killpg(process.pid, signal.SIGKILL)
        raise
    # side_by_side exits with 1 if a row failed, and its report says why.
    if process.returncode not in (0, 1):
        lines = errors.strip().splitlines() or ["no message"]
        return output, (f"{command[0]}: exit code {process.returncode}: "
                        f"{lines[-1]}")
    return output, ""


def run_row(run, mode, programs, peers, budget):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "row.json")
        command = [str(programs / run.program),
                   f"--only=^{re.escape(run.select)}$", f"--json={path}",
                   f"--seconds={mode.row_seconds}", f"--turns={mode.row_turns}"]
        if mode.most_in_a_turn:
            command.append(f"--most_in_a_turn={mode.most_in_a_turn}")
        if peers:
            command.append(f"--peers={peers}")
        # A row goes on for ten times as long while it has kept no turn.
        call(command, budget.timeout(60 + PATIENCE * mode.row_seconds))
        if not path.exists():
            raise RuntimeError(f"{run.program} has no row {run.select}")
        return json.loads(path.read_text())["rows"][0]


def run_benchmark(run, mode, programs, budget):
    output = call(
        [str(programs / run.program), f"--benchmark_filter=^{run.select}$",
         "--benchmark_format=json", f"--benchmark_min_time={mode.min_time}"],
        budget.timeout(60 + PATIENCE * run.seconds), run.one_core)
    for benchmark in json.loads(output[output.index("{"):])["benchmarks"]:
        if benchmark.get("error_occurred"):
            raise RuntimeError(benchmark.get("error_message", "an error"))
        return benchmark
    raise RuntimeError(f"{run.program} has no benchmark {run.select}")


# ---- Samples. ----

def quartiles(figures):
    ns = figures["ns"]
    return {"ns": ns["median"], "lower": ns["lower_quartile"],
            "upper": ns["upper_quartile"]}


def samples_of_row(scenario, row, number, measured):
    subjects = {s["name"]: s for s in row["subjects"]}
    for name, subject in subjects.items():
        if subject["status"] != "measured":
            measured.missing[name] = subject["reason"]
    for distance in ["near", "far", "any"]:
        turns = row["turns"].get(distance, {"count": 0})
        if turns["count"] == 0:
            continue
        tenon = subjects[scenario.tenon][distance]
        limit = subjects[scenario.limit][distance]
        others = {
            name: quartiles(subject[distance])
            for name, subject in subjects.items()
            if name not in (scenario.tenon, scenario.limit)
            and subject.get(distance)}
        measured.samples.append(Sample(
            number, distance, quartiles(tenon), quartiles(limit),
            tenon["over_limit"]["median"], others, iterations=turns["count"],
            slept=turns["slept"]["median"] if "slept" in turns else None))


def nanoseconds(figure, benchmark):
    factor = UNITS[benchmark["time_unit"]] if figure.member == "real_time" else 1.0
    return benchmark[figure.member] * figure.factor * factor + figure.plus_ns


def sample_of_benchmark(scenario, benchmark, number, measured):
    if "not measured" in benchmark.get("label", ""):
        measured.skipped = benchmark["label"]
        return
    tenon = nanoseconds(scenario.tenon, benchmark)
    limit = nanoseconds(scenario.limit, benchmark)
    if not (tenon > 0 and limit > 0):
        raise RuntimeError(f"no figures: {tenon} and {limit} ns")
    measured.facts = {fact: benchmark[fact] for fact in scenario.facts}
    measured.samples.append(Sample(
        number, "any", {"ns": tenon}, {"ns": limit}, tenon / limit,
        cpu_ns=benchmark["cpu_time"] * UNITS[benchmark["time_unit"]],
        iterations=benchmark["iterations"]))


def measure(run, group, number, mode, programs, peers, all_measured, budget):
    """Runs it, for all scenarios of `group`."""
    if "/cores:2/" in run.select and len(machine.usable_cores()) < 2:
        for scenario in group:
            all_measured[scenario.name].skipped = "there is one core"
        return
    try:
        if run.is_rows:
            printed = run_row(run, mode, programs, peers, budget)
        else:
            printed = run_benchmark(run, mode, programs, budget)
        for scenario in group:
            measured = all_measured[scenario.name]
            if isinstance(scenario.tenon, Figure):
                sample_of_benchmark(scenario, printed, number, measured)
            elif printed["status"] == "measured":
                samples_of_row(scenario, printed, number, measured)
            elif printed["status"] == "skipped":
                measured.skipped = printed["reason"]
            else:
                raise RuntimeError(printed["reason"])
    except RuntimeError as error:
        for scenario in group:
            all_measured[scenario.name].failure = str(error)


# ---- Peers that are programs of their own. ----

def run_peer(peer, keys, mode, peers, budget_s=0):
    """The figures that it prints, KEY -> ns, and reasons instead, KEY -> text; under
    the key "" why all others are missing. After `budget_s` it begins no further
    case."""
    if peers is None:
        return {}, {"": "no folder of peers: run tools/install_peers"}
    path = peers / "bin" / peer
    if not os.access(path, os.X_OK):
        return {}, {"": f"there is no program {path}: run tools/install_peers"}
    command = [str(path), f"--seconds={mode.peer_seconds}"]
    if budget_s:
        command.append(f"--budget={budget_s:.0f}")
    output, failure = output_of([*command, *sorted(keys)],
                                budget_s + GRACE_S if budget_s else 600)
    figures, reasons = {}, {}
    for line in output.splitlines():
        found = PEER_LINE.match(line.strip())
        if not found:
            continue
        if found[3]:
            reasons[found[1]] = found[3]
        else:
            # Those of loaders end with /threads:N, which differs by peer.
            figures[re.sub(r"/threads:\d$", "", found[1])] = float(found[2]) * 1e3
    if failure:
        reasons[""] = failure
    elif not (figures or reasons):
        reasons[""] = f"{path} printed no figures"
    return figures, reasons


def measure_peers(chosen, mode, peers, all_measured, figures, seconds=0):
    """Within `seconds`, of which each program has an equal share, and what those
    before it left; 0: as long as they take."""
    keys = collections.defaultdict(set)
    for scenario in chosen:
        for peer, key in scenario.peers.items():
            keys[peer].add(key)
    budget = Budget(seconds, len(keys))
    for peer in sorted(keys):
        its = max(1, budget.left() / max(1, budget.to_come)) if seconds else 0
        budget.to_come -= 1
        printed, reasons = run_peer(peer, keys[peer], mode, peers, its)
        for scenario in chosen:
            key = scenario.peers.get(peer)
            if key is None:
                continue
            if key in printed:
                figures[scenario.name][peer].append(printed[key])
            else:
                all_measured[scenario.name].missing[peer] = (
                    reasons.get(key) or reasons.get("") or
                    f"{peer} printed no figure for {key}")


# ---- Tensors in flight. ----

def in_flight(mode, programs, budget):
    """What they cost, by strategy and number, as the benchmark prints it."""
    wanted = "tensors:100/" if mode.name == "smoke" else "."
    output = call([str(programs / scenarios.IN_FLIGHT_PROGRAM),
                   "--benchmark_format=json", f"--benchmark_filter={wanted}"],
                  budget.timeout(900))
    rows = []
    for benchmark in json.loads(output[output.index("{"):])["benchmarks"]:
        arguments = dict(re.findall(r"(\w+):(\d+)", benchmark["name"]))
        row = {member: benchmark[member] for member in IN_FLIGHT_MEMBERS}
        row.update(strategy=scenarios.STRATEGIES[int(arguments["strategy"])],
                   wanted=int(arguments["tensors"]),
                   fd_limit=int(arguments["fd_limit"]),
                   error=benchmark.get("label", ""))
        rows.append(row)
    return rows


IN_FLIGHT_MEMBERS = ["tensors", "sender_fds", "receiver_fds", "sender_mappings",
                     "receiver_mappings", "sender_bytes", "receiver_bytes",
                     "goes_on"]
IN_FLIGHT_SECONDS = 8


# ---- All of it. ----

def groups_of(chosen):
    groups = {}
    for scenario in chosen:
        groups.setdefault(scenario.run, []).append(scenario)
    return groups


def reserved(chosen, mode, peers, wants_in_flight):
    """Seconds of the budget for what comes after the first round: of peers, and of
    tensors in flight."""
    of_peers = mode.budget_s * PEERS_SHARE * (
        peers is not None and any(s.peers for s in chosen))
    return of_peers, wants_in_flight * IN_FLIGHT_SECONDS


def run(chosen, mode, programs, peers, context, wants_in_flight=False):
    """What was measured, by scenario, and the rows of tensors in flight. The
    peers' programs come last in a round. With a budget, the first round has what
    peers and tensors in flight do not need, and later rounds have the rest."""
    in_flight_rows = []
    all_measured = {scenario.name: Measured() for scenario in chosen}
    peer_figures = collections.defaultdict(lambda: collections.defaultdict(list))
    groups = groups_of(chosen)
    first = sum(expected(each, mode) for each in groups)
    bar = Bar(sum(expected(each, mode) * (1 if is_once(each, mode) else mode.rounds)
                  for each in groups) + wants_in_flight * IN_FLIGHT_SECONDS)
    of_peers, of_flight = reserved(chosen, mode, peers, wants_in_flight)
    whole = Budget(mode.budget_s, first)
    budget = Budget(mode.budget_s and mode.budget_s - of_peers - of_flight, first)
    for number in range(mode.rounds):
        if number > 0:
            context["busy_share"].append(round(machine.busy_share(
                context["usable_cores"], mode.idle_seconds), 3))
        for each, group in groups.items():
            seconds = expected(each, mode)
            if number > 0 and (is_once(each, mode) or seconds > whole.left()):
                continue
            part = budget.share(seconds) if number == 0 else 1.0
            if part < LEAST_SHARE or (each.fixed and seconds > whole.left()):
                for scenario in group:
                    all_measured[scenario.name].skipped = LEFT_OUT
                continue
            bar.begin(f"round {number + 1} of {mode.rounds}: {group[0].name}")
            measure(each, group, number, shortened(mode, part), programs, peers,
                    all_measured, whole)
            bar.done(seconds)
        if number == 0 or mode.name == "full":
            bar.begin(f"round {number + 1} of {mode.rounds}: peers")
            measure_peers(chosen, mode, peers, all_measured, peer_figures,
                          of_peers and max(1, whole.left() - of_flight))
        if number == 0 and wants_in_flight:
            bar.begin("tensors in flight")
            if whole.left() < IN_FLIGHT_SECONDS:
                context["in_flight_left_out"] = LEFT_OUT
            else:
                in_flight_rows = in_flight(mode, programs, whole)
            bar.done(IN_FLIGHT_SECONDS)
    bar.close()
    for name, figures in peer_figures.items():
        add_peers(all_measured[name], figures)
    return all_measured, in_flight_rows


def shortened(mode, part):
    return mode if part == 1 else dataclasses.replace(
        mode, row_seconds=mode.row_seconds * part, min_time=mode.min_time * part)


def is_once(run_of, mode):
    return run_of.fixed and mode.name == "quick"


def add_peers(measured, figures):
    for sample in measured.samples:
        for peer, all_ns in figures.items():
            ns = all_ns[min(sample.round, len(all_ns) - 1)]
            sample.others[peer] = {"ns": ns}

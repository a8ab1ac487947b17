# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""Markdown of results.json, for README.md and docs/benchmarks.md."""

import re

from runner import machine
from runner.results import limit_text, time_text
from runner.scenarios import LOADER_BATCH, LOADER_START, LOADER_STOP

# In README.md.
SHOWN = ["handover_spin", "handover_new", "handover_sleep", "stream_4KiB",
         "pooled_copy_1MiB", "loader_machinery_spin", "loader_small",
         "loader_image", "loader_first_batch", "loader_stop", "spawn_8",
         "error_to_parent", "future_wait", "future_collect_all"]

# How peers are called there; several programs of one library are one peer.
PEERS = {"torch": "torch", "loader.torch": "torch", "loader.libtorch": "LibTorch",
         "libtorch": "LibTorch", "loader.spdl": "SPDL", "loader.grain": "Grain",
         "iceoryx2.native": "iceoryx2", "iceoryx2.wheel": "iceoryx2 through Python",
         "boost": "Boost.Interprocess"}


def replace(text, name, content):
    """`text` with `content` between the markers of that name."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    parts = re.compile(f"({re.escape(begin)}\n).*?({re.escape(end)})", re.DOTALL)
    if not parts.search(text):
        raise ValueError(f"no lines {begin} and {end}")
    return parts.sub(lambda found: f"{found[1]}{content.strip()}\n{found[2]}", text)


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def library_of(program):
    family = program.split(".")[0]
    return PEERS.get(program) or PEERS.get(family) or program


def peers_of(group):
    """The best figure of each library, the fastest first."""
    best = {}
    for program, peer in group["peers"].items():
        if peer["status"] == "measured":
            name = library_of(program)
            best[name] = min(best.get(name, peer["time"]), peer["time"])
    return sorted(best.items(), key=lambda item: item[1])


def peers_text(group):
    return ", ".join(f"{name} {time_text(ns)}" for name, ns in peers_of(group))


def where(distance):
    return "" if distance == "any" else f" ({distance} cores)"


def machine_text(context):
    commit = context["commit"][:12] if context["commit"] != "unknown" else "unknown"
    return (f"{context['processor']}, {context['num_cpus']} cores in use "
            f"({machine.cores_line(context)}), {context['memory_bytes'] / 2**30:.0f} "
            f"GiB, {context['kernel']}; {context['date'][:10]}, commit {commit}; "
            f"{machine.idle_line(context)}")


def provenance(context):
    return (f"Medians of one run of `{context.get('command', 'unknown')}`: "
            f"{machine_text(context)}.")


def readme(report, picture):
    """`picture` is None if the run has no such plot."""
    rows = []
    for name in SHOWN:
        scenario = report["scenarios"].get(name)
        if scenario is None or scenario["status"] != "measured":
            continue
        group = scenario["distances"][scenario["distance"]]
        rows.append([scenario["what"] + where(scenario["distance"]),
                     time_text(group["tenon"]), time_text(group["limit"]),
                     peers_text(group)])
    return (table(["operation", "Tenon", "limit of the machine", "peers"], rows) +
            (f"\n\n![Time of a tensor there and back, by size]({picture})"
             if picture else "") + "\n\n" +
            provenance(report["context"]) +
            " [docs/benchmarks.md](docs/benchmarks.md) has all figures, how they "
            "are measured, and where bounds are missed.\n")


def ratio_text(group):
    text = f"{group['tenon_over_limit']:.2f}"
    return f"**{text}**" if group["missed"] else text


def bound_text(group):
    return "" if group["bound"] is None else f"{group['bound']:g}"


def all_figures(report, picture_folder, pictures):
    """For docs/benchmarks.md, with the plots `pictures`: every scenario that is no sweep, the misses with
    their reasons, sweeps as tables, and tensors in flight."""
    named = {n: s for n, s in report["scenarios"].items() if not s.get("sweep")}
    rows = [[f"`{name}`", "" if distance == "any" else distance,
             time_text(group["tenon"]), time_text(group["limit"]),
             ratio_text(group), bound_text(group), peers_text(group)]
            for name, scenario in named.items()
            for distance, group in scenario["distances"].items()]
    parts = [provenance(report["context"]), "What the machine allows:",
             table(["limit", "time", "measured in"],
                   [[limit["what"], limit_text(limit), f"`{limit['scenario']}`"]
                    for limit in report["limits"].values()]),
             table(["name", "cores", "Tenon", "limit", "ratio", "bound", "peers"],
                   rows)]
    parts += missed(named)
    parts += absent(report["scenarios"])
    for sweep in ["there_back", "stream"]:
        parts += by_size(report["scenarios"], sweep)
    parts += [f"![{picture}]({picture_folder}/{picture}.png)"
              for picture in pictures]
    parts += by_way(report["scenarios"], LOADER_BATCH,
                    "A batch of 3x32x32 floats, by its samples:", "samples")
    parts += by_way(report["scenarios"], LOADER_START,
                    "From `Create()` to the first tiny batch, by workers:", "workers")
    parts += by_way(report["scenarios"], LOADER_STOP,
                    "The destructor of such a loader:", "workers")
    parts += in_flight(report["in_flight"])
    if "in_flight_left_out" in report["context"]:
        parts.append(f"Tensors in flight: {report['context']['in_flight_left_out']}.")
    return "\n\n".join(parts)


PICTURES = ["latency_by_size", "throughput_by_size", "latency_by_carrier",
            "loader_by_batch"]


# Of a bound without a guard, which earlier runs met.
UNKNOWN = "Earlier runs met it; its spread in the report says how sure this is."


def missed(named):
    lines = [f"- `{name}`{where(distance)}: {group['tenon_over_limit']:.2f}, bound "
             f"{group['bound']:g}. {scenario.get('why_missed', UNKNOWN)}"
             for name, scenario in named.items()
             for distance, group in scenario["distances"].items()
             if group["missed"]]
    return ["Bounds that this run missed, in bold above:", "\n".join(lines)] if (
        lines) else ["This run missed no bound."]


def absent(scenarios):
    lines = [f"- `{name}`: {scenario['status']}: {scenario['reason']}"
             for name, scenario in scenarios.items()
             if scenario["status"] != "measured"]
    reasons = {}  # Peer and reason -> scenarios.
    for name, scenario in scenarios.items():
        for peer, its in (scenario["peers"] or {}).items():
            if its["status"] == "missing":
                reasons.setdefault((peer, its["reason"]), []).append(f"`{name}`")
    lines += [f"- peer `{peer}`: {reason}: {', '.join(names)}"
              for (peer, reason), names in reasons.items()]
    return ["Without figures:", "\n".join(lines)] if lines else []


def grid(rows, heads, title, unit):
    """A row for each way, way -> {at: text}; a column for each of `heads`,
    at -> text."""
    points = sorted(heads)
    return [title, table([unit, *(heads[at] for at in points)],
                         [[way, *(cells.get(at, "") for at in points)]
                          for way, cells in rows.items()])] if heads else []


def measured_of(scenarios, sweep):
    return [(s, s["distances"][s["distance"]]) for s in scenarios.values()
            if s.get("sweep") == sweep and s["status"] == "measured"]


def by_size(scenarios, sweep):
    rows, heads, title = {"limit": {}, "`tenon.pooled`": {}}, {}, ""
    for scenario, group in measured_of(scenarios, sweep):
        at = scenario["at"]
        heads[at] = f"{at:,}{where(scenario['distance'])}"
        title = f"By bytes of a tensor, {scenario['what'].split(', both')[0]}:"
        rows["limit"][at] = time_text(group["limit"])
        rows["`tenon.pooled`"][at] = time_text(group["tenon"])
        others = {**group["variants"], **group["peers"]}
        for name, other in sorted(others.items()):
            if other.get("status") == "measured":
                rows.setdefault(f"`{name}`", {})[at] = time_text(other["time"])
    return grid(rows, heads, title, "bytes")


def by_way(scenarios, sweep, title, unit):
    """Each cell is Tenon's time, and its limit."""
    rows, heads = {}, {}
    for scenario, group in measured_of(scenarios, sweep):
        heads[scenario["at"]] = str(scenario["at"])
        rows.setdefault(scenario["way"], {})[scenario["at"]] = (
            f"{time_text(group['tenon'])}, limit {time_text(group['limit'])}")
        for name, peer in group["peers"].items():
            if peer["status"] == "measured":
                rows.setdefault(f"`{name}`, {scenario['way'].split()[0]} workers",
                                {})[scenario["at"]] = time_text(peer["time"])
    return grid(rows, heads, title, unit)


def in_flight(rows):
    if not rows:
        return []
    return ["Tensors of 1 KiB that two processes hold (sender / receiver):", table(
        ["strategy", "wanted", "limit of descriptors", "held", "descriptors",
         "mappings", "memory", "ended by", "goes on after 8 are released"],
        [[row["strategy"], f"{row['wanted']:,}",
          f"{row['fd_limit']:,}" if row["fd_limit"] else "hard",
          f"{row['tensors']:,.0f}",
          f"{row['sender_fds']:,.0f} / {row['receiver_fds']:,.0f}",
          f"{row['sender_mappings']:,.0f} / {row['receiver_mappings']:,.0f}",
          f"{row['sender_bytes'] / 2**20:.1f} / "
          f"{row['receiver_bytes'] / 2**20:.1f} MiB",
          row["error"].replace("|", "/"),
          ("yes" if row["goes_on"] else "no") if row["error"] else ""]
         for row in rows])]

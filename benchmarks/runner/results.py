# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""results.json: Google Benchmark's JSON, and our ratios.

`benchmarks` has an entry for each repetition of each subject of a scenario, and
one for their median, as Google Benchmark writes them. `scenarios` has the
figures by stable name. All times are nanoseconds.
"""

import json
import statistics

from runner import bounds
from runner.scenarios import LIMITS

# Subjects of rows that are limits or variants, as benchmarks/README.md lists
# them. All others are peers.
NO_PEERS = ("tenon.", "hand.", "bare.")


def is_peer(name):
    return not name.startswith(NO_PEERS)


def spread_of(figures):
    """From the lowest quartile of a repetition to the highest."""
    return [min(f.get("lower", f["ns"]) for f in figures),
            max(f.get("upper", f["ns"]) for f in figures)]


def median_of(figures):
    return statistics.median(f["ns"] for f in figures)


def peer_of(name, samples, tenon, limit):
    """in_turns: measured turn by turn with Tenon, so at the same distance of the
    cores; else the peer has chosen its cores, and their distance is unknown."""
    figures = [s.others[name] for s in samples if name in s.others]
    ns = median_of(figures)
    return {"status": "measured", "time": ns, "spread": spread_of(figures),
            "in_turns": "lower" in figures[0],
            "peer_over_tenon": ns / tenon, "over_limit": ns / limit}


def group_of(scenario, distance, samples, all_bounds):
    """The figures of one distance."""
    tenon = median_of([s.tenon for s in samples])
    limit = median_of([s.limit for s in samples])
    ratios = [s.ratio for s in samples]
    names = sorted({name for s in samples for name in s.others})
    figures = {name: peer_of(name, samples, tenon, limit) for name in names}
    group = {
        "repetitions": len(samples),
        "tenon": tenon, "tenon_spread": spread_of([s.tenon for s in samples]),
        "limit": limit, "limit_spread": spread_of([s.limit for s in samples]),
        "tenon_over_limit": statistics.median(ratios),
        "tenon_over_limit_spread": [min(ratios), max(ratios)],
        "peers": {n: f for n, f in figures.items() if is_peer(n)},
        "peer_over_tenon": {n: f["peer_over_tenon"] for n, f in figures.items()
                            if is_peer(n)},
        "variants": {n: f for n, f in figures.items() if not is_peer(n)},
        "bound": bounds.of(all_bounds, scenario.name, distance),
        "guard": bounds.guard_of(all_bounds, scenario.name, distance),
    }
    if samples[0].slept is not None:
        group["slept_for_each"] = statistics.median(s.slept for s in samples)
    group["missed"] = (group["bound"] is not None and
                       group["tenon_over_limit"] > group["bound"])
    return group


def scenario_of(scenario, measured, all_bounds):
    result = {"what": scenario.what, "unit": "ns", "limit_is": scenario.limit_is}
    result["status"] = ("measured" if measured.samples else
                        "skipped" if measured.skipped else "failed")
    reason = measured.skipped or measured.failure
    if reason:
        result["reason"] = reason
    if scenario.sweep:
        result.update(sweep=scenario.sweep, way=scenario.way, at=scenario.at)
    result.update(measured.facts)
    distances = {}
    for distance in ["near", "far", "any"]:
        samples = [s for s in measured.samples if s.distance == distance]
        if samples:
            distances[distance] = group_of(scenario, distance, samples, all_bounds)
    missing = {name: {"status": "missing", "reason": why}
               for name, why in measured.missing.items() if is_peer(name)}
    for group in distances.values():
        group["peers"] = {**missing, **group["peers"]}
    result["distances"] = distances
    why = all_bounds.get(scenario.name, {}).get("why_missed")
    if why:
        result["why_missed"] = why
    # At the top: the distance that occurred more often.
    main = max(distances, key=lambda d: distances[d]["repetitions"], default=None)
    result["distance"] = main
    shown = ["tenon", "limit", "tenon_over_limit", "peers", "peer_over_tenon",
             "bound", "missed"]
    empty = {"peers": missing, "peer_over_tenon": {}, "missed": False}
    for member in shown:
        result[member] = (distances[main][member] if main else empty.get(member))
    if main != "any" and measured.samples:
        result["near"] = distances.get("near")
        result["far"] = distances.get("far")
    result["missed"] = any(group["missed"] for group in distances.values())
    return result


# ---- Google Benchmark's entries. ----

def entry(name, run_type, sample, ns, number, count):
    """Programs of two processes have no CPU time of their own: it repeats the
    real time there."""
    cpu = sample.cpu_ns if sample.cpu_ns is not None else ns
    return {"name": name, "run_name": name, "run_type": run_type,
            "repetitions": count, "repetition_index": number, "threads": 1,
            "iterations": sample.iterations, "real_time": ns, "cpu_time": cpu,
            "time_unit": "ns"}


def entries_of(name, result, samples):
    entries = []
    for distance, group in result["distances"].items():
        of_distance = [s for s in samples if s.distance == distance]
        prefix = name if distance == "any" else f"{name}/{distance}"
        for index, sample in enumerate(of_distance):
            subjects = {"tenon": sample.tenon, "limit": sample.limit,
                        **sample.others}
            for subject, figures in subjects.items():
                one = entry(f"{prefix}/{subject}", "iteration", sample,
                            figures["ns"], index, len(of_distance))
                if subject == "tenon":
                    one["tenon_over_limit"] = sample.ratio
                elif is_peer(subject) and subject != "limit":
                    one["peer_over_tenon"] = figures["ns"] / sample.tenon["ns"]
                entries.append(one)
        medians = {"tenon": group["tenon"], "limit": group["limit"],
                   **{n: p["time"] for n, p in group["peers"].items()
                      if p["status"] == "measured"}}
        for subject, ns in medians.items():
            one = entry(f"{prefix}/{subject}_median", "aggregate", of_distance[0],
                        ns, 0, len(of_distance))
            one.update(run_name=f"{prefix}/{subject}", aggregate_name="median",
                       cpu_time=ns, iterations=len(of_distance))
            if subject == "tenon":
                one["tenon_over_limit"] = group["tenon_over_limit"]
            elif subject != "limit":
                one["peer_over_tenon"] = group["peer_over_tenon"][subject]
            entries.append(one)
    return entries


def limits_of(scenarios):
    """What the machine allows: by name, the time for each distance."""
    limits = {}
    for limit in LIMITS:
        scenario = scenarios.get(limit.scenario)
        if scenario is None:
            continue
        times = {}
        for distance, group in scenario["distances"].items():
            if limit.subject == "limit":
                times[distance] = group["limit"]
            elif limit.subject in group["variants"]:
                times[distance] = group["variants"][limit.subject]["time"]
        limits[limit.name] = {"what": limit.what, "scenario": limit.scenario,
                              "times": times}
        if limit.size_bytes:
            limits[limit.name]["gb_per_s"] = {
                distance: limit.size_bytes / ns for distance, ns in times.items()}
        if "set_mib" in scenario:
            limits[limit.name]["set_mib"] = scenario["set_mib"]
    return limits


def build(chosen, measured, context, all_bounds, in_flight=()):
    report = {"context": context, "benchmarks": [], "scenarios": {},
              "in_flight": list(in_flight)}
    for scenario in chosen:
        its = measured[scenario.name]
        result = scenario_of(scenario, its, all_bounds)
        report["scenarios"][scenario.name] = result
        report["benchmarks"] += entries_of(scenario.name, result, its.samples)
    report["limits"] = limits_of(report["scenarios"])
    return report


def limit_text(limit):
    """The time at each distance; of copies, also the rate."""
    if not limit["times"]:
        return "not measured"
    return ", ".join(
        time_text(ns) + (f" {distance}" if distance != "any" else "") +
        (f" ({limit['gb_per_s'][distance]:.3g} GB/s)" if "gb_per_s" in limit else "")
        for distance, ns in limit["times"].items()) + (
            f", in turn over {limit['set_mib']:,.0f} MiB each of source and target"
            if "set_mib" in limit else "")


def write(report, out):
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.json").write_text(json.dumps(report, indent=1) + "\n")


# ---- For a terminal. ----

def time_text(ns):
    for unit, factor in [("s", 1e9), ("ms", 1e6), ("us", 1e3)]:
        if ns >= factor:
            return f"{ns / factor:.3g} {unit}" if ns < 1000 * factor else (
                f"{ns / factor:.0f} {unit}")
    return f"{ns:.3g} ns"


def print_table(report):
    print(f"\n{'scenario':<24}{'cores':<6}{'Tenon':>10}{'limit':>10}{'ratio':>7}"
          f"{'bound':>7}  peers, to Tenon")
    for name, scenario in report["scenarios"].items():
        for distance, group in scenario["distances"].items():
            bound = f"{group['bound']:.2f}" if group["bound"] is not None else "-"
            peers = ", ".join(f"{peer} {ratio:.2f}" for peer, ratio in
                              group["peer_over_tenon"].items())
            print(f"{name:<24}{distance if distance != 'any' else '-':<6}"
                  f"{time_text(group['tenon']):>10}{time_text(group['limit']):>10}"
                  f"{group['tenon_over_limit']:>7.2f}{bound:>7}  {peers}"
                  f"{'  MISSED' if group['missed'] else ''}")
        if scenario["status"] != "measured":
            print(f"{name:<24}{scenario['status']}: {scenario['reason']}")
    for limit in report["limits"].values():
        print(f"limit of the machine: {limit['what']}: {limit_text(limit)}")
    for row in report["in_flight"]:
        limit = f" of {row['fd_limit']} allowed" if row["fd_limit"] else ""
        print(f"in flight, {row['strategy']}: {row['tensors']:,.0f} of "
              f"{row['wanted']:,} tensors, {row['receiver_fds']:,.0f} descriptors"
              f"{limit} and {row['receiver_mappings']:,.0f} mappings of the receiver"
              f"{'; ' if row['error'] else ''}{row['error'][:80]}")

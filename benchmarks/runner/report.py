# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""report.html, one file without references to others, and its plots as PNGs."""

import base64
import html

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib import ticker  # noqa: E402

from runner import machine  # noqa: E402
from runner.results import limit_text, time_text  # noqa: E402
from runner.scenarios import LOADER_BATCH, LOADER_START, LOADER_STOP  # noqa: E402
from runner.scenarios import LOADERS  # noqa: E402

TENON, LIMIT, MISSED, PEER = "#1f5fa8", "#444444", "#c62828", "#2e7d32"

STYLE = """
body { font: 15px/1.45 sans-serif; margin: 2em auto; max-width: 75em;
       padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: 1em 0 }
th, td { border-bottom: 1px solid #ddd; padding: .25em .6em; text-align: left;
         vertical-align: top }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums;
             white-space: nowrap }
.missed { color: #c62828; font-weight: bold }
.quiet { color: #777 }
.warning { background: #fdecea; border: 1px solid #c62828; padding: .6em 1em }
img { max-width: 100% }
.wide { overflow-x: auto }
h2 { margin-top: 2em }
"""

HOW_TO_READ = """
<p>A ratio compares Tenon with its <em>limit</em>: the least work that the machine
needs for the same, measured in the same run. 1 is as fast as the limit; a bound
that is exceeded is <span class="missed">red</span>. Where two cores exchange cache
lines, figures are of one distance: <em>near</em> if a line there and back takes less
than 250 ns, else <em>far</em>; a virtual machine changes between them. In brackets:
from the lowest lower quartile of a repetition to the highest upper one; a program
without quartiles has the lowest and the highest repetition. A peer with <em>cores
unknown</em> is a program of its own that ran in the same run, not in the same turns:
its time is the same beside near and far cores. docs/benchmarks.md has
more.</p>
"""


# ---- Text. ----

def text(value):
    return html.escape(str(value))


def range_text(spread):
    low, high = spread
    return f"[{time_text(low)} to {time_text(high)}]"


def ratio_text(ratio):
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.3g}"


def peer_text(name, peer, has_distance):
    if peer["status"] != "measured":
        return f'<span class="quiet">{text(name)}: {text(peer["reason"])}</span>'
    note = "" if peer["in_turns"] or not has_distance else ", cores unknown"
    return (f"{text(name)} {time_text(peer['time'])}, "
            f"<b>{ratio_text(peer['peer_over_tenon'])}</b> of Tenon{note}")


def row_of(name, scenario, distance, group):
    bound = "" if group["bound"] is None else f"{group['bound']:.2f}"
    low, high = group["tenon_over_limit_spread"]
    missed = ' class="n missed"' if group["missed"] else ' class="n"'
    why = scenario.get("why_missed", "") if group["missed"] else ""
    why = f"<br><span class=missed>{text(why)}</span>" if why else ""
    peers = "<br>".join([
        *(peer_text(n, p, distance != "any") for n, p in group["peers"].items()),
        *(f"{text(n)} {time_text(v['time'])}" for n, v in group["variants"].items())])
    return (f"<tr><td><b>{text(name)}</b><br><span class=quiet>"
            f"{text(scenario['what'])}</span></td>"
            f"<td>{'' if distance == 'any' else distance}</td>"
            f"<td class=n>{time_text(group['tenon'])}<br><span class=quiet>"
            f"{range_text(group['tenon_spread'])}</span></td>"
            f"<td class=n>{time_text(group['limit'])}<br><span class=quiet>"
            f"{range_text(group['limit_spread'])}</span></td>"
            f"<td{missed}>{group['tenon_over_limit']:.2f}<br><span class=quiet>"
            f"[{low:.2f} to {high:.2f}]</span></td>"
            f"<td class=n>{bound}</td><td>{text(scenario['limit_is'])}{why}</td>"
            f"<td>{peers}</td></tr>")


def table_of(scenarios):
    head = ("<tr><th>scenario<th>cores<th class=n>Tenon<th class=n>limit"
            "<th class=n>ratio<th class=n>bound<th>the limit is<th>peers and variants</tr>")
    rows = []
    for name, scenario in scenarios.items():
        rows += [row_of(name, scenario, distance, group)
                 for distance, group in scenario["distances"].items()]
        if scenario["status"] != "measured":
            rows.append(f"<tr><td><b>{text(name)}</b><td colspan=7>"
                        f"{text(scenario['status'])}: {text(scenario['reason'])}"
                        "</tr>")
    return f"<div class=wide><table>{head}{''.join(rows)}</table></div>"


def limits_of(limits):
    if not limits:
        return ""
    lines = "".join(f"<tr><td>{text(limit['what'])}<td>{text(limit_text(limit))}"
                    f"<td class=quiet>{text(limit['scenario'])}</tr>"
                    for limit in limits.values())
    return ("<h2>Limits of the machine</h2><p>Of the same run; a scenario is where a "
            "limit was measured. Cold: the copies move on through memory that is larger "
            "than the last-level cache.</p><table><tr><th>what<th>time<th>scenario</tr>"
            f"{lines}</table>")


def in_flight_of(rows, left_out):
    if not rows:
        return f"<p>Tensors in flight: {text(left_out)}.</p>" if left_out else ""
    head = ("<tr><th>strategy<th class=n>wanted<th class=n>limit of descriptors"
            "<th class=n>held<th class=n>descriptors<th class=n>mappings"
            "<th class=n>memory<th>ended by<th>goes on</tr>")
    lines = "".join(
        f"<tr><td>{text(row['strategy'])}<td class=n>{row['wanted']:,}"
        f"<td class=n>{row['fd_limit'] or ''}<td class=n>{row['tensors']:,.0f}"
        f"<td class=n>{row['sender_fds']:,.0f} / {row['receiver_fds']:,.0f}"
        f"<td class=n>{row['sender_mappings']:,.0f} / "
        f"{row['receiver_mappings']:,.0f}"
        f"<td class=n>{row['sender_bytes'] / 2**20:.1f} / "
        f"{row['receiver_bytes'] / 2**20:.1f} MiB<td>{text(row['error'])}"
        f"<td>{('yes' if row['goes_on'] else 'NO') if row['error'] else ''}</tr>"
        for row in rows)
    return ("<h2>Tensors in flight</h2><p>Of 1 KiB, held by the process that created "
            "them and by one that received them: what each of the two has more than "
            "before (sender / receiver), what ended it, and whether the call that "
            "failed succeeds once eight tensors are released.</p>"
            f"<div class=wide><table>{head}{lines}</table></div>")


def head_of(context):
    idle = text(machine.idle_line(context))
    if not machine.is_idle(context):
        idle = f"<p class=warning>{idle}</p>"
    else:
        idle = f"<p>{idle}</p>"
    return (f"<p>{text(context['processor'])}, {text(context['kernel'])}, "
            f"{context['memory_bytes'] / 2**30:.0f} GiB; {text(context['date'])}; "
            f"commit {text(context['commit'])}; mode {text(context['mode'])}</p>"
            f"<p>{text(machine.cores_line(context))}</p>{idle}")


# ---- Plots. ----

def lines_of(scenarios):
    return [(name if distance == "any" else f"{name}, {distance}", group)
            for name, scenario in scenarios.items()
            for distance, group in scenario["distances"].items()]


def log_ticks(axis, values):
    axis.set_major_locator(ticker.LogLocator(base=10, subs=values, numticks=50))
    axis.set_major_formatter(ticker.FuncFormatter(lambda v, _: f"{v:g}"))
    axis.set_minor_formatter(ticker.NullFormatter())


def plot_ratios(scenarios):
    """Ratios to the limit, with their spread and bounds."""
    lines = lines_of(scenarios)
    figure, axes = plt.subplots(figsize=(9, 1.2 + 0.28 * len(lines)))
    for y, (_, group) in enumerate(lines):
        low, high = group["tenon_over_limit_spread"]
        ratio = group["tenon_over_limit"]
        color = MISSED if group["missed"] else TENON
        axes.plot([low, high], [y, y], color=color, lw=2, alpha=0.45)
        axes.plot(ratio, y, "o", color=color, ms=6)
        if group["bound"] is not None:
            axes.plot(group["bound"], y, "|", color="black", ms=12, mew=1.5)
    axes.axvline(1, color=LIMIT, lw=1)
    axes.set_xscale("log")
    log_ticks(axes.xaxis, [1, 2, 5])
    axes.set_yticks(range(len(lines)), [name for name, _ in lines], fontsize=8)
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.grid(axis="x", which="major", alpha=0.3)
    axes.set_xlabel("time of Tenon / time of its limit (logarithmic); "
                    "line: the limit; | the bound; red: missed")
    axes.set_title("How far from the limit of the machine")
    return figure


def plot_peers(scenarios):
    """Times of peers to that of Tenon, and their spread."""
    lines = [(f"{name}: {peer}", ratio,
              [ns / group["tenon"] for ns in group["peers"][peer]["spread"]])
             for name, group in lines_of(scenarios)
             for peer, ratio in sorted(group["peer_over_tenon"].items())]
    if not lines:
        return None
    figure, axes = plt.subplots(figsize=(9, 1.2 + 0.26 * len(lines)))
    for y, (_, ratio, spread) in enumerate(lines):
        color = PEER if ratio >= 1 else MISSED
        axes.plot([1, ratio], [y, y], color=color, lw=4, alpha=0.6,
                  solid_capstyle="butt")
        axes.plot(spread, [y, y], color=color, lw=1)
        axes.annotate(f" {ratio_text(ratio)} ",
                      (max(ratio, *spread) if ratio >= 1 else min(ratio, *spread), y),
                      va="center", fontsize=8, ha="left" if ratio >= 1 else "right")
    axes.axvline(1, color=TENON, lw=1.5)
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    axes.set_xlim(low / 1.5, high * 2)
    log_ticks(axes.xaxis, [1])
    axes.set_yticks(range(len(lines)), [name for name, _, _ in lines], fontsize=8)
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.grid(axis="x", which="major", alpha=0.3)
    axes.set_xlabel("time of the peer / time of Tenon (logarithmic); left of the line "
                    "the peer is faster")
    axes.set_title("Beside peers (thin: the spread of the peer)")
    return figure


# ---- Plots over sizes. ----

CURVES = {  # Subject: label, color, marker.
    "limit": ("limit: the protocol by hand, pooled", LIMIT, "s"),
    "tenon": ("Tenon, pooled", TENON, "o"),
    "tenon.descriptor": ("Tenon, own segment by descriptor", "#e08214", "^"),
    "tenon.name": ("Tenon, own segment by name", "#8073ac", "v"),
}
# The same through other carriers than a queue: color by strategy, line and
# marker by carrier.
CARRIERS = {
    "limit": CURVES["limit"],
    **{f"tenon{strategy}{carrier}": (f"{text_of} through a {carrier[1:] or 'queue'}",
                                     color, marker)
       for strategy, text_of, color in [
           (".pooled", "pooled", TENON), (".descriptor", "by descriptor", "#e08214"),
           (".name", "by name", "#8073ac")]
       for carrier, marker in [("", "o"), (".ring", "^"), (".channel", "x")]},
}
CARRIERS["tenon"] = CARRIERS.pop("tenon.pooled")
DASHES = {"limit": "--", "ring": "-.", "channel": ":"}


def size_text(size):
    for unit, factor in [("MiB", 2**20), ("KiB", 2**10)]:
        if size >= factor:
            return f"{size // factor} {unit}"
    return f"{size} B"


def figures_in(group):
    """By curve: the time and its spread."""
    figures = {"limit": (group["limit"], group["limit_spread"]),
               "tenon": (group["tenon"], group["tenon_spread"])}
    for name, one in {**group["variants"], **group["peers"]}.items():
        if one.get("status") == "measured":
            figures[name] = (one["time"], one["spread"])
    return figures


def curves_of(scenarios, sweep):
    """The distance that has more sizes, subject -> [(size, time, spread)], and the
    sizes that were not measured between cores of that distance."""
    of_sweep = [s for s in scenarios.values() if s.get("sweep") == sweep]
    counts = {distance: sum(distance in s["distances"] for s in of_sweep)
              for distance in ["near", "far"]}
    distance = max(counts, key=counts.get)
    curves = {}
    for scenario in of_sweep:
        if distance not in scenario["distances"]:
            continue
        for name, (ns, spread) in figures_in(
                scenario["distances"][distance]).items():
            curves.setdefault(name, []).append((scenario["at"], ns, spread))
    absent = sorted(s["at"] for s in of_sweep if distance not in s["distances"])
    return distance, {name: sorted(points) for name, points in curves.items()}, absent


def style_of(name, index, styles):
    if name in styles:
        return styles[name]
    return name, matplotlib.colormaps["Dark2"](index % 8), "x"


def names_of(curves, styles):
    """Tenon's in the order of `styles`; peers only beside the queue."""
    peers = [] if styles is CARRIERS else sorted(
        name for name in curves if name != "limit" and not name.startswith("tenon"))
    return [*(name for name in styles if name in curves), *peers]


def plot_sizes(scenarios, sweep, value, title, label, y_text, styles):
    """`value` makes what is shown of a size and a time."""
    distance, curves, absent = curves_of(scenarios, sweep)
    if not curves:
        return None
    figure, axes = plt.subplots(figsize=(9, 5.5))
    for index, name in enumerate(names_of(curves, styles)):
        text_of, color, marker = style_of(name, index, styles)
        sizes = [size for size, _, _ in curves[name]]
        axes.plot(sizes, [value(s, ns) for s, ns, _ in curves[name]],
                  marker=marker, ms=5, color=color, label=text_of,
                  ls=DASHES.get(name.split(".")[-1], "-"))
        axes.fill_between(
            sizes, [value(s, spread[0]) for s, _, spread in curves[name]],
            [value(s, spread[1]) for s, _, spread in curves[name]],
            color=color, alpha=0.15, lw=0)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    ticks = sorted({size for points in curves.values() for size, _, _ in points})
    axes.set_xticks(ticks, [size_text(size) for size in ticks])
    axes.yaxis.set_major_locator(ticker.LogLocator(base=10, numticks=20))
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(y_text))
    axes.grid(alpha=0.3)
    axes.set_xlabel("bytes of a tensor (logarithmic)" + (
        f"; not measured between {distance} cores: {', '.join(map(size_text, absent))}"
        if absent else ""))
    axes.set_ylabel(f"{label} (logarithmic)")
    how = "receivers of channels sleep" if styles is CARRIERS else "both spin"
    axes.set_title(f"{title}; {how}, {distance} cores")
    axes.legend(fontsize=8)
    return figure


def plot_latency(scenarios, styles):
    return plot_sizes(scenarios, "there_back", lambda size, ns: ns,
                      "A filled tensor there and another back", "time",
                      lambda ns, _: time_text(ns), styles)


def plot_throughput(scenarios, styles):
    return plot_sizes(scenarios, "stream", lambda size, ns: size / ns,
                      "Filled tensors in a row", "GB/s", lambda v, _: f"{v:g}",
                      styles)


# ---- Plots of loaders. ----

def points_of(scenarios, sweep):
    """Way -> [(at, group)]. Loaders are not bound to cores: one distance."""
    ways = {}
    for scenario in scenarios.values():
        if scenario.get("sweep") == sweep and scenario["status"] == "measured":
            ways.setdefault(scenario["way"], []).append(
                (scenario["at"], scenario["distances"][scenario["distance"]]))
    return {way: sorted(points, key=lambda p: p[0]) for way, points in ways.items()}


def draw_ways(axes, ways, scale):
    """A curve with its spread for each way, and its limit, dashed."""
    for index, (way, points) in enumerate(ways.items()):
        color = matplotlib.colormaps["tab10"](index)
        at = [x for x, _ in points]
        axes.plot(at, [g["tenon"] * scale(x) for x, g in points], color=color,
                  marker="o", ms=5, label=way)
        axes.fill_between(
            at, [g["tenon_spread"][0] * scale(x) for x, g in points],
            [g["tenon_spread"][1] * scale(x) for x, g in points], color=color,
            alpha=0.15, lw=0)
        axes.plot(at, [g["limit"] * scale(x) for x, g in points], color=color,
                  ls="--", lw=1)
    axes.plot([], [], color="black", ls="--", lw=1, label="its limit")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(
        ticker.LogLocator(base=10, subs=[1, 2, 5], numticks=50))
    axes.yaxis.set_major_formatter(
        ticker.FuncFormatter(lambda ns, _: time_text(ns)))
    axes.yaxis.set_minor_formatter(ticker.NullFormatter())
    ticks = sorted({x for points in ways.values() for x, _ in points})
    axes.set_xticks(ticks, [str(x) for x in ticks])
    axes.grid(alpha=0.3)


def legend_beside(axes):
    """Curves fill the axes."""
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5))


def draw_peers(axes, ways, scale):
    """Peers have points at one way only: that with as many workers."""
    curves = {}
    for points in ways.values():
        for at, group in points:
            for name, peer in group["peers"].items():
                if peer["status"] == "measured":
                    curves.setdefault(name, {})[at] = peer["time"] * scale(at)
    for index, (name, points) in enumerate(sorted(curves.items())):
        at = sorted(points)
        axes.plot(at, [points[x] for x in at], marker="x", lw=1,
                  color=matplotlib.colormaps["Dark2"](index % 8),
                  label=f"{name}, 2 workers")


def plot_loader_batch(scenarios):
    ways = points_of(scenarios, LOADER_BATCH)
    if not ways:
        return None
    figure, axes = plt.subplots(figsize=(9, 5.5))
    draw_peers(axes, ways, lambda at: 1 / at)
    draw_ways(axes, ways, lambda at: 1 / at)
    axes.set_xlabel("samples of a batch (logarithmic)")
    axes.set_ylabel("time for each sample of 3x32x32 floats (logarithmic)")
    axes.set_title("A loader by batch size and workers")
    legend_beside(axes)
    return figure


def draw_start_peers(axes, ways):
    """In the color of the way; the marker is the peer's."""
    markers = {name: "xv^s"[i] for i, name in enumerate(LOADERS)}
    for index, (way, points) in enumerate(ways.items()):
        curves = {}
        for at, group in points:
            for name, peer in group["peers"].items():
                if peer["status"] == "measured":
                    curves.setdefault(name, []).append((at, peer["time"]))
        for name, its in curves.items():
            axes.plot(*zip(*its), marker=markers[name], ls=":", lw=1, ms=5,
                      color=matplotlib.colormaps["tab10"](index),
                      label=f"{name}, {way}")


def plot_loader_start(scenarios):
    starts = points_of(scenarios, LOADER_START)
    stops = points_of(scenarios, LOADER_STOP)
    if not (starts and stops):
        return None
    figure, both = plt.subplots(1, 2, figsize=(12, 5), sharey=True)
    for axes, ways, title in [(both[0], starts, "until the first batch"),
                              (both[1], stops, "to stop")]:
        draw_ways(axes, ways, lambda at: 1)
        draw_start_peers(axes, ways)
        axes.set_xlabel("workers (logarithmic)")
        axes.set_title(f"Time of a loader {title}")
    both[0].set_ylabel("time (logarithmic)")
    legend_beside(both[1])
    return figure


def plot_in_flight(rows):
    """The receiver's descriptors by number of tensors, without a limit of them."""
    rows = [row for row in rows if row["fd_limit"] == 0]
    if not rows:
        return None
    figure, axes = plt.subplots(figsize=(9, 4.5))
    for strategy, name in [("pooled", "tenon"), ("descriptor", "tenon.descriptor"),
                           ("name", "tenon.name")]:
        of_one = sorted((row["tensors"], row["receiver_fds"], row["error"])
                        for row in rows if row["strategy"] == strategy)
        _, color, marker = CURVES[name]
        axes.plot([n for n, _, _ in of_one], [fds for _, fds, _ in of_one],
                  marker=marker, color=color, label=strategy)
        for count, fds, error in of_one:
            if error:
                axes.annotate(" a limit ends it", (count, fds), fontsize=8,
                              va="center")
    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in [axes.xaxis, axes.yaxis]:
        axis.set_major_locator(ticker.LogLocator(base=10, subs=[1, 2, 5], numticks=50))
        axis.set_major_formatter(ticker.FuncFormatter(lambda v, _: f"{v:,.0f}"))
        axis.set_minor_formatter(ticker.NullFormatter())
    axes.grid(alpha=0.3)
    axes.set_xlabel("tensors of 1 KiB that two processes hold (logarithmic)")
    axes.set_ylabel("descriptors of the receiver (logarithmic)")
    axes.set_title("Descriptors of tensors in flight, by strategy")
    axes.legend(fontsize=8)
    return figure


def png_of(figure, path):
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return base64.b64encode(path.read_bytes()).decode()


def write(report, out):
    scenarios = report["scenarios"]
    named = {n: s for n, s in scenarios.items() if not s.get("sweep")}
    plots = [("ratios", plot_ratios(named) if named else None), ("peers", plot_peers(named)),
             ("latency_by_size", plot_latency(scenarios, CURVES)),
             ("throughput_by_size", plot_throughput(scenarios, CURVES)),
             ("latency_by_carrier", plot_latency(scenarios, CARRIERS)),
             ("throughput_by_carrier", plot_throughput(scenarios, CARRIERS)),
             ("loader_by_batch", plot_loader_batch(scenarios)),
             ("loader_start", plot_loader_start(scenarios)),
             ("in_flight", plot_in_flight(report["in_flight"]))]
    images = "".join(
        f'<p><img alt="{name}" src="data:image/png;base64,'
        f'{png_of(figure, out / f"{name}.png")}"></p>'
        for name, figure in plots if figure is not None)
    left_out = report["context"].get("in_flight_left_out")
    missed = [name for name, s in scenarios.items() if s["missed"]]
    misses = ("<p>No bound is exceeded.</p>" if not missed else
              f'<p class=missed>Bounds are exceeded: {text(", ".join(missed))}.</p>')
    (out / "report.html").write_text(
        "<!doctype html><html lang=en><meta charset=utf-8>"
        f"<title>Tenon side by side</title><style>{STYLE}</style>"
        f"<h1>Tenon side by side</h1>{head_of(report['context'])}{HOW_TO_READ}"
        f"{misses}{limits_of(report['limits'])}{images}"
        f"<h2>All figures</h2>{table_of(scenarios)}"
        f"{in_flight_of(report['in_flight'], left_out)}</html>\n")

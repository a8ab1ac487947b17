#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""Runs each scenario for a moment, and checks what the runner makes of figures.

Figures of the short run are not checked: the machine may be busy.
"""

import dataclasses
import json
import os
import pathlib
import select
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from runner import bounds, figures, machine, results  # noqa: E402
from runner import rounds, scenarios  # noqa: E402

STABLE_NAMES = """
handover_spin handover_new handover_sleep arena_alone ring_64B stream_4KiB small_1KiB
fresh_fd_4KiB own_16MiB own_recycled_16MiB shm_register pooled_copy_1MiB
pooled_copy_16MiB loader_machinery_spin loader_machinery_asleep
loader_machinery_2 loader_w0 loader_small loader_image loader_first_batch
loader_stop spawn_2 spawn_8 spawn_32 fork_8 error_to_parent future_wait
future_then future_chain future_collect_all queue_64B channel_64B channel_fd
fan_out_4 many_small_blocks many_small_one_block fan_out_ring_1 fan_out_ring_8
fan_out_queues_4 forward_third loader_batch_64_2_processes
loader_batch_64_no_worker loader_start_spawn_2 loader_start_fork_2
loader_stop_forkserver_2 loader_stop_threads_2 segment_4KiB copy_hot_1MiB
copy_cold_1MiB copy_cold_16MiB
""".split()

FACTS = {"processor": "P", "kernel": "K", "memory_bytes": 2**30, "date": "D",
         "commit": "C", "mode": "quick", "usable_cores": [0, 1], "cores": [0, 1],
         "num_cpus": 2, "share_a_core": False, "busy_share": [0.02]}


def compare(*flags):
    environment = {k: v for k, v in os.environ.items() if k != "TENON_PEERS"}
    return subprocess.run(["benchmarks/compare", *flags], env=environment,
                          capture_output=True, text=True, check=False)


def scenario_called(name):
    return next(s for s in scenarios.ALL if s.name == name)


def sample(number, distance, tenon, limit, **others):
    def figures(ns):
        return {"ns": ns, "lower": ns * 0.9, "upper": ns * 1.1}
    return rounds.Sample(number, distance, figures(tenon), figures(limit),
                         tenon / limit, {n: figures(v) for n, v in others.items()})


def in_flight_row(strategy, tensors):
    row = dict.fromkeys(rounds.IN_FLIGHT_MEMBERS, tensors)
    row.update(strategy=strategy, wanted=tensors, fd_limit=0,
               error="too <many>" if strategy == "descriptor" else "")
    return row


def example_report():
    spin, wait = scenario_called("handover_spin"), scenario_called("future_wait")
    measured = {
        "handover_spin": rounds.Measured(
            [sample(0, "near", 200, 100, **{"iceoryx2.native": 300}),
             sample(1, "near", 260, 100, **{"iceoryx2.native": 300}),
             sample(1, "far", 300, 300)],
            missing={"iceoryx2.wheel": "not <there>"}),
        "future_wait": rounds.Measured([sample(0, "any", 60, 50)]),
        "spawn_2": rounds.Measured(failure="it ended"),
    }
    sweeps = [s for s in scenarios.ALL if s.sweep]
    for sweep in sweeps:
        measured[sweep.name] = rounds.Measured([sample(
            0, "far", sweep.at + 900, sweep.at + 500,
            **{"tenon.descriptor": 3 * sweep.at + 30000})])
    return results.build([spin, wait, scenario_called("spawn_2"), *sweeps], measured,
                         dict(FACTS),
                         {"handover_spin": {"bound": {"near": 1.4, "far": 1.05},
                                            "why_missed": "It has reasons."}},
                         [in_flight_row(s, n) for s in scenarios.STRATEGIES
                          for n in (100, 1000)])


class SmokeTest(unittest.TestCase):

    def test_measures_each_scenario(self):
        with tempfile.TemporaryDirectory() as folder:
            # Of the points of plots, which the programs' smoke tests run, some.
            ended = compare("--smoke", "--no-report", "--out", folder, "--only",
                            "^(?!size_(?!4k)|loader_batch_(?!64)|loader_st.*[14]$)")
            self.assertIn(ended.returncode, (0, 1), ended.stderr)
            report = json.loads(pathlib.Path(folder, "results.json").read_text())
        for name in STABLE_NAMES:
            with self.subTest(name):
                self.check(name, report["scenarios"][name])
        self.assertEqual({row["strategy"] for row in report["in_flight"]},
                         {"pooled", "descriptor", "name"})
        for row in report["in_flight"]:
            self.assertEqual(row["tensors"], 100, row["error"])
        for limit in scenarios.LIMITS:
            its = report["limits"][limit.name]
            if report["scenarios"][limit.scenario]["status"] == "measured":
                self.assertGreater(min(its["times"].values()), 0, limit.name)
        self.assertGreaterEqual(report["limits"]["memcpy_cold_1MiB"]["set_mib"], 256)
        names = {b["name"] for b in report["benchmarks"]}
        self.assertIn("spawn_2/tenon", names)
        self.assertIn("spawn_2/limit_median", names)
        for benchmark in report["benchmarks"]:
            self.assertGreater(benchmark["real_time"], 0)

    def check(self, name, scenario):
        for member in ["tenon", "limit", "tenon_over_limit", "peers"]:
            self.assertIn(member, scenario)
        if scenario["status"] == "skipped":
            self.assertEqual(machine.usable_cores()[1:], [])
            return
        if scenario["status"] == "failed":
            # The distance of the cores may change in each of a few turns.
            self.assertIn("the distance of the cores changed",
                          scenario["reason"])
            return
        self.assertGreater(scenario["tenon_over_limit"], 0)
        if name == "handover_sleep":
            distance = scenario["distances"][scenario["distance"]]
            self.assertGreaterEqual(distance["slept_for_each"], 0.9)
        for peer in scenario["peers"].values():
            self.assertEqual(peer["status"], "missing")
            self.assertIn("tools/install_peers", peer["reason"])

    def test_flags(self):
        listed = compare("--list", "--only", "^spawn_")
        self.assertEqual(listed.stdout.split(), ["spawn_2", "spawn_8", "spawn_32"])
        self.assertEqual(compare("--list", "--only", "^none$").returncode, 2)
        self.assertEqual(compare("--list", "--only", "(").returncode, 2)
        self.assertEqual(compare().returncode, 2)
        self.assertEqual(compare("--out", "x", "--rounds", "0").returncode, 2)


class ResultsTest(unittest.TestCase):

    def test_limits_of_the_machine(self):
        copy, sleep = scenario_called("copy_cold_1MiB"), scenario_called("handover_sleep")
        measured = {
            "copy_cold_1MiB": rounds.Measured([sample(0, "any", 9, 1 << 20)],
                                              facts={"set_mib": 512}),
            "handover_sleep": rounds.Measured(
                [sample(0, "far", 90, 80, **{"bare.futex": 70})])}
        limits = results.build([copy, sleep], measured, dict(FACTS), {})["limits"]
        self.assertEqual(limits["futex_wake"]["times"], {"far": 70})
        self.assertEqual(limits["poll_wake"]["times"], {"far": 80})
        self.assertEqual(
            results.limit_text(limits["memcpy_cold_1MiB"]),
            "1.05 ms (1 GB/s), in turn over 512 MiB each of source and target")
        self.assertNotIn("posix_spawn", limits)

    def test_keeps_distances_apart(self):
        spin = example_report()["scenarios"]["handover_spin"]
        self.assertEqual(spin["distance"], "near")
        self.assertEqual(spin["tenon"], 230)
        self.assertEqual(spin["near"]["tenon_over_limit"], 2.3)
        self.assertEqual(spin["far"]["tenon_over_limit"], 1)
        self.assertEqual(spin["near"]["tenon_spread"], [180, 286])
        self.assertTrue(spin["near"]["missed"])
        self.assertFalse(spin["far"]["missed"])
        self.assertTrue(spin["missed"])

    def test_peers(self):
        spin = example_report()["scenarios"]["handover_spin"]
        self.assertAlmostEqual(spin["peer_over_tenon"]["iceoryx2.native"], 300 / 230)
        self.assertEqual(spin["far"]["peers"], {"iceoryx2.wheel": {
            "status": "missing", "reason": "not <there>"}})

    def test_entries_of_google_benchmark(self):
        entries = {b["name"]: b for b in example_report()["benchmarks"]}
        self.assertEqual(entries["handover_spin/near/tenon_median"]["real_time"], 230)
        self.assertEqual(entries["handover_spin/far/tenon"]["tenon_over_limit"], 1)
        self.assertEqual(entries["future_wait/tenon"]["tenon_over_limit"], 1.2)
        self.assertNotIn("tenon_over_limit", entries["future_wait/limit"])

    def test_a_failure_is_told(self):
        failed = example_report()["scenarios"]["spawn_2"]
        self.assertEqual(failed["status"], "failed")
        self.assertEqual(failed["reason"], "it ended")
        self.assertIsNone(failed["tenon"])

    def test_units(self):
        self.assertEqual(results.time_text(123.4), "123 ns")
        self.assertEqual(results.time_text(1234), "1.23 us")
        self.assertEqual(results.time_text(2.5e6), "2.5 ms")
        figure = scenarios.Figure("real_time", 0.5)
        self.assertEqual(rounds.nanoseconds(
            figure, {"real_time": 3, "time_unit": "us"}), 1500)


class PeersTest(unittest.TestCase):

    def program(self, folder, peer, body):
        program = pathlib.Path(folder, "bin", peer)
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
        return pathlib.Path(folder)

    def test_reads_what_a_program_prints(self):
        with tempfile.TemporaryDirectory() as folder:
            peers = self.program(
                folder, "loader.torch", "echo BM_Batch/floats:1/workers:0"
                "/threads:0'  us='2.5; echo warning: $1 $2; echo 'K missing: it is so'")
            figures, reasons = rounds.run_peer(
                "loader.torch", {"KEY"}, rounds.QUICK, peers)
            self.assertEqual(figures, {"BM_Batch/floats:1/workers:0": 2500})
            self.assertEqual(reasons, {"K": "it is so"})
            self.program(folder, "loader.torch", "echo nothing")
            self.assertIn("printed no figures", rounds.run_peer(
                "loader.torch", {"KEY"}, rounds.QUICK, peers)[1][""])
        self.assertIn("run tools/install_peers", rounds.run_peer(
            "loader.torch", {"KEY"}, rounds.QUICK, None)[1][""])

    def test_a_peer_may_lack_a_scenario(self):
        chosen = [scenario_called("fork_8"), scenario_called("spawn_8")]
        measured = {s.name: rounds.Measured() for s in chosen}
        with tempfile.TemporaryDirectory() as folder:
            peers = self.program(
                folder, "torch.processes",
                "echo spawn_2 us=1; echo spawn_8 missing: $2 $3 $4")
            rounds.measure_peers(chosen, rounds.QUICK, peers, measured, {}, 9)
        self.assertEqual(measured["fork_8"].missing, {
            "torch.processes": "torch.processes printed no figure for fork_8"})
        self.assertEqual(measured["spawn_8"].missing, {
            "torch.processes": "--budget=9 fork_8 spawn_8"})

    def test_a_program_that_hangs_is_ended_with_its_children(self):
        with tempfile.TemporaryDirectory() as folder:
            pipe = pathlib.Path(folder, "pipe")
            os.mkfifo(pipe)
            reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
            peers = self.program(folder, "boost", "echo ring_64B us=1\n"
                                 f"sleep 1000 > {pipe} & sleep 1000")
            with unittest.mock.patch.object(rounds, "GRACE_S", 3):
                figures, reasons = rounds.run_peer(
                    "boost", {"ring_64B"}, rounds.QUICK, peers, 1)
            # The end of the file comes when no process has the pipe.
            self.assertTrue(select.select([reader], [], [], 60)[0])
            self.assertEqual(os.read(reader, 1), b"")
            os.close(reader)
        self.assertEqual(figures, {"ring_64B": 1000})
        self.assertIn("no end after 4 s", reasons[""])


class BudgetTest(unittest.TestCase):

    def test_is_divided(self):
        budget = rounds.Budget(50, 100)
        self.assertAlmostEqual(budget.share(10), 0.5, delta=0.1)
        # The rest goes to the others, and no run is lengthened.
        budget.to_come = 5
        self.assertEqual(budget.share(5), 1)

    def test_is_used_up(self):
        budget = rounds.Budget(1e-9, 100)
        self.assertLess(budget.share(10), rounds.LEAST_SHARE)
        self.assertLessEqual(budget.timeout(600), rounds.GRACE_S)
        self.assertEqual(rounds.Budget(0, 100).share(10), 1)
        self.assertEqual(rounds.Budget(0, 100).timeout(600), 600)

    def test_what_is_left_out_is_said(self):
        mode = dataclasses.replace(rounds.QUICK, budget_s=1e-9, idle_seconds=0)
        chosen = [scenario_called("spawn_2"), scenario_called("error_to_parent")]
        context = {"busy_share": [], "usable_cores": [0]}
        measured, rows = rounds.run(chosen, mode, pathlib.Path("none"), None, context,
                                    wants_in_flight=True)
        report = results.build(chosen, measured, context, {}, rows)
        for name in ["spawn_2", "error_to_parent"]:
            self.assertEqual(report["scenarios"][name]["reason"], rounds.LEFT_OUT)
        self.assertEqual(context["in_flight_left_out"], rounds.LEFT_OUT)

    def test_quick_ends_in_three_minutes(self):
        # Beside it, the report is written.
        self.assertLessEqual(rounds.QUICK.budget_s + rounds.GRACE_S, 172)


class CheckTest(unittest.TestCase):

    def test_fails_above_a_bound_or_without_figures(self):
        report = example_report()
        self.assertEqual(bounds.check(report), 1)
        del report["scenarios"]["spawn_2"]
        self.assertEqual(bounds.check(report), 1)
        report["scenarios"]["handover_spin"]["distances"]["near"]["guard"] = 2.5
        self.assertEqual(bounds.check(report), 0)
        self.assertEqual(bounds.check({"scenarios": {}}), 1)

    def test_each_bound_has_a_scenario(self):
        names = {s.name for s in scenarios.ALL}
        for name, of_name in bounds.load().items():
            self.assertIn(name, names)
            for distance in ["near", "far", "any"]:
                bound = bounds.of(of_name and {name: of_name}, name, distance)
                guard = bounds.guard_of({name: of_name}, name, distance)
                if bound is not None:
                    self.assertLessEqual(bound, guard)
            if "guard" in of_name:
                self.assertIn("why_missed", of_name, name)


class FiguresTest(unittest.TestCase):

    def test_replaces_the_lines_between_markers(self):
        page = "a\n<!-- figures -->\nold\n<!-- /figures -->\nb\n"
        self.assertEqual(figures.replace(page, "figures", "new \\1"),
                         "a\n<!-- figures -->\nnew \\1\n<!-- /figures -->\nb\n")
        with self.assertRaisesRegex(ValueError, "<!-- figures -->"):
            figures.replace("no markers", "figures", "new")

    def test_the_documents_have_markers_and_pictures_exist(self):
        report = example_report()
        page = figures.readme(report, "p.png")
        self.assertIn("| 230 ns | 100 ns | iceoryx2 300 ns |", page)
        self.assertIn("(near cores)", page)
        self.assertIn("2 cores in use", page)
        self.assertNotIn("![", figures.readme(report, None))
        page = figures.all_figures(report, "pictures", figures.PICTURES[:1])
        self.assertIn("(pictures/latency_by_size.png)", page)
        self.assertNotIn("throughput_by_size", page)
        self.assertIn("**2.30**", page)
        self.assertIn("bound 1.4. It has reasons.", page)
        self.assertIn("| `spawn_2`: failed: it ended", page.replace("- ", "| "))
        self.assertIn("| 67,108,864 (far cores) |", page)
        self.assertIn("| 2 processes |", page)
        self.assertIn("| forkserver |", page)
        self.assertIn("- peer `iceoryx2.wheel`: not <there>: `handover_spin`", page)
        self.assertIn("| limit | time | measured in |", page)
        self.assertIn("`arena_alone`", figures.all_figures(
            {**report, "limits": {"line_bounce": {
                "what": "a line", "scenario": "arena_alone", "times": {"far": 5}}}},
            "pictures", []))
        self.assertIn("too <many>", page)

    def test_one_library_is_one_peer(self):
        group = {"peers": {
            "torch.fd": {"status": "measured", "time": 3e3},
            "torch.fs": {"status": "measured", "time": 2e3},
            "iceoryx2.native": {"status": "measured", "time": 500},
            "iceoryx2.wheel": {"status": "missing"}}}
        self.assertEqual(figures.peers_text(group), "iceoryx2 500 ns, torch 2 us")

    def test_the_command_has_no_folders(self):
        self.assertEqual(
            machine.command(["--out", "/home/me/x", "--quick", "--peers=/p"]),
            "./bazelw run -c opt //benchmarks:compare -- "
            "--out DIR --quick --peers PEERS")


class MachineTest(unittest.TestCase):

    def test_says_that_it_is_busy(self):
        self.assertIn("idle:", machine.idle_line({"busy_share": [0.05]}))
        self.assertIn("NOT IDLE", machine.idle_line({"busy_share": [0.05, 0.4]}))

    def test_says_that_cores_are_shared(self):
        facts = {"cores": [0, 1], "num_cpus": 2, "share_a_core": True}
        self.assertIn("hardware threads of one core", machine.cores_line(facts))


class ReportTest(unittest.TestCase):

    def module(self):
        try:
            from runner import report as html
        except ImportError as error:
            self.skipTest(f"{error}: pip install matplotlib tqdm")
        return html

    def test_a_picture_names_the_sizes_that_were_not_measured(self):
        html = self.module()
        measured = example_report()["scenarios"]
        label = "bytes of a tensor (logarithmic)"

        def label_of(figure):
            return figure.axes[0].get_xlabel()

        self.assertEqual(label_of(html.plot_latency(measured, html.CURVES)), label)
        sizes = sorted((s for s in measured.values() if s.get("sweep") == "there_back"),
                       key=lambda s: s["at"])
        for scenario in sizes[:2]:
            scenario["distances"] = {"near": scenario["distances"]["far"]}
        self.assertEqual(label_of(html.plot_latency(measured, html.CURVES)),
                         label + "; not measured between far cores: 64 B, 1 KiB")

    def test_is_one_file_that_says_what_is_missed(self):
        html = self.module()
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder)
            html.write(example_report(), out)
            page = (out / "report.html").read_text()
            for plot in ["ratios", "peers", "latency_by_size", "throughput_by_size",
                         "latency_by_carrier", "throughput_by_carrier",
                         "loader_by_batch", "loader_start", "in_flight"]:
                image = (out / f"{plot}.png").read_bytes()
                self.assertTrue(image.startswith(b"\x89PNG"), plot)
        self.assertIn("Bounds are exceeded: handover_spin", page)
        self.assertIn("Limits of the machine", page)
        self.assertIn("It has reasons.", page)
        self.assertIn("not &lt;there&gt;", page)
        self.assertIn("too &lt;many&gt;", page)
        self.assertNotIn('src="http', page)


if __name__ == "__main__":
    unittest.main()

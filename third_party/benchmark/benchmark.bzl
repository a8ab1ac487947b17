# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0

"""Google Benchmark.

Debian ships libbenchmark.so and libbenchmark_main.a, and no libbenchmark.a: a
benchmark needs libbenchmark1debian where it runs.
"""

load("//third_party:system_library.bzl", "system_library")

def google_benchmark(name):
    system_library(
        name = name,
        archives = {"benchmark_main": ["benchmark"]},
        debian_package = "libbenchmark-dev",
        targets = {
            ":benchmark": "benchmark",
            ":benchmark_main": "benchmark_main",
        },
    )

# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0

"""The C++ rules of Tenon. Every BUILD file loads these and no others.

They add to the common rules: headers that read "tenon/<package>/<file>.h",
the house's warnings, static linking, and the check of layers.bzl.
"""

load(
    "@rules_cc//cc:defs.bzl",
    _cc_binary = "cc_binary",
    _cc_library = "cc_library",
    _cc_test = "cc_test",
)
load("//bazel:layers.bzl", "check_layers")

# No -std here: the dialect belongs to whoever builds the whole program.
_COPTS = [
    "-Wall",
    "-Wextra",
    "-Wnon-virtual-dtor",
    "-Wshadow",
    "-Wvla",
    # Options{.one = 1} is how Tenon passes many parameters.
    "-Wno-missing-field-initializers",
]

# Code that only tests is not optimised: that would take longer than it saves.
# (Debian's C library warns of _FORTIFY_SOURCE without optimisation.) A target
# that says -O2 in its copts wins: they stand behind these.
_TEST_COPTS = ["-O0", "-U_FORTIFY_SOURCE"]

def _checked(name, kwargs, optimised = True):
    for attribute in ["srcs", "hdrs", "textual_hdrs", "deps", "data"]:
        check_layers(name, attribute, kwargs.get(attribute, []))
    return dict(
        kwargs,
        name = name,
        copts = _COPTS + ([] if optimised else _TEST_COPTS) +
                kwargs.get("copts", []),
        linkstatic = True,
    )

def cc_library(name, **kwargs):
    """cc_library whose header h.h is included as "tenon/<package>/h.h"."""
    if kwargs.get("hdrs") or kwargs.get("textual_hdrs"):
        kwargs["include_prefix"] = "tenon/" + native.package_name()
    _cc_library(**_checked(name, kwargs, not kwargs.get("testonly")))

def cc_binary(name, **kwargs):
    """cc_binary that needs none of its libraries where it runs."""
    _cc_binary(**_checked(name, kwargs))

def cc_test(name, **kwargs):
    """cc_test. Its main() is in deps: @googletest//:gtest_main."""
    if "size" not in kwargs:
        fail("//%s:%s: a test states its size" % (native.package_name(), name))
    _cc_test(**_checked(name, kwargs, optimised = False))

def cc_benchmark(
        name,
        srcs,
        deps = [],
        args = [],
        data = [],
        size = "small",
        tags = [],
        **kwargs):
    """A benchmark, and <name>_smoke_test, which runs it for a moment.

    Args:
      name: the binary, tagged "benchmark"; run it with -c opt.
      srcs: sources; main() is given.
      deps: libraries; Google Benchmark is given.
      args: of both.
      data: of both.
      size: of the smoke test.
      tags: of both.
      **kwargs: of the binary, the test and the library they share.
    """
    _cc_library(**_checked(name + "_lib", dict(
        kwargs,
        testonly = True,
        srcs = srcs,
        alwayslink = True,
        data = data,
        tags = tags,
        visibility = ["//visibility:private"],
        deps = deps + ["@google_benchmark//:benchmark"],
    )))
    _cc_binary(
        name = name,
        testonly = True,
        args = args,
        tags = tags + ["benchmark"],
        deps = [":%s_lib" % name, "@google_benchmark//:benchmark_main"],
        **kwargs
    )
    _cc_test(
        name = name + "_smoke_test",
        size = size,
        args = args + ["--benchmark_min_time=0.001"],
        # It runs what tests of its own run under sanitizers.
        tags = tags + ["noasan"],
        deps = [":%s_lib" % name, "//bazel:benchmark_smoke_main"],
        linkstatic = True,
        **kwargs
    )

# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0

"""The C++ rules of Tenon. Every BUILD file loads these and no others.

They add to the common rules: includes of the form "tenon/<package>/<file>.h",
the project's warnings, static linking, and the check of layers.bzl.
"""

load(
    "@rules_cc//cc:defs.bzl",
    _cc_binary = "cc_binary",
    _cc_library = "cc_library",
    _cc_test = "cc_test",
)
load("//bazel:layers.bzl", "check_layers")

# No -std here: the owner of the whole program chooses the dialect.
COPTS = [
    "-Wall",
    "-Wextra",
    "-Wnon-virtual-dtor",
    "-Wshadow",
    "-Wvla",
    # Options{.one = 1} is how Tenon passes many parameters.
    "-Wno-missing-field-initializers",
]

# A section for each function takes time of the assembler, and collecting garbage
# below 2 GB time of gcc.
_TEST_COPTS = COPTS + ["-fno-function-sections", "-fno-data-sections"] + select({
    "//bazel:clang": [],
    "//conditions:default": ["--param=ggc-min-heapsize=2000000"],
})

# Code that only tests is not optimised: that would take longer than it saves.
# (Debian's C library warns of _FORTIFY_SOURCE without optimisation.) A target
# whose own code runs for long, or is killed at each instruction, is `optimised`.
TEST_COPTS = _TEST_COPTS + ["-O0", "-U_FORTIFY_SOURCE"]
OPTIMISED_TEST_COPTS = _TEST_COPTS + ["-O2"]

# Every test links these.
_TEST_DEPS = [
    "//shm/testing:status_matchers",
    "@abseil-cpp//absl/status",
    "@abseil-cpp//absl/status:statusor",
    "@abseil-cpp//absl/strings",
    "@abseil-cpp//absl/time",
]

def _precompiled(headers, settings):
    """The flags and the dependency of a source that includes precompiled headers."""
    label = Label("//bazel:" + headers)

    # clang looks for the compiled file beside this path only.
    folder = "/".join(["$(BINDIR)"] + [part for part in [label.workspace_root, "bazel"] if part])
    flags = ["-include", "%s/%s.h" % (folder, headers)]
    return [
        select(dict(
            {"//conditions:default": []},
            **{"//bazel:precompile_" + setting: used for setting in settings}
        ))
        for used in [flags, ["//bazel:" + headers]]
    ]

def _checked(name, kwargs, is_library = False, is_test = False):
    for attribute in ["srcs", "hdrs", "textual_hdrs", "deps", "data"]:
        check_layers(name, attribute, kwargs.get(attribute, []), is_library)
    own = kwargs.pop("copts", [])
    optimised = kwargs.pop("optimised", False)
    if optimised and not is_test:
        fail("%s: what does not test is optimised as the configuration says" % name)
    if is_test:
        copts = OPTIMISED_TEST_COPTS if optimised else TEST_COPTS
        headers = "optimised_test_headers" if optimised else "test_headers"
        settings = ["all_headers", "test_headers"]
    else:
        copts, headers, settings = COPTS, "library_headers", ["all_headers"]
    deps = kwargs.get("deps", [])
    if own:
        copts = copts + own
    else:
        flags, precompiled = _precompiled(headers, settings)
        copts, deps = copts + flags, deps + precompiled
    return dict(kwargs, name = name, copts = copts, deps = deps, linkstatic = True)

def cc_library(name, **kwargs):
    """cc_library whose header h.h is included as "tenon/<package>/h.h"."""
    if kwargs.get("hdrs") or kwargs.get("textual_hdrs"):
        kwargs["include_prefix"] = "tenon/" + native.package_name()
    is_test = kwargs.get("testonly", False)
    _cc_library(**_checked(name, kwargs, not is_test, is_test))

def umbrella(name, deps):
    """Everything public of a floor, for users; Tenon's targets may not name it.

    Args:
      name: the floor.
      deps: its public libraries; tools/check_layers.py misses none.
    """
    _cc_library(name = name, visibility = ["//visibility:public"], deps = deps)

def cc_binary(name, **kwargs):
    """cc_binary, linked statically with its libraries."""
    _cc_binary(**_checked(name, kwargs))

def cc_test(
        name,
        srcs = None,
        deps = [],
        main = "@googletest//:gtest_main",
        size = "small",
        **kwargs):
    """cc_test of <name>.cc with GoogleTest, the status matchers and Abseil.

    Args:
      name: the test.
      srcs: sources other than <name>.cc; [] if the libraries bring the cases.
      deps: libraries. One that ends in "_main" takes the place of `main`.
      main: the library that brings main(); None if srcs do.
      size: as Bazel has it.
      **kwargs: of cc_test; `optimised` for -O2.
    """
    added = list(_TEST_DEPS)
    if main and not [dep for dep in deps if dep.endswith("_main")]:
        added.append(main)
    if native.package_name() == "shm/testing":
        added[0] = ":status_matchers"
    _cc_test(**_checked(name, dict(
        kwargs,
        size = size,
        srcs = [name + ".cc"] if srcs == None else srcs,
        deps = deps + [dep for dep in added if dep not in deps],
    ), is_test = True))

def cc_tests(name, srcs, **kwargs):
    """One cc_test of several test files, compiled as one translation unit.

    Headers of GoogleTest and Abseil take most of the time of a small test's
    compilation; here they are read once. The files share one namespace, so their
    helpers have different names, and one process, so none of them changes a
    limit or a setting of the process for good.

    Args:
      name: the test.
      srcs: its files, each complete by itself: "a_test.cc".
      **kwargs: of cc_test.
    """
    _cc_library(
        name = name + "_files",
        testonly = True,
        textual_hdrs = srcs,
        visibility = ["//visibility:private"],
    )
    native.genrule(
        name = name + "_unit",
        testonly = True,
        srcs = srcs,
        outs = [name + "_unit.cc"],
        cmd = "for file in $(SRCS); do " +
              "echo \"#include \\\"$$file\\\"\"; done > $@",
        visibility = ["//visibility:private"],
    )
    deps = kwargs.pop("deps", []) + [":%s_files" % name]
    cc_test(name, srcs = [name + "_unit.cc"], deps = deps, **kwargs)

def cc_benchmark(
        name,
        srcs,
        deps = [],
        own_main = False,
        args = [],
        data = [],
        size = "small",
        tags = [],
        optimised = False,
        **kwargs):
    """A benchmark, and <name>_smoke_test, which runs it for a moment.

    Args:
      name: the binary, tagged "benchmark"; run it with -c opt.
      srcs: sources; main() is given.
      deps: libraries; Google Benchmark is given.
      own_main: whether srcs have a main(), which fails if no benchmark runs.
      args: of both.
      data: of both.
      size: of the smoke test.
      tags: of both.
      optimised: for -O2 in configurations that have less.
      **kwargs: of the binary, the test and the library they share.
    """
    # As a user's program, or with the flags of an optimised test.
    _cc_library(**_checked(name + "_lib", dict(
        kwargs,
        testonly = True,
        srcs = srcs,
        alwayslink = True,
        data = data,
        optimised = optimised,
        tags = tags,
        visibility = ["//visibility:private"],
        deps = deps + ["@google_benchmark//:benchmark"],
    ), is_test = optimised))
    _cc_binary(
        name = name,
        testonly = True,
        args = args,
        tags = tags + ["benchmark"],
        deps = [":%s_lib" % name] +
               ([] if own_main else ["@google_benchmark//:benchmark_main"]),
        **kwargs
    )
    _cc_test(
        name = name + "_smoke_test",
        size = size,
        args = args + ["--benchmark_min_time=0.001"],
        # A benchmark runs code whose tests run under sanitizers.
        tags = tags + ["noasan"],
        deps = [":%s_lib" % name] +
               ([] if own_main else ["//bazel:benchmark_smoke_main"]),
        linkstatic = True,
        **kwargs
    )

# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0

"""The libraries that Tenon is built from, for a WORKSPACE.

A repository that the caller has defined before is left as it is, so bring your
own Abseil, or any other of these, under the name it has here.
"""

load("@bazel_tools//tools/build_defs/repo:utils.bzl", "maybe")
load(
    "//bazel:bazel4.bzl",
    "debian_bazel_repository",
    "native_rules_cc",
    "no_coverage_tools",
)
load("//third_party/abseil:abseil.bzl", "abseil")
load("//third_party/benchmark:benchmark.bzl", "google_benchmark")
load("//third_party/cuda:cuda.bzl", "local_cuda")
load("//third_party/dlpack:dlpack.bzl", "dlpack")
load("//third_party/eigen:eigen.bzl", "eigen")
load("//third_party/glog:glog.bzl", "glog")
load("//third_party/googletest:googletest.bzl", "googletest")
load("//third_party/libjpeg_turbo:libjpeg_turbo.bzl", "libjpeg_turbo")
load("//third_party/ncurses:ncurses.bzl", "ncurses")
load("//third_party/nlohmann_json:nlohmann_json.bzl", "nlohmann_json")
load("//third_party/random123:random123.bzl", "random123")
load("//third_party/xxhash:xxhash.bzl", "xxhash")

def tenon_repositories():
    """Third-party libraries, as Debian installs them."""
    maybe(abseil, name = "abseil-cpp")
    maybe(dlpack, name = "dlpack")
    maybe(eigen, name = "eigen")
    maybe(glog, name = "glog")
    maybe(google_benchmark, name = "google_benchmark")
    maybe(googletest, name = "googletest")
    maybe(libjpeg_turbo, name = "libjpeg_turbo")
    maybe(local_cuda, name = "local_cuda")
    maybe(ncurses, name = "ncurses")
    maybe(nlohmann_json, name = "nlohmann_json")
    maybe(random123, name = "random123")
    maybe(xxhash, name = "xxhash")

def tenon_bazel4_repositories():
    """The rules, and the repositories that Bazel 4.2.3 of Debian 12 implies.

    Without these it would fetch them from the network.
    """
    maybe(native_rules_cc, name = "rules_cc")
    maybe(no_coverage_tools, name = "remote_coverage_tools")
    for name, package, path in [
        ("bazel_skylib", "bazel-skylib", "tools/skylib"),
        ("platforms", "bazel-platforms", "tools/platforms"),
        ("rules_java", "bazel-rules-java", "rules/java"),
        ("rules_proto", "bazel-rules-proto", "rules/proto"),
    ]:
        maybe(
            debian_bazel_repository,
            name = name,
            debian_package = package,
            path = "/usr/share/bazel/" + path,
        )

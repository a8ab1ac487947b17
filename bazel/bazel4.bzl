# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0

"""Repositories that make Debian's Bazel 4.2.3 complete, without a network."""

load("//third_party:system_library.bzl", "missing_package")

def _debian_bazel_repository_impl(ctx):
    root = ctx.path(ctx.attr.path)
    if not root.exists:
        missing_package(ctx.attr.debian_package, "there is no " + ctx.attr.path)
    for entry in root.readdir():
        if entry.basename != "WORKSPACE":
            ctx.symlink(entry, entry.basename)

debian_bazel_repository = repository_rule(
    implementation = _debian_bazel_repository_impl,
    doc = "Rules that Debian ships beside Bazel.",
    local = True,
    attrs = {
        "debian_package": attr.string(mandatory = True),
        "path": attr.string(mandatory = True),
    },
)

_RULES_CC = """\"\"\"The rules that are built into this Bazel.\"\"\"

cc_binary = native.cc_binary
cc_import = native.cc_import
cc_library = native.cc_library
cc_test = native.cc_test
cc_toolchain = native.cc_toolchain
cc_toolchain_suite = native.cc_toolchain_suite
"""

def _native_rules_cc_impl(ctx):
    ctx.file("BUILD.bazel")
    ctx.file("cc/BUILD.bazel", 'exports_files(["defs.bzl"])\n')
    ctx.file("cc/defs.bzl", _RULES_CC)

native_rules_cc = repository_rule(
    implementation = _native_rules_cc_impl,
    doc = "@rules_cc//cc:defs.bzl; Debian's own does not load on its Bazel.",
)

_COVERAGE_TOOLS = """# In every test; only `bazel coverage` runs it.
filegroup(
    name = "coverage_report_generator",
    visibility = ["//visibility:public"],
)
"""

def _no_coverage_tools_impl(ctx):
    ctx.file("BUILD.bazel", _COVERAGE_TOOLS)

no_coverage_tools = repository_rule(
    implementation = _no_coverage_tools_impl,
    doc = "@remote_coverage_tools, of which Debian has none.",
)

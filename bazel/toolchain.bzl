# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0

"""The C++ toolchain, for rules that call it themselves."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

# Attributes of rule() for a rule that calls toolchain_and_features().
TOOLCHAIN_ATTRIBUTE = attr.label(
    default = Label("@bazel_tools//tools/cpp:current_cc_toolchain"),
)
TOOLCHAIN_TYPE = "@bazel_tools//tools/cpp:toolchain_type"

def toolchain_and_features(ctx):
    """The C++ toolchain of a rule and the features that it is configured with."""
    toolchain = find_cpp_toolchain(ctx)
    return toolchain, cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )

def merged(deps):
    """The CcInfo of several dependencies."""
    return cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in deps])

# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0

"""Headers of other projects that are compiled once for many sources.

Abseil, GoogleTest and the standard library take most of the time of a small
source. cc.bzl adds such a header to sources with `-include` if Bazel runs with
--define=precompiled_headers=all, as .bazelrc says for Tenon's own workspace, or
to those of tests only, with =tests.
"""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "ACTION_NAMES")
load(
    "//bazel:toolchain.bzl",
    "TOOLCHAIN_ATTRIBUTE",
    "TOOLCHAIN_TYPE",
    "merged",
    "toolchain_and_features",
)

# Without the time of the header the file is the same each time; templates that
# the headers themselves use are instantiated in it, not in each source.
_CLANG_FLAGS = ["-Xclang", "-fno-pch-timestamp", "-fpch-instantiate-templates"]

def _precompiled_header_impl(ctx):
    toolchain, features = toolchain_and_features(ctx)
    context = merged(ctx.attr.deps).compilation_context

    # gcc and clang look for NAME.h.gch beside NAME.h.
    header = ctx.actions.declare_file(ctx.label.name + ".h")
    compiled = ctx.actions.declare_file(ctx.label.name + ".h.gch")
    ctx.actions.write(
        header,
        "".join(["#include <%s>\n" % name for name in ctx.attr.standard] +
                ["#include \"%s\"\n" % name for name in ctx.attr.includes]),
    )
    fragment = ctx.fragments.cpp
    is_clang = toolchain.compiler == "clang"
    variables = cc_common.create_compile_variables(
        feature_configuration = features,
        cc_toolchain = toolchain,
        source_file = header.path,
        output_file = compiled.path,
        user_compile_flags = fragment.copts + fragment.cxxopts + ctx.attr.copts +
                             ["-x", "c++-header"] +
                             (_CLANG_FLAGS if is_clang else []),
        include_directories = context.includes,
        quote_include_directories = context.quote_includes,
        system_include_directories = context.system_includes,
        preprocessor_defines = context.defines,
    )
    ctx.actions.run(
        mnemonic = "CppPrecompile",
        progress_message = "Precompiling " + header.short_path,
        executable = cc_common.get_tool_for_action(
            feature_configuration = features,
            action_name = ACTION_NAMES.cpp_compile,
        ),
        arguments = cc_common.get_memory_inefficient_command_line(
            feature_configuration = features,
            action_name = ACTION_NAMES.cpp_compile,
            variables = variables,
        ),
        inputs = depset([header], transitive = [toolchain.all_files, context.headers]),
        outputs = [compiled],
        # clang writes absolute paths into it, and into what depends on it.
        execution_requirements = {"no-sandbox": "1", "no-cache": "1"} if is_clang else {},
    )
    files = depset([header, compiled])
    return [
        DefaultInfo(files = files),
        CcInfo(compilation_context = cc_common.create_compilation_context(headers = files)),
    ]

precompiled_header = rule(
    implementation = _precompiled_header_impl,
    doc = "A header that includes others, and its compiled form. Its users include <name>.h first.",
    attrs = {
        "copts": attr.string_list(doc = "Flags of all sources that use it."),
        "deps": attr.label_list(providers = [CcInfo]),
        "includes": attr.string_list(doc = "Headers of deps."),
        "standard": attr.string_list(doc = "Headers of the standard library."),
        "_cc_toolchain": TOOLCHAIN_ATTRIBUTE,
    },
    fragments = ["cpp"],
    toolchains = [TOOLCHAIN_TYPE],
)

# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0

"""Programs that load shared libraries which use Tenon, and such libraries.

A library takes Tenon from the program that loads it: there is one registry of
datasets, and the library has nothing of Tenon in it.
"""

load("//bazel:cc.bzl", "cc_binary")
load(
    "//bazel:toolchain.bzl",
    "TOOLCHAIN_ATTRIBUTE",
    "TOOLCHAIN_TYPE",
    "merged",
    "toolchain_and_features",
)

def _headers_impl(ctx):
    return [CcInfo(compilation_context = merged(ctx.attr.deps).compilation_context)]

# Libraries to compile with, and not to link.
_headers = rule(
    implementation = _headers_impl,
    attrs = {"deps": attr.label_list(providers = [CcInfo])},
)

def _whole_impl(ctx):
    toolchain, features = toolchain_and_features(ctx)
    whole = merged(ctx.attr.deps)
    inputs = []
    for input in whole.linking_context.linker_inputs.to_list():
        libraries = []
        for library in input.libraries:
            if library.static_library == None and library.pic_static_library == None:
                libraries.append(library)
                continue
            libraries.append(cc_common.create_library_to_link(
                actions = ctx.actions,
                feature_configuration = features,
                cc_toolchain = toolchain,
                static_library = library.static_library,
                pic_static_library = library.pic_static_library,
                alwayslink = True,
            ))
        inputs.append(cc_common.create_linker_input(
            owner = input.owner,
            libraries = depset(libraries),
            user_link_flags = depset(input.user_link_flags),
            additional_inputs = depset(input.additional_inputs),
        ))
    return [CcInfo(
        compilation_context = whole.compilation_context,
        linking_context = cc_common.create_linking_context(
            linker_inputs = depset(inputs, order = "topological"),
        ),
    )]

# Libraries of which a program has every object, needed by itself or not.
_whole = rule(
    implementation = _whole_impl,
    attrs = {
        "deps": attr.label_list(providers = [CcInfo]),
        "_cc_toolchain": TOOLCHAIN_ATTRIBUTE,
    },
    fragments = ["cpp"],
    toolchains = [TOOLCHAIN_TYPE],
)

def plugin_host(name, deps, **kwargs):
    """A program whose plugins find all of `deps` in it, Abseil included.

    Args:
      name: the program.
      deps: libraries.
      **kwargs: of cc_binary.
    """
    _whole(
        name = name + "_libraries",
        deps = deps,
        visibility = ["//visibility:private"],
    )
    cc_binary(
        name = name,
        linkopts = ["-rdynamic"],
        deps = [":%s_libraries" % name],
        **kwargs
    )

def plugin(name, srcs, host_deps = [], deps = [], copts = [], testonly = False, **kwargs):
    """A shared library for a program of plugin_host().

    Args:
      name: the file, such as "libphotos.so".
      srcs: sources.
      host_deps: libraries that are in the program.
      deps: libraries that are not, and that need none of Tenon.
      copts: of cc_binary.
      testonly: of cc_binary.
      **kwargs: of cc_binary.
    """
    _headers(
        name = name + "_headers",
        deps = host_deps,
        testonly = testonly,
        visibility = ["//visibility:private"],
    )
    cc_binary(
        name = name,
        srcs = srcs,
        copts = ["-fPIC"] + copts,
        linkshared = True,
        testonly = testonly,
        deps = [":%s_headers" % name] + deps,
        **kwargs
    )

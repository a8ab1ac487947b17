# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0

"""Compiles the examples of a package's public headers and READMEs."""

load("//bazel:cc.bzl", "cc_library")

def _public_headers_impl(ctx):
    """The headers of `deps` where they are included from."""
    return DefaultInfo(files = depset([
        header
        for dep in ctx.attr.deps
        for header in dep[CcInfo].compilation_context.direct_public_headers
        if "/_virtual_includes/" in header.path
    ]))

_public_headers = rule(
    implementation = _public_headers_impl,
    attrs = {"deps": attr.label_list(providers = [CcInfo])},
)

def examples_test(
        libraries = [],
        names = None,
        docs = ["README.md"],
        using = [],
        deps = [],
        **kwargs):
    """examples_test: every example of the libraries' headers compiles.

    bazel/README.md says what an example may look like.

    Args:
      libraries: labels of libraries.
      names: a header that declares what examples use without declaring it.
      docs: Markdown files.
      using: namespaces whose names examples use as they are.
      deps: what examples need beside the libraries.
      **kwargs: of the library and the test.
    """
    headers = [":examples_headers"] if libraries else []
    if libraries:
        _public_headers(
            name = "examples_headers",
            testonly = True,
            deps = libraries,
        )
    options = ["--using " + namespace for namespace in using]
    if names:
        options.append("--names %s/%s" % (native.package_name(), names))
    native.genrule(
        name = "examples_source",
        testonly = True,
        srcs = headers + docs,
        outs = ["examples.cc", "examples.txt"],
        cmd = "python3 $(location //bazel:extract_examples.py) %s" %
              " ".join(options) + " --source $(location examples.cc)" +
              " --list $(location examples.txt) " +
              " ".join(["$(locations %s)" % label for label in headers + docs]),
        tools = ["//bazel:extract_examples.py"],
    )
    cc_library(
        name = "examples",
        testonly = True,
        srcs = ["examples.cc"] + ([names] if names else []),
        # An example's main() is in a namespace, where it must return a value.
        copts = [
            "-Wno-return-type",
            "-Wno-shadow",
            "-Wno-unused",
            "-Wno-unused-parameter",  # Of clang, which counts it by itself.
        ],
        deps = deps + libraries,
        **kwargs
    )
    # A library in `data` would not be built.
    native.genrule(
        name = "examples_compiled",
        testonly = True,
        srcs = [":examples", "examples.txt"],
        outs = ["examples_compiled.txt"],
        cmd = "cp $(location examples.txt) $@",
        **kwargs
    )
    native.sh_test(
        name = "examples_test",
        size = "small",
        srcs = ["//bazel:examples_test.sh"],
        args = ["$(location examples_compiled.txt)"],
        data = ["examples_compiled.txt"],
        # Runs no code that a sanitizer could instrument.
        tags = ["noasan"],
        **kwargs
    )

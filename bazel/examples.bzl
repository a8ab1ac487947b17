# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0

"""Compiles the examples of a package's public headers and READMEs."""

load("//bazel:cc.bzl", "cc_library")

def _public_libraries():
    """Libraries of this BUILD file, so far, that users may depend on."""
    return [
        rule
        for rule in native.existing_rules().values()
        if rule["kind"] == "cc_library" and
           "//visibility:public" in rule.get("visibility", [])
    ]

def examples_test(
        names = None,
        docs = ["README.md"],
        using = [],
        also = [],
        deps = [],
        **kwargs):
    """examples_test: every example of the package compiles.

    Written last in a BUILD file: it takes the headers of all public libraries
    above it. bazel/README.md says what an example may look like.

    Args:
      names: a header that declares what examples use without declaring it.
      docs: Markdown files.
      using: namespaces whose names examples use as they are.
      also: labels of headers that are not in public libraries.
      deps: libraries beside the public ones of this package.
      **kwargs: of the library and the test.
    """
    libraries = _public_libraries()
    package = native.package_name()
    headers = also + [
        header
        for library in libraries
        for header in library.get("hdrs", [])
    ]
    files = [
        "tenon/%s/%s=$(location %s)" % (package, header.lstrip(":"), header)
        for header in headers
    ] + ["$(location %s)" % doc for doc in docs]
    options = ["--using " + namespace for namespace in using]
    if names:
        options.append("--names %s/%s" % (package, names))
    native.genrule(
        name = "examples_source",
        testonly = True,
        srcs = headers + docs,
        outs = ["examples.cc", "examples.txt"],
        cmd = "python3 $(location //bazel:extract_examples.py) %s" %
              " ".join(options) + " --source $(location examples.cc)" +
              " --list $(location examples.txt) " + " ".join(files),
        tools = ["//bazel:extract_examples.py"],
    )
    cc_library(
        name = "examples",
        testonly = True,
        srcs = ["examples.cc"] + ([names] if names else []),
        # An example's main() is in a namespace, where it must return a value.
        copts = ["-Wno-return-type", "-Wno-shadow", "-Wno-unused"],
        deps = deps + [":" + library["name"] for library in libraries],
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
        # No code runs that a sanitizer could instrument.
        tags = ["noasan"],
        **kwargs
    )

# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0

"""The headers of CUDA's driver API and of NVTX, where there is a toolkit.

Tenon calls the driver through dlopen and has its own declarations, in
//cuda_ipc:cuda_api; a test compares them with these headers. The toolkit is at $CUDA_PATH, else at /usr/local/cuda. Without one
@local_cuda//:cuda_headers and that test are incompatible: a build of //...
passes them over.

@local_cuda//:nvtx is header-only and defines TENON_HAS_NVTX. Without a toolkit,
or in one without nvtx3/, it is empty: code that traces compiles to nothing.
"""

_FOUND = """
cc_library(
    name = "cuda_headers",
    hdrs = glob(["include/*.h"]),
    includes = ["include"],
    visibility = ["//visibility:public"],
)
"""

_NOT_FOUND = """
cc_library(
    name = "cuda_headers",
    target_compatible_with = ["%s"],
    visibility = ["//visibility:public"],
)
"""

_NVTX = """
cc_library(
    name = "nvtx",
    hdrs = glob(["nvtx/**/*.h"]),
    defines = ["TENON_HAS_NVTX"],
    includes = ["nvtx"],
    linkopts = ["-ldl"],
    visibility = ["//visibility:public"],
)
"""

_NO_NVTX = """
cc_library(
    name = "nvtx",
    visibility = ["//visibility:public"],
)
"""

_HEADERS = ["cuda.h", "cudaTypedefs.h"]

def _local_cuda_impl(ctx):
    include = ctx.path(
        ctx.os.environ.get("CUDA_PATH", "/usr/local/cuda") + "/include",
    )
    text = 'load("@rules_cc//cc:defs.bzl", "cc_library")\n'
    if include.get_child("cuda.h").exists:
        for header in _HEADERS:
            ctx.symlink(include.get_child(header), "include/" + header)
        text += _FOUND
    else:
        text += _NOT_FOUND % ctx.attr.constraint
    nvtx = include.get_child("nvtx3")
    if nvtx.get_child("nvToolsExt.h").exists:
        ctx.symlink(nvtx, "nvtx/nvtx3")
        text += _NVTX
    else:
        text += _NO_NVTX
    ctx.file("BUILD.bazel", text)

_local_cuda = repository_rule(
    implementation = _local_cuda_impl,
    attrs = {"constraint": attr.string(mandatory = True)},
    environ = ["CUDA_PATH"],
    local = True,
)

def local_cuda(name):
    constraint = str(Label("//bazel:cuda_toolkit_found"))
    if constraint.startswith("//"):
        constraint = "@" + constraint
    _local_cuda(name = name, constraint = constraint)

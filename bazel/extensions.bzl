# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0

"""Libraries of the system, for MODULE.bazel. Not run yet; see there."""

load("//third_party/cuda:cuda.bzl", "local_cuda")
load("//third_party/eigen:eigen.bzl", "eigen")
load("//third_party/libjpeg_turbo:libjpeg_turbo.bzl", "libjpeg_turbo")
load("//third_party/ncurses:ncurses.bzl", "ncurses")
load("//third_party/random123:random123.bzl", "random123")

def _system_impl(_ctx):
    eigen(name = "eigen")
    libjpeg_turbo(name = "libjpeg_turbo")
    local_cuda(name = "local_cuda")
    ncurses(name = "ncurses")
    random123(name = "random123")

system = module_extension(implementation = _system_impl)

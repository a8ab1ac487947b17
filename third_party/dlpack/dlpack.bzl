# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0

"""DLPack 0.6: one header."""

load("//third_party:system_library.bzl", "system_library")

def dlpack(name):
    system_library(
        name = name,
        debian_package = "libdlpack-dev",
        header = "dlpack/dlpack.h",
        targets = {":dlpack": ""},
    )

# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0

"""Random123: counter-based random numbers, headers only."""

load("//third_party:system_library.bzl", "system_library")

def random123(name):
    system_library(
        name = name,
        debian_package = "librandom123-dev",
        header = "Random123/philox.h",
        targets = {":random123": ""},
    )

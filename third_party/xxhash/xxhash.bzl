# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0

"""xxHash."""

load("//third_party:system_library.bzl", "system_library")

def xxhash(name):
    system_library(
        name = name,
        debian_package = "libxxhash-dev",
        targets = {":xxhash": "libxxhash"},
    )

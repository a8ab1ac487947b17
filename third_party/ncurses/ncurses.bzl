# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0

"""ncurses, with wide characters."""

load("//third_party:system_library.bzl", "system_library")

def ncurses(name):
    system_library(
        name = name,
        debian_package = "libncurses-dev",
        targets = {":ncurses": "ncursesw"},
    )

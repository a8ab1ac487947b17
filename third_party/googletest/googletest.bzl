# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0

"""GoogleTest, with gMock in it, as upstream's targets have."""

load("//third_party:system_library.bzl", "system_library")

def googletest(name):
    system_library(
        name = name,
        debian_package = "libgmock-dev",
        targets = {
            ":gtest": "gmock",
            ":gtest_main": "gmock_main",
        },
    )

# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0

"""glog 0.6, for programs and daemons only. @glog is short for @glog//:glog.

A program with it needs libunwind8 where it runs.
"""

load("//third_party:system_library.bzl", "system_library")

def glog(name):
    system_library(
        name = name,
        debian_package = "libgoogle-glog-dev",
        # Debian's libunwind.a is not position-independent.
        shared = ["unwind"],
        targets = {":glog": "libglog"},
    )

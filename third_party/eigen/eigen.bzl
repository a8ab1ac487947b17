# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0

"""Eigen 3, headers only."""

load("//third_party:system_library.bzl", "system_library")

def eigen(name):
    system_library(
        name = name,
        debian_package = "libeigen3-dev",
        header = "eigen3/Eigen/Core",
        include_folder = "eigen3",
        targets = {":eigen": ""},
    )

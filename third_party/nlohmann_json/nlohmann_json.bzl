# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0

"""JSON for Modern C++, headers only."""

load("//third_party:system_library.bzl", "system_library")

def nlohmann_json(name):
    system_library(
        name = name,
        debian_package = "nlohmann-json3-dev",
        header = "nlohmann/json.hpp",
        targets = {":json": ""},
    )

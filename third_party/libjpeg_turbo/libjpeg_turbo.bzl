# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0

"""libjpeg-turbo: the TurboJPEG API."""

load("//third_party:system_library.bzl", "system_library")

def libjpeg_turbo(name):
    system_library(
        name = name,
        debian_package = "libturbojpeg0-dev",
        targets = {":turbojpeg": "libturbojpeg"},
    )

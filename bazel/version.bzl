# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0

"""The version of Tenon: of its archive, of `tenon --version`, and in errors.

The only place. //tools:version_test compares it with what cannot load this
file: MODULE.bazel, the loader's plugins, CHANGELOG.md.
"""

VERSION = "0.1.0"

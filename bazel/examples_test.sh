#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
#
# The test of a package's examples. Its data exists only if the library
# generated from them has compiled. Prints their list.

cat "$1"
printf '%d examples compile\n' "$(wc -l < "$1")"
[[ -s $1 ]]

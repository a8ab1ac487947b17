#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs the model with the Python of the machine: ledger.py [options].

exec python3 -B "$@"

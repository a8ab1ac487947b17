#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs a soak program for a moment.
exec "$@"

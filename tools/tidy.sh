#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs clang-tidy 16, with .clang-tidy, over what changed since a commit.
#
#   tools/tidy.sh               # sources changed since origin/main
#   tools/tidy.sh COMMIT        # since another commit
#   tools/tidy.sh --all         # every source: more than an hour on two cores
#   tools/tidy.sh FILE.cc...    # these
#
# By hand, not in .ci/run: a source takes 12 to 17 s of CPU time. A changed
# header is checked with the changed sources. Exits 1 if anything is found.

set -euo pipefail
cd "$(dirname "$0")/.."
tidy=${CLANG_TIDY:-clang-tidy-16}

case ${1:-origin/main} in
  --all) mapfile -t files < <(git ls-files '*.cc') ;;
  *.cc) files=("$@") ;;
  *) mapfile -t files < <(git diff --name-only --diff-filter=d \
       "${1:-origin/main}" -- '*.cc') ;;
esac
((${#files[@]} > 0)) || { echo "tidy: no source has changed"; exit; }

# Headers are found in the checkout: see tools/compile_commands.py.
[[ -e compile_commands.json ]] || tools/compile_commands.py
printf '%s\n' "${files[@]}" |
  xargs -P "$(nproc)" -n 1 "$tidy" -p . --quiet --warnings-as-errors='*'

#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
#
# Runs clang-tidy 19, with .clang-tidy. Exits with an error if anything is found.
#
#   tools/tidy.sh               # sources changed since origin/main
#   tools/tidy.sh COMMIT        # since another commit
#   tools/tidy.sh --ci          # a selection of eight, by the commit
#   tools/tidy.sh --all         # every source of a library: 40 minutes or more
#   tools/tidy.sh FILE.cc...    # these
#
# A source takes 9 to 17 s of CPU time, mostly for the headers that it includes.
# Headers of Tenon are checked with it. So --ci checks 8 sources of libraries:
# the 5 that were committed last (a header counts as the source of its name), and
# 3 whose turn it is, by the number of commits. --list prints the selection only.
# Not selected are the supervisor's program, which has no C library, so that the
# analyzer does not know what its system calls write, and a source that includes
# a generated header.

set -euo pipefail
cd "$(dirname "$0")/.."
tidy=${CLANG_TIDY:-clang-tidy-19}
recent=5
by_turn=3

list_only=
[[ ${1:-} != --list ]] || { list_only=1; shift; }

library_sources() {
  git ls-files -- {shm,ipc,cuda_ipc,futures,spawn,shm_manager,loader}/'**.cc' |
    grep -vE 'test|benchmark|/proof/|/model/|supervisor_(main|image)[.]cc'
}

committed_last() {
  git log -n 100 --format= --name-only | sed -nE 's/\.(h|cc)$/.cc/p' |
    awk -v most="$recent" 'NR == FNR { known[$0]; next }
      $0 in known && !seen[$0]++ && ++count <= most' <(library_sources) -
}

whose_turn_it_is() {
  local sources i commits
  mapfile -t sources < <(library_sources)
  commits=$(git rev-list --count HEAD)
  for ((i = 0; i < by_turn; ++i)); do
    echo "${sources[(commits * by_turn + i) % ${#sources[@]}]}"
  done
}

case ${1:-origin/main} in
  --all) mapfile -t files < <(library_sources) ;;
  --ci) mapfile -t files < <({ committed_last; whose_turn_it_is; } |
          awk '!seen[$0]++') ;;
  *.cc) files=("$@") ;;
  *) git rev-parse --quiet --verify "${1:-origin/main}^{commit}" > /dev/null ||
       { echo "tidy: no such commit: ${1:-origin/main}" >&2; exit 2; }
     mapfile -t files < <(git diff --name-only --diff-filter=d \
       "${1:-origin/main}" -- '*.cc') ;;
esac
((${#files[@]} > 0)) || { echo "tidy: no source has changed"; exit; }
printf '%s\n' "${files[@]}"
[[ -z $list_only ]] || exit 0

# Headers are found in the checkout: see tools/compile_commands.py.
[[ -e compile_commands.json && ${1:-} != --ci ]] ||
  tools/compile_commands.py -- --config=ci
printf '%s\0' "${files[@]}" |
  xargs -0 -P "$(nproc)" -n 1 "$tidy" -p . --quiet --warnings-as-errors='*'

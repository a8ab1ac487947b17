#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
#
# Shows that a dependency that goes sideways or up is detected, twice: by the
# macros while loading, and by check_layers.py if the macros are bypassed. Works
# on a copy of the tree, with a Bazel server of its own, so it is run by itself
# and not by `bazel test`:
#
#   tools/check_layers_test.sh

set -euo pipefail
cd "$(dirname "$0")/.."

scratch=$(mktemp -d)
tree=$scratch/tree
server=(bazel "--output_base=$scratch/base" --max_idle_secs=60)
export BAZEL="${server[*]}"

clean_up() {
  (cd "$tree" && "${server[@]}" shutdown) > /dev/null 2>&1 || true
  chmod -R u+w "$scratch" && rm -rf "$scratch"
}
trap clean_up EXIT

copy_tree() {
  mkdir "$tree"
  git ls-files -z --cached --others --exclude-standard --deduplicate |
    while IFS= read -r -d '' file; do
      # A file that is deleted but not yet committed is still listed.
      [[ ! -e $file ]] || printf '%s\0' "$file"
    done | tar -c --null -T - | tar -x -C "$tree"
}

failures=0
expect() {  # expect WHAT PATTERN STATUS OUTPUT
  if [[ $3 == 1 && $4 == *"$2"* ]]; then
    printf 'ok    %s\n' "$1"
  else
    printf 'FAIL  %s: exit %s, without "%s":\n%s\n' "$1" "$3" "$2" "$4"
    failures=$((failures + 1))
  fi
}

# Makes //$1/layers_try depend on //$2/layers_try, with the rules of $3.
add_dependency() {
  local above=$tree/$1/layers_try below=$tree/$2/layers_try
  mkdir -p "$above" "$below"
  {
    printf 'load("%s", "cc_library")\n' "$3"
    printf 'cc_library(name = "x", deps = ["//%s/layers_try:y"])\n' "$2"
  } > "$above/BUILD.bazel"
  {
    printf 'load("//bazel:cc.bzl", "cc_library")\n'
    printf 'cc_library(name = "y", visibility = ["//:__subpackages__"])\n'
  } > "$below/BUILD.bazel"
}

remove_dependency() {
  rm -r "$tree/$1/layers_try" "$tree/$2/layers_try"
}

# $1 -> $2 is forbidden, and is detected in both ways.
try_pair() {
  local output status
  add_dependency "$1" "$2" //bazel:cc.bzl
  status=0
  output=$(cd "$tree" && "${server[@]}" query "//$1/layers_try:x" 2>&1) ||
    status=1
  expect "macro: //$1 -> //$2" "may depend only on lower ranks" \
    "$status" "$output"

  add_dependency "$1" "$2" @rules_cc//cc:defs.bzl
  status=0
  output=$("$tree/tools/check_layers.py" 2>&1) || status=1
  expect "query: //$1 -> //$2" "//$1/layers_try:x (rank" "$status" "$output"
  remove_dependency "$1" "$2"
}

# Tenon's own targets may not name what is for users.
try_umbrella() {
  local output status=0
  mkdir -p "$tree/examples/layers_try"
  {
    printf 'load("//bazel:cc.bzl", "cc_library")\n'
    printf 'cc_library(name = "x", deps = ["//shm"])\n'
  } > "$tree/examples/layers_try/BUILD.bazel"
  output=$(cd "$tree" && "${server[@]}" query "//examples/layers_try:x" 2>&1) ||
    status=1
  expect "macro: an umbrella" "which is for users of Tenon" "$status" "$output"
  rm -r "$tree/examples/layers_try"
}

copy_tree
"$tree/tools/check_layers.py"
try_pair spawn shm_manager  # sideways
try_pair shm_manager spawn  # sideways
try_pair shm ipc            # up
try_pair ipc loader         # up
try_pair loader examples    # up
try_pair shm/segment shm/arena  # up, a room
try_pair shm/value shm/arena    # sideways, a room
try_umbrella
"$tree/tools/check_layers.py" > /dev/null
printf 'check_layers_test: %d failures\n' "$failures"
((failures == 0))

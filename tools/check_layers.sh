#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
#
# Proves that no package depends sideways or upward, over the whole graph.
#
# The macros of bazel/cc.bzl check what is written in them. This asks Bazel for
# every edge there is, whatever rule made it, and holds it against the ranks of
# bazel/layers.bzl. Prints which floor stands on which; exits 1 with each edge
# that should not be.
#
#   BAZEL="bazel --output_base=/tmp/other" tools/check_layers.sh

set -euo pipefail
cd "$(dirname "$0")/.."

read -ra bazel <<< "${BAZEL:-./bazelw}"

ranks() {
  sed -n 's/^    "\([a-z_]*\)": \([0-9]*\),$/\1 \2/p' bazel/layers.bzl
}

# Every edge as two words.
edges() {
  "${bazel[@]}" query --noshow_progress --noimplicit_deps \
    --output=graph --nograph:factored 'deps(//...)' |
    sed -n 's/^  "\(.*\)" -> "\(.*\)"$/\1 \2/p'
}

# Out of the checkout: BAZEL may be a path into it, and nothing is left behind.
graph=$(mktemp)
trap 'rm -f "$graph"' EXIT
edges > "$graph"

awk '
  function floor(label) {
    if (label ~ /^@/) return "third_party"
    sub("^//", "", label)
    sub("[/:].*", "", label)
    return label
  }
  function known(name, label) {
    if (name in rank) return 1
    printf "%s: no rank for \"%s\" in bazel/layers.bzl\n", label, name
    bad = 1
    return 0
  }
  FNR == NR { rank[$1] = $2; order[++floors] = $1; next }
  {
    ++edges
    above = floor($1); below = floor($2)
    if ($2 ~ /^@/ || above == below || below == "bazel") next
    if (below == "") next  # Documents, which stand beside the floors.
    if (!known(above, $1) || !known(below, $2)) next
    uses[above, below] = 1
    if (rank[below] < rank[above]) next
    printf "%s (rank %d) -> %s (rank %d)\n", $1, rank[above], $2, rank[below]
    bad = 1
  }
  END {
    if (bad) { print "check_layers: these must not be"; exit 1 }
    for (i = 1; i <= floors; ++i) {
      line = sprintf("%d %-12s ->", rank[order[i]], order[i])
      for (j = 1; j <= floors; ++j)
        if ((order[i], order[j]) in uses) line = line " " order[j]
      if (line !~ /->$/) print line
    }
    printf "check_layers: %d edges, none goes sideways or up\n", edges
    if (edges == 0) { print "check_layers: no edges, no proof"; exit 1 }
  }
' <(ranks) "$graph"

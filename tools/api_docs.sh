#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
#
# Writes API pages of the public headers with Doxygen (Debian's package):
#
#   tools/api_docs.sh [FOLDER]      # FOLDER/html/index.html; default: api_docs
#   tools/api_docs.sh --check      # into a temporary folder
#
# Exits 1 for a warning of Doxygen, a link of a page that leads nowhere, and a header
# that a comment names and that does not exist.

set -euo pipefail
cd "$(dirname "$0")/.."

out=${1:-api_docs}
if [[ $out == --check ]]; then
  out=$(mktemp -d)
  trap 'rm -rf "$out"' EXIT
fi
mkdir -p "$out"

mapfile -t headers < <(tools/public_index.py --headers)
((${#headers[@]} >= 50)) || { echo "only ${#headers[@]} public headers"; exit 1; }

rm -rf "$out/headers" "$out/html"
tools/doxygen_filter.py "$out/headers" "${headers[@]}"
{
  cat docs/Doxyfile
  echo "OUTPUT_DIRECTORY = $out"
  echo "INPUT = $out/headers"
  echo "STRIP_FROM_PATH = $out/headers"
} > "$out/Doxyfile"
# With WARN_AS_ERROR, Doxygen 1.9.4 hangs at its end.
warnings=$(timeout 600 doxygen "$out/Doxyfile" 2>&1) || { echo "$warnings"; exit 1; }
[[ -z $warnings ]] || { head -n 50 <<< "$warnings"; exit 1; }

python3 tools/check_api_links.py "$out/html" "${headers[@]}"

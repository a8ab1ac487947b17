#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
#
# Exits 1 and lists the C++ files that clang-format 14 would change. Later
# versions format differently.
#
#   tools/check_format.sh          # all that git lists
#   tools/check_format.sh --fix    # formats them

set -euo pipefail
cd "$(dirname "$0")/.."

format=${CLANG_FORMAT:-clang-format-14}
mapfile -t files < <(git ls-files '*.h' '*.cc')
((${#files[@]} > 0)) || { echo "check_format: git lists no file"; exit 1; }

if [[ ${1:-} == --fix ]]; then
  "$format" -i "${files[@]}"
  exit
fi

printf '%s\n' "${files[@]}" |
  xargs -P "$(nproc)" -n 40 "$format" --dry-run -Werror --ferror-limit=1 ||
  { echo "check_format: run tools/check_format.sh --fix"; exit 1; }
echo "check_format: ${#files[@]} files are formatted"

#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
#
# Prints the figures of this project, or of any folder, as a Markdown table:
# docs/house.md explains the columns.
#
#   tools/house.sh                          # this project, a row for each package
#   tools/house.sh ../other/project/src     # any other project
#   tools/house.sh --words spawn            # each counted word, with file and line
#   tools/house.sh --reach ipc              # what each public header includes
#
# Lizard measures lengths of functions. If Python lacks it, it is installed from
# PyPI into a folder of its own; without a network that column stays empty.

set -euo pipefail
here=$(dirname "$0")
python=python3

if ! "$python" -c 'import lizard' 2> /dev/null; then
  folder=${XDG_CACHE_HOME:-$HOME/.cache}/tenon-house
  if [[ ! -x $folder/bin/lizard ]]; then
    { python3 -m venv "$folder" && "$folder/bin/pip" install -q lizard==1.24.3
    } >&2 || echo "house.sh: no lizard, no lengths of functions" >&2
  fi
  [[ ! -x $folder/bin/lizard ]] || python=$folder/bin/python
fi
exec "$python" "$here/house.py" "$@"

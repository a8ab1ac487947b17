#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
#
# Fuzzes one parser with libFuzzer, under AddressSanitizer and
# UndefinedBehaviorSanitizer, from its committed corpus.
#
#   tools/fuzz.sh //ipc/listener:hello_fuzz_test             # 3,000,000 executions
#   tools/fuzz.sh //ipc/listener:hello_fuzz_test 100000 -max_len=160
#
# A target is a cc_test NAME_fuzz_test with its corpus in testdata/NAME_fuzz;
# arguments after the number are passed to libFuzzer. Findings are left in the
# working directory, as libFuzzer reports; other files are removed. Exit code:
# that of the fuzzer. Needs clang-14 (apt-get install clang-14) and ./bazelw.

set -euo pipefail
cd "$(dirname "$0")/.."

target=${1:?a target, as //ipc/listener:hello_fuzz_test}
runs=${2:-3000000}
shift $(($# < 2 ? $# : 2))

package=${target#//}
package=${package%%:*}
name=${target##*:}
corpus=$package/testdata/${name%_test}
[[ -d $corpus ]] || { echo "no corpus at $corpus" >&2; exit 2; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ln -s "$PWD" "$work/tenon"
mkdir "$work/new"

# Only files of this repository, and without //shm/testing, which runs it as a
# test of GoogleTest.
mapfile -t sources < <(
  ./bazelw query --noshow_progress \
    "kind('source file', deps($target))" 2> "$work/query" |
    sed -n 's|^//\([^:]*\):\(.*\.cc\)$|\1/\2|p' | grep -v '^shm/testing/')
((${#sources[@]} > 0)) || { cat "$work/query" >&2; exit 2; }

mapfile -t libraries < <(
  pkg-config --libs absl_status absl_statusor absl_str_format absl_strings \
    absl_time absl_flat_hash_map absl_flat_hash_set absl_symbolize |
    tr ' ' '\n' | grep .)

clang++-14 -std=c++20 -g -O1 -DTENON_FUZZ -I "$work" -I third_party/dlpack \
  -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined \
  "${sources[@]}" "${libraries[@]}" -o "$work/fuzzer"

"$work/fuzzer" -runs="$runs" -print_final_stats=1 "$@" "$work/new" "$corpus"

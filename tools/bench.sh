#!/bin/sh
# bench.sh BUILD [NAME] -- all benchmarks, or the one called NAME.
#
# NAME is tools/bench-NAME.sh if there is one, else the program BUILD/bench/NAME.
# Without NAME: every tools/bench-*.sh, then the programs that no script runs.
set -eu
cd "$(dirname "$0")/.."
build=$1
export ZI_BUILD_DIR="$PWD/$build" ZI_SOURCE_DIR="$PWD"
if [ $# -gt 1 ]; then
    shift
    name=$1
    shift
    if [ -x "tools/bench-$name.sh" ]; then exec "tools/bench-$name.sh" "$@"; fi
    if [ -x "$build/bench/$name" ]; then exec "$build/bench/$name" "$@"; fi
    echo "bench: neither tools/bench-$name.sh nor bench/$name.c" >&2
    exit 2
fi
for script in tools/bench-*.sh; do
    [ -x "$script" ] || continue
    echo "== $script"
    "$script"
done
for program in "$build"/bench/*; do
    [ -f "$program" ] && [ -x "$program" ] || continue
    grep -qs "bench/$(basename "$program")\b" tools/bench-*.sh && continue
    echo "== $program"
    "$program"
done

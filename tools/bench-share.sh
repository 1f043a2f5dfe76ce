#!/bin/sh
# bench-share.sh -- many jobs under one budget, all policies; options go to bench/share.py.
set -eu
: "${ZI_BUILD_DIR:=$PWD/build/release}" "${ZI_SOURCE_DIR:=$PWD}"
export ZI_BUILD_DIR ZI_SOURCE_DIR
mkdir -p "$ZI_SOURCE_DIR/out"
exec /usr/bin/python3 "$ZI_SOURCE_DIR/bench/share.py" --results "$ZI_SOURCE_DIR/out/share.jsonl" \
    --json "$ZI_SOURCE_DIR/out/share.json" --svg "$ZI_SOURCE_DIR/out/share.svg" "$@"

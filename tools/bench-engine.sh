#!/bin/sh
# bench-engine.sh -- the engine against PyTorch on this machine; options go to bench/engine.py.
set -eu
: "${ZI_BUILD_DIR:=$PWD/build/release}" "${ZI_SOURCE_DIR:=$PWD}"
export ZI_BUILD_DIR ZI_SOURCE_DIR
out="$ZI_SOURCE_DIR/out"
mkdir -p "$out"
cc -shared -fPIC -O2 -o "$out/librecorder.so" "$ZI_SOURCE_DIR/bench/recorder/recorder.c"
ZI_RECORDER="$out/librecorder.so" exec /usr/bin/python3 "$ZI_SOURCE_DIR/bench/engine.py" \
    --json "$out/engine.json" "$@"

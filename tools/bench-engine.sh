#!/bin/sh
# bench-engine.sh -- the engine against PyTorch on this machine; options go to bench/engine.py.
# All rounds are kept in out/engine.json.  In pieces, each while nothing else runs:
#   tools/bench-engine.sh --add --nets resnet50,vgg16 --rounds 3 --steps 2   and so on
#   tools/bench-engine.sh --report                                          the table of all
set -eu
: "${ZI_BUILD_DIR:=$PWD/build/release}" "${ZI_SOURCE_DIR:=$PWD}"
export ZI_BUILD_DIR ZI_SOURCE_DIR
out="$ZI_SOURCE_DIR/out"
mkdir -p "$out"
cc -shared -fPIC -O2 -o "$out/librecorder.so" "$ZI_SOURCE_DIR/bench/recorder/recorder.c"
ZI_RECORDER="$out/librecorder.so" exec /usr/bin/python3 "$ZI_SOURCE_DIR/bench/engine.py" \
    --json "$out/engine.json" "$@"

#!/bin/sh
# bench-salus.sh -- queues and slices: 100 jobs by simulation, 16 native jobs for real, how long it
# takes to suspend and resume a native resnet50, six jobs in slices, and how many inference jobs a
# device holds; options go to bench/salus_real.py.
set -eu
: "${ZI_BUILD_DIR:=$PWD/build/release}" "${ZI_SOURCE_DIR:=$PWD}"
export ZI_BUILD_DIR ZI_SOURCE_DIR
"$ZI_BUILD_DIR/bench/salus_queue"
"$ZI_BUILD_DIR/bench/suspend_move"
exec /usr/bin/python3 "$ZI_SOURCE_DIR/bench/salus_real.py" "$@"

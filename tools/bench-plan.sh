#!/bin/sh
# bench-plan.sh [NET...] -- plans executed and placed: step time and peak of every planner.
#
# The figures of docs/benchmarks.md, "Plans": bench/plan_numbers (executed), the largest batch in
# the memory that keep needs for a small one, bench/plan_place (how tightly plans lie in
# regions), bench/plan_sqrt (an LSTM of 1000 steps), and PyTorch's checkpointing beside them.
set -eu
cd "$(dirname "$0")/.."
: "${ZI_BUILD_DIR:=$PWD/build/release}"
out=out
mkdir -p "$out"
"$ZI_BUILD_DIR/bench/plan_numbers" "$@" | tee "$out/plan_numbers.txt"
"$ZI_BUILD_DIR/bench/plan_place" | tee "$out/plan_place.txt"
"$ZI_BUILD_DIR/bench/plan_sqrt" "$out/plan_sqrt.svg" | tee "$out/plan_sqrt.txt"
"$ZI_BUILD_DIR/bench/plan_batch" "$@" | tee "$out/plan_batch.txt"
if /usr/bin/python3 -c 'import torch, torchvision' 2>/dev/null; then
    ZI_BUILD_DIR=$ZI_BUILD_DIR /usr/bin/python3 bench/plan_checkpoint.py "$@" |
        tee "$out/plan_checkpoint.txt"
else
    echo "PyTorch is not there: no comparison with its checkpointing"
fi

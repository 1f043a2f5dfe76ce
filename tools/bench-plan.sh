#!/bin/sh
# bench-plan.sh [--report] [NET...] -- plans executed and placed: step time and peak of every planner.
#
# The figures of docs/benchmarks.md, "Plans".  Rows are appended to out/plan.txt, so networks can be
# measured one at a time (`tools/bench-plan.sh gpt`); --report prints tables and pictures of what is there.
# All plans of a network run in turns, with a step of keep after every third.  ZI_STEPS=2 measures fewer steps of
# each plan (5).
# Without names: also the largest batches, how tightly plans lie in regions (bench/plan_place) and
# an LSTM of 1000 steps (bench/plan_sqrt).
set -eu
cd "$(dirname "$0")/.."
: "${ZI_BUILD_DIR:=$PWD/build/release}"
out=out
mkdir -p "$out"
report() { "$ZI_BUILD_DIR/bench/plan_report" "$out/plan.txt" "$out"; }
if [ "${1:-}" = --report ]; then
    report
    exit
fi
"$ZI_BUILD_DIR/bench/plan_numbers" --to "$out/plan.txt" --cheap --steps "${ZI_STEPS:-5}" "$@"
if /usr/bin/python3 -c 'import torch, torchvision' 2>/dev/null; then
    /usr/bin/python3 bench/plan_checkpoint.py --to "$out/plan.txt" "$@"
else
    echo "PyTorch is not there: no comparison with its checkpointing"
fi
if [ $# = 0 ]; then
    "$ZI_BUILD_DIR/bench/plan_place" | tee "$out/plan_place.txt"
    "$ZI_BUILD_DIR/bench/plan_sqrt" "$out/plan_sqrt.svg" | tee "$out/plan_sqrt.txt"
    "$ZI_BUILD_DIR/bench/plan_batch" --measure | tee "$out/plan_batch.txt"
fi
report
